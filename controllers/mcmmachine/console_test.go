package mcmmachine

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const noRoute = "kubelet[9]: dial tcp 192.0.2.1:6443: connect: no route to host, token abcdef.c4n4ry0123456789"

// unjoinedOfPool has machine m of a MachineDeployment, whose VM has written to its console.
func unjoinedOfPool(t *testing.T, says string) *env {
	t.Helper()
	ref := func(kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: "uid-1", Controller: new(true),
			BlockOwnerDeletion: new(true),
		}
	}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "set", UID: "uid-1",
		OwnerReferences: []metav1.OwnerReference{ref("MachineDeployment", "pool")},
	}}
	w := newEnv(t, set)
	w.cloud = w.NewCloud(func(s *sim.Settings) { s.DeleteTime = sim.Duration(time.Minute) })
	w.restart()
	w.running("m")
	change(w, machine("m"), func(m *clusterv1.Machine) {
		m.OwnerReferences = []metav1.OwnerReference{ref("MachineSet", "set")}
		m.Status.NodeRef = clusterv1.MachineNodeReference{}
	})
	for _, vm := range w.cloud.VMs() {
		if says != "" {
			w.cloud.Print(vm.ID, says)
		}
	}
	return w
}

func (w *env) kept() (*corev1.Secret, []console.Failure) {
	w.Helper()
	name := console.SecretName("cluster.x-k8s.io", "MachineDeployment", "pool")
	secret := harness.Find[corev1.Secret](w.Cluster, key(name))
	if secret == nil {
		return nil, nil
	}
	all, err := console.Parse(secret.Data[console.EvidenceKey])
	w.Must(err)
	return secret, all
}

func TestConsoleOfAMachineThatGoesWithoutNodeIsKept(t *testing.T) {
	t.Parallel()
	w := unjoinedOfPool(t, noRoute)
	w.pass(10 * time.Minute)
	w.delete(w.get("m"))
	w.run("m")
	secret, all := w.kept()
	if len(all) != 1 || all[0].Cause != console.Unreachable || strings.Contains(all[0].Text, "c4n4ry") {
		t.Fatalf("got %+v, want the cause, and the text without the token", all)
	}
	if o := secret.OwnerReferences; len(o) != 1 || o[0].Kind != "MachineDeployment" || o[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v, want the MachineDeployment, which clusterctl moves it with and which does not wait for it", o)
	}
	if got := w.condition("m", clusterv1.DeletingCondition); !strings.HasSuffix(got, "; console: API server unreachable") {
		t.Errorf("Deleting is %q, want it to name the cause", got)
	}
	w.settle("m", w.gone())
	told := slices.DeleteFunc(w.told(), func(e string) bool { return !strings.Contains(e, eventConsole) })
	if calls := w.cloud.Calls(sim.OpGetConsole); calls != 1 || len(told) != 1 {
		t.Errorf("%d consoles were read, Events %q, want one each", calls, told)
	}
}

// TestConsoleIsNotRead: of machines that say nothing about why machines do not join.
func TestConsoleIsNotRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		age    time.Duration
		edit   func(w *env)
	}{
		"Young": {"A machine that is scaled in at once had no time to join.", time.Minute, func(*env) {}},
		"Joined": {"It had a Node.", time.Hour, func(w *env) {
			change(w, machine("m"), func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "m" })
		}},
		"Cluster": {"The pool goes with all that it has.", time.Hour, func(w *env) {
			change(w, cluster(), func(c *clusterv1.Cluster) { c.Finalizers = []string{"test/stays"} })
			w.delete(cluster())
		}},
		"Off": {"It is switched off.", time.Hour, func(w *env) { w.controller.Evidence = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := unjoinedOfPool(t, noRoute)
			c.edit(w)
			w.pass(c.age)
			w.delete(w.get("m"))
			w.settle("m", w.gone())
			if secret, _ := w.kept(); secret != nil || w.cloud.Calls(sim.OpGetConsole) != 0 {
				t.Errorf("%d consoles were read\nbecause: %s", w.cloud.Calls(sim.OpGetConsole), c.reason)
			}
		})
	}
}

// TestVMGoesWithoutEvidence: in as many passes as with it, whatever fails.
func TestVMGoesWithoutEvidence(t *testing.T) {
	t.Parallel()
	w := unjoinedOfPool(t, noRoute)
	w.fail = func(o client.Object) error {
		if s, ok := o.(*corev1.Secret); ok && s.Type == machinev1.ConsoleEvidenceType {
			t.Error("the first failure of a pool patches nothing")
		}
		return nil
	}
	w.creates = func(o client.Object, create func() error) error {
		if _, ok := o.(*corev1.Secret); ok {
			return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
		}
		return create()
	}
	w.pass(time.Hour)
	w.delete(w.get("m"))
	w.run("m")
	if vms := w.cloud.VMs(); len(vms) != 1 || vms[0].Deleting.IsZero() {
		t.Errorf("VMs %+v, want that it goes in the first pass", vms)
	}
	w.settle("m", w.gone())
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs left behind", live)
	}
}
