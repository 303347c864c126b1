package mcmexternalcontrolplane_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestAvailability(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(), given())
	w.reconcile()
	status := w.cp().Status
	if status.Initialization.ControlPlaneInitialized != nil || status.ExternalManagedControlPlane == nil ||
		!*status.ExternalManagedControlPlane {
		t.Errorf("before the API server has answered: %+v", status)
	}
	if got := w.is(clusterv1.AvailableCondition); !strings.HasPrefix(got, "False "+controlplanev1.ReasonNotConnected) {
		t.Errorf("Available = %q", got)
	}
	w.connect()
	w.reconcile()
	if w.cp().Status.Initialization.ControlPlaneInitialized == nil ||
		!strings.HasPrefix(w.is(clusterv1.AvailableCondition), "True") ||
		!strings.HasPrefix(w.is(clusterv1.ReadyCondition), "True") {
		t.Errorf("once it has answered: %+v", w.cp().Status)
	}

	w.clusters.Disconnect(clusterKey)
	w.pass(20 * time.Second)
	w.writes = nil
	if wait := w.reconcile().RequeueAfter; wait != 40*time.Second || len(w.writes) != 0 {
		t.Errorf("a connection that is recreated does not count as an outage: wait %s, %v", wait, w.writes)
	}
	w.pass(40 * time.Second)
	w.clusters.Probed(clusterKey, w.clock.Now(), errors.New("away"))
	w.reconcile()
	if !strings.HasPrefix(w.is(clusterv1.AvailableCondition), "False "+controlplanev1.ReasonNotConnected) ||
		w.cp().Status.Initialization.ControlPlaneInitialized == nil {
		t.Errorf("an outage shows, and what was initialized stays so: %+v", w.cp().Status)
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason    string
		objects   []client.Object
		condition string
		want      string
	}{
		"Cluster": {
			"Core makes itself the owner a moment after the Cluster is there.",
			[]client.Object{controlPlane(func(cp *controlplanev1.MCMExternalControlPlane) {
				cp.OwnerReferences, cp.Labels = nil, nil
			}), given()},
			controlplanev1.KubeconfigReadyCondition, controlplanev1.ReasonWaitingForCluster,
		},
		"Infrastructure": {
			"The connection begins when the infrastructure is provisioned; the kubeconfig is there before.",
			[]client.Object{theCluster(func(c *clusterv1.Cluster) {
				c.Status.Initialization.InfrastructureProvisioned = nil
			}), controlPlane(), given()},
			clusterv1.AvailableCondition, controlplanev1.ReasonWaitingForInfra,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.objects...)
			w.reconcile()
			if got := w.is(tc.condition); !strings.HasPrefix(got, "False "+tc.want) || w.event() != "" {
				t.Errorf("%s = %q, want %s: %s", tc.condition, got, tc.want, tc.reason)
			}
		})
	}
}

func TestPausedFirst(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(func(c *clusterv1.Cluster) {
		c.Spec.Paused = new(true)
	}), controlPlane(selfHosted), kubeSystem("here"))
	w.reconcile()
	if len(w.writes) != 1 || !strings.HasPrefix(w.is(clusterv1.PausedCondition), "True") {
		t.Errorf("a paused object gets its condition Paused and nothing else: %v", w.writes)
	}
	if w.reconcile(); len(w.writes) != 1 {
		t.Errorf("once: %v", w.writes)
	}
}

func TestWatchFilter(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(), given())
	w.deps.WatchFilter = "us"
	if w.reconcile(); len(w.writes) != 0 {
		t.Errorf("objects of other managers are left alone: %v", w.writes)
	}
}

func TestFinalizerIsRestored(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(), given())
	w.reconcile()
	cp := w.cp()
	w.change(cp, key, func() { cp.Finalizers = nil })
	w.reconcile()
	if got := w.cp().Finalizers; len(got) != 1 || got[0] != machinev1.MCMExternalControlPlaneFinalizer {
		t.Errorf("finalizers = %v", got)
	}
}

func TestKubeletVersions(t *testing.T) {
	t.Parallel()
	machine := func(name, spec, kubelet string) *clusterv1.Machine {
		m := &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name,
				Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
			},
			Spec: clusterv1.MachineSpec{ClusterName: "c1", Version: spec},
		}
		if kubelet != "" {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		}
		return m
	}
	cases := map[string]struct {
		reason   string
		machines []client.Object
		want     string
	}{
		"Same": {"Equal texts are what core wants.", []client.Object{
			machine("a", "v1.36.3+k3s1", "v1.36.3+k3s1"),
			machine("b", "v1.36.3", ""),
		}, "True " + controlplanev1.ReasonVersionsMatch},
		"Suffix": {
			"A suffix is enough to make a rollout endless.",
			[]client.Object{machine("a", "v1.36.3", "v1.36.3+k3s1")},
			`False VersionsDiffer: Machine "a" has spec.version "v1.36.3", and its kubelet is "v1.36.3+k3s1"; set ` +
				`spec.template.spec.version`,
		},
		"Nothing": {
			"So is no version at all.",
			[]client.Object{machine("a", "", "v1.36.3")},
			`False VersionsDiffer: Machine "a" has spec.version "", and`,
		},
		"Many": {
			"A crowd is summed up.",
			[]client.Object{
				machine("e", "v1", "v2"), machine("d", "v1", "v2"),
				machine("c", "v1", "v2"), machine("b", "v1", "v2"), machine("a", "v1", "v2"),
			},
			`False VersionsDiffer: Machine "a" has spec.version "v1", and its kubelet is "v2"; Machine "b" has ` +
				`spec.version "v1", and its kubelet is "v2"; Machine "c" has spec.version "v1", and its kubelet is "v2"; and ` +
				`2 more Machines; set`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.machines, theCluster(), controlPlane(), given())...)
			w.connect()
			w.reconcile()
			if got := w.is(controlplanev1.KubeletVersionsMatchCondition); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q: %s", got, tc.want, tc.reason)
			}
			if e := w.event(); (e != "") != strings.HasPrefix(tc.want, "False") {
				t.Errorf("Event %q: %s", e, tc.reason)
			}
			if got := w.is(clusterv1.ReadyCondition); !strings.HasPrefix(got, "True") {
				t.Errorf("it is no fault of the control plane: Ready = %q", got)
			}
		})
	}
}

// TestServerNotVerified: with everything out of one Secret nothing is given away, so it is used.
func TestServerNotVerified(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(),
		given("certificate-authority-data: YSBDQQ==", "insecure-skip-tls-verify: true"))
	w.reconcile()
	if got := w.is(controlplanev1.KubeconfigSafeCondition); !strings.HasPrefix(got, "False ServerNotVerified: ") {
		t.Errorf("KubeconfigSafe = %q", got)
	}
	if got := w.is(controlplanev1.KubeconfigReadyCondition); !strings.HasPrefix(got, "True ") || !w.config().Insecure {
		t.Errorf("it is not used: KubeconfigReady = %q", got)
	}
	if e := w.event(); !strings.HasPrefix(e, "Warning ServerNotVerified ") {
		t.Errorf("its author is not warned: %q", e)
	}
	s := &corev1.Secret{}
	w.change(s, client.ObjectKey{Namespace: "default", Name: "given"}, func() { s.Data = given().Data })
	w.reconcile()
	if got := w.is(controlplanev1.KubeconfigSafeCondition); !strings.HasPrefix(got, "True ") {
		t.Errorf("KubeconfigSafe = %q after it was put right", got)
	}
}
