package mcmmachine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// node is the Node of machine m; nil if there is none.
func (w *env) node() *corev1.Node {
	w.Helper()
	n := &corev1.Node{}
	err := w.workload.Get(w.Context(), client.ObjectKey{Name: "m"}, n)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return n
}

func TestNodeTemplateIsSynced(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	n := w.node()
	n.Labels, n.Spec.Taints = map[string]string{"theirs": "1"}, []corev1.Taint{{
		Key:    "theirs",
		Effect: corev1.TaintEffectNoSchedule,
	}}
	if err := w.workload.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.nodeWrites = 0
	change(w, w.get("m"), func(o *infrav1.MCMMachine) {
		o.Spec.NodeTemplate = infrav1.NodeTemplate{
			Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"c": "3"},
			Taints: []infrav1.Taint{{Key: "ours", Value: "x", Effect: "NoExecute"}},
		}
	})
	w.run("m")
	w.run("m")
	n = w.node()
	if diff := cmp.Diff(map[string]string{"theirs": "1", "a": "1", "b": "2"}, n.Labels); diff != "" ||
		n.Annotations["c"] != "3" || len(n.Spec.Taints) != 2 {
		t.Errorf("node %+v %+v (-want +got):\n%s", n.ObjectMeta, n.Spec, diff)
	}
	if w.nodeWrites != 1 {
		t.Errorf("%d writes, want one patch", w.nodeWrites)
	}
	if got := w.condition("m", infrav1.NodeSyncedCondition); got != "True NodeSynced: " {
		t.Errorf("NodeSynced is %q", got)
	}

	change(w, w.get("m"), func(o *infrav1.MCMMachine) {
		o.Spec.NodeTemplate = infrav1.NodeTemplate{Labels: map[string]string{"b": "4"}}
	})
	w.run("m")
	n = w.node()
	if diff := cmp.Diff(map[string]string{"theirs": "1", "b": "4"}, n.Labels); diff != "" || n.Annotations["c"] != "" ||
		len(n.Spec.Taints) != 1 {
		t.Errorf("what is removed here is removed there: %+v %+v (-want +got):\n%s", n.ObjectMeta, n.Spec, diff)
	}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.NodeTemplate = infrav1.NodeTemplate{} })
	w.run("m")
	if n = w.node(); len(n.Labels) != 1 || len(n.Annotations) != 0 || w.condition("m", infrav1.NodeSyncedCondition) != "" {
		t.Errorf("nothing is asked for any more: %+v", n.ObjectMeta)
	}
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live", made, live)
	}
}

// TestKubeconfigIsRefused: the template waits for a connection that never comes.
func TestKubeconfigIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	key := client.ObjectKeyFromObject(cluster())
	secret := &corev1.Secret{Data: map[string][]byte{"value": []byte("s3cret: [")}}
	secret.Namespace, secret.Name = key.Namespace, key.Name+"-kubeconfig"
	w.Must(w.client.Create(t.Context(), secret))
	w.connected = false
	w.run("m")
	if got := w.condition("m", infrav1.NodeSyncedCondition); got != "" {
		t.Errorf("NodeSynced is %q although nothing is asked for", got)
	}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) {
		o.Spec.NodeTemplate = infrav1.NodeTemplate{Labels: map[string]string{"a": "1"}}
	})
	w.run("m")
	if got := w.condition("m", infrav1.NodeSyncedCondition); !strings.HasPrefix(got, "False KubeconfigRefused: ") ||
		!strings.Contains(got, `Secret "`+secret.Name+`": is not a kubeconfig; `) || strings.Contains(got, "s3cret") {
		t.Errorf("NodeSynced is %q, want why there is no connection", got)
	}
	w.connected = true
	w.run("m")
	if got := w.condition("m", infrav1.NodeSyncedCondition); got != "True NodeSynced: " {
		t.Errorf("NodeSynced is %q with a connection", got)
	}
}

func TestNodeIsFoundByProviderID(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	change(w, machine("m"), func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} })
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.NodeTemplate.Labels = map[string]string{"a": "1"} })
	w.run("m")
	if w.node().Labels["a"] != "1" {
		t.Error("the Node carries the machine's providerID")
	}
}

func TestInvalidNodeTemplate(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	change(w, w.get("m"), func(o *infrav1.MCMMachine) {
		o.Spec.NodeTemplate.Labels = map[string]string{"a": "1", "b": "not valid!"}
	})
	w.run("m")
	if got := w.condition("m", infrav1.NodeSyncedCondition); !strings.HasPrefix(got,
		`False NodeTemplateInvalid: spec.nodeTemplate.labels: "b"`) || w.node().Labels["a"] != "1" {
		t.Errorf("NodeSynced is %q, labels %v; one wrong entry does not keep the others", got, w.node().Labels)
	}
	w.fail = func(o client.Object) error {
		if _, ok := o.(*corev1.Node); ok {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "m", nil)
		}
		return nil
	}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.NodeTemplate.Labels = map[string]string{"a": "2"} })
	w.run("m")
	if got := w.condition("m", infrav1.NodeSyncedCondition); !strings.HasPrefix(got, "False NodeRefused") {
		t.Errorf("NodeSynced is %q", got)
	}
	if got := w.condition("m", clusterv1.ReadyCondition); got != "True Ready: " {
		t.Errorf("Ready is %q: the VM is well", got)
	}
}

func TestNoteThatCannotBeReadIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	n := w.node()
	n.Annotations = map[string]string{machinev1.LastAppliedNodeTemplateAnnotation: "{{"}
	if err := w.workload.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.NodeTemplate.Labels = map[string]string{"a": "1"} })
	w.told()
	w.run("m")
	w.run("m")
	told := strings.Join(w.told(), "\n")
	if strings.Count(told, eventInvalidNote) != 1 || !strings.Contains(told, machinev1.LastAppliedNodeTemplateAnnotation) {
		t.Errorf("told %q", told)
	}
	if got := w.condition("m", infrav1.NodeSyncedCondition); got != "True NodeSynced: " || w.node().Labels["a"] != "1" {
		t.Errorf("NodeSynced is %q on %+v: the template is well", got, w.node().ObjectMeta)
	}
}

func TestNodeGoesWithItsCluster(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason                     string
		clusterGoes, connected, is bool
	}{
		"Machine":      {"Core deletes the Node of a machine that goes alone.", false, true, true},
		"Cluster":      {"Core leaves the Nodes of a Cluster behind.", true, true, false},
		"NotConnected": {"Without a connection the Node is left.", true, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster()
			c.Finalizers = []string{"x/y"}
			w := newEnv(t, c)
			w.running("m")
			w.connected = tc.connected
			if tc.clusterGoes {
				w.delete(cluster())
			}
			w.delete(w.get("m"))
			w.settle("m", w.gone())
			if got := w.node() != nil; got != tc.is {
				t.Errorf("Node there: %v; %s", got, tc.reason)
			}
		})
	}
}

func TestNodeThatCannotBeDeletedIsLeftInTheEnd(t *testing.T) {
	t.Parallel()
	c := cluster()
	c.Finalizers = []string{"x/y"}
	w := newEnv(t, c)
	w.running("m")
	w.delete(cluster())
	w.delete(w.get("m"))
	w.fail = func(o client.Object) error {
		if _, ok := o.(*corev1.Node); ok {
			return errors.New("no route to host")
		}
		return nil
	}
	w.settle("m", func() bool {
		_, live := w.vms()
		return live == 0
	})
	w.pass(10 * time.Second) // the cloud's settle time
	if _, err := w.reconcile("m"); err == nil {
		t.Error("the Node is tried for some time")
	}
	w.pass(time.Hour)
	w.run("m")
	if told := strings.Join(w.told(), "\n"); w.get("m") != nil || !strings.Contains(told, eventNodeLeft) {
		t.Errorf("the Node may not hold the Cluster for ever; told %s", told)
	}
}
