package inframachine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func TestGates(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		harm   func(w *world)
		want   string
		mend   func(w *world)
	}{
		"Infrastructure": {
			"Nothing is made before the Cluster's infrastructure is there.",
			func(w *world) {
				change(w, cluster(), func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = nil })
			},
			"False WaitingForClusterInfrastructure",
			func(w *world) {
				change(w, cluster(), func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) })
			},
		},
		"NoBootstrapData": {
			"A VM without boot data would never join.",
			func(w *world) {
				change(w, machine("m"), func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = nil })
			},
			"False WaitingForBootstrapData",
			func(w *world) {
				change(w, machine("m"), func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = new("boot-m") })
			},
		},
		"NoBootstrapSecret": {
			"The Secret may come late.",
			func(w *world) { w.delete(bootstrapSecret("m")) },
			`False BootstrapDataNotFound: prepare boot data: spec.bootstrap.dataSecretName: there is no Secret "boot-m"`,
			func(w *world) { w.create(bootstrapSecret("m")) },
		},
		"MissingKey": {
			"The contract names the key.",
			func(w *world) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data = map[string][]byte{"userData": []byte("x")} })
			},
			`has no entry "value"`,
			func(w *world) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data = bootstrapSecret("m").Data })
			},
		},
		"TooLarge": {
			"What the cloud refuses is refused before anything is made.",
			func(w *world) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data["value"] = []byte(strings.Repeat("x", sim.UserDataMax+1)) })
			},
			"False InvalidBootstrapData: prepare boot data: Secret boot-m[value]",
			func(w *world) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data = bootstrapSecret("m").Data })
			},
		},
		"NoClass": {
			"The class may come late.",
			func(w *world) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = nil })
				w.delete(smallClass())
			},
			`False ClassNotFound: use MachineClass "small": spec.machineClassRef.name: there is no MachineClass "small" in namespace "ns"`,
			func(w *world) { w.create(smallClass()) },
		},
		"WrongSpec": {
			"The field is named as its author wrote it.",
			func(w *world) {
				change(w, smallClass(), func(c *machinev1.MachineClass) {
					c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), `"instanceType":"small"`, `"instanceType":7`))
				})
			},
			"instanceType",
			func(w *world) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.ProviderSpec = smallClass().ProviderSpec })
			},
		},
		"ForeignSecret": {
			"A Secret of another namespace has to allow it.",
			func(w *world) {
				s := smallSecret()
				s.Namespace = "other"
				w.create(s)
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.SecretRef.Namespace = "other" })
			},
			"False SecretNotAllowed: use MachineClass \"small\": secretRef: Secret other/small is of another namespace",
			func(w *world) {
				s := smallSecret()
				s.Namespace = "other"
				change(w, s, func(s *corev1.Secret) {
					s.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: "x, " + namespace}
				})
			},
		},
		"UnprotectedClass": {
			"A class that can vanish would strand the VM.",
			func(w *world) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = []string{"x/y"} })
				w.pass(time.Minute)
			},
			"False WaitingForClassProtection",
			func(w *world) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = []string{machinev1.InUseFinalizer} })
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(w.newMachine("m")...)
			tc.harm(w)
			w.run("m")
			for _, kind := range []string{clusterv1.ReadyCondition, infrav1.VMProvisionedCondition} {
				if got := w.condition("m", kind); !strings.Contains(got, tc.want) || !strings.HasPrefix(got, "False") {
					t.Errorf("%s is %q, want %q: %s", kind, got, tc.want, tc.reason)
				}
			}
			if made, _ := w.vms(); made != 0 || begun(w.get("m")) {
				t.Errorf("%d VMs made, intent %v: %s", made, begun(w.get("m")), tc.reason)
			}
			tc.mend(w)
			w.settle("m", w.isProvisioned("m"))
		})
	}
}
