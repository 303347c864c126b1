package mcmmachine

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

// A harm is what keeps a VM from being made, and how that is said and corrected.
type harm struct {
	reason string
	harm   func(w *env)
	want   string
	repair func(w *env)
}

func harms() map[string]harm {
	return map[string]harm{
		"Infrastructure": {
			"Nothing is made before the Cluster's infrastructure is there.",
			func(w *env) {
				change(w, cluster(), func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = nil })
			},
			"False WaitingForClusterInfrastructure",
			func(w *env) {
				change(w, cluster(), func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) })
			},
		},
		"NoBootstrapData": {
			"A VM without boot data would never join.",
			func(w *env) {
				change(w, machine("m"), func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = nil })
			},
			"False WaitingForBootstrapData",
			func(w *env) {
				change(w, machine("m"), func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = new("boot-m") })
			},
		},
		"NoBootstrapSecret": {
			"The Secret may come late.",
			func(w *env) { w.delete(bootstrapSecret("m")) },
			`False BootstrapDataNotFound: prepare boot data: spec.bootstrap.dataSecretName: there is no Secret "boot-m"`,
			func(w *env) { w.create(bootstrapSecret("m")) },
		},
		"MissingKey": {
			"The contract names the key.",
			func(w *env) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data = map[string][]byte{"userData": []byte("x")} })
			},
			`False InvalidBootstrapData: prepare boot data: spec.bootstrap.dataSecretName: Secret "boot-m" has no entry ` +
				`"value"; put the boot data there`,
			func(w *env) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data = bootstrapSecret("m").Data })
			},
		},
		"TooLarge": {
			"What the cloud refuses is refused before anything is made.",
			func(w *env) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) {
					s.Data["value"] = []byte(strings.Repeat("x", sim.UserDataMax+1))
				})
			},
			"False InvalidBootstrapData: prepare boot data: Secret boot-m[value]",
			func(w *env) {
				change(w, bootstrapSecret("m"), func(s *corev1.Secret) { s.Data = bootstrapSecret("m").Data })
			},
		},
		"NoClass": {
			"The class may come late.",
			func(w *env) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = nil })
				w.delete(smallClass())
			},
			`False ClassNotFound: use MachineClass "small": spec.machineClassRef.name: there is no MachineClass "small" ` +
				`in namespace "ns"; create it or name another one`,
			func(w *env) { w.create(smallClass()) },
		},
		"NoClassToBootFrom": {
			"Boot data that comes from a class never comes without it.",
			func(w *env) {
				harms()["NoBootstrapData"].harm(w)
				harms()["NoClass"].harm(w)
			},
			`False ClassNotFound: use MachineClass "small": spec.machineClassRef.name: there is no MachineClass "small" ` +
				`in namespace "ns"; create it or name another one`,
			func(w *env) {
				harms()["NoClass"].repair(w)
				harms()["NoBootstrapData"].repair(w)
			},
		},
		"ForeignClass": {
			"A class of another namespace is somebody else's.",
			func(w *env) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = nil })
				w.delete(smallClass())
				c := smallClass()
				c.Namespace = "other"
				w.create(c)
			},
			`False ClassNotFound: use MachineClass "small": spec.machineClassRef.name: there is no MachineClass "small" ` +
				`in namespace "ns"; create it or name another one`,
			func(w *env) { w.create(smallClass()) },
		},
		"WrongSpec": {
			"The field is named as its author wrote it.",
			func(w *env) {
				change(w, smallClass(), func(c *machinev1.MachineClass) {
					c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), `"instanceType":"small"`,
						`"instanceType":7`))
				})
			},
			"instanceType",
			func(w *env) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.ProviderSpec = smallClass().ProviderSpec })
			},
		},
		"ForeignSecret": {
			"A Secret of another namespace has to allow it.",
			func(w *env) {
				s := smallSecret()
				s.Namespace = "other"
				w.create(s)
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.SecretRef.Namespace = "other" })
			},
			"False SecretNotAllowed: use MachineClass \"small\": secretRef: Secret other/small is of another namespace",
			func(w *env) {
				s := smallSecret()
				s.Namespace = "other"
				change(w, s, func(s *corev1.Secret) {
					s.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: "x, " + namespace}
				})
			},
		},
		"UnprotectedClass": {
			"A class that can vanish would strand the VM.",
			func(w *env) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = []string{"x/y"} })
				w.pass(time.Minute)
			},
			"False WaitingForClassProtection",
			func(w *env) {
				change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = []string{machinev1.InUseFinalizer} })
			},
		},
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	for name, tc := range harms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.create(w.newMachine("m")...)
			tc.harm(w)
			w.run("m")
			for _, kind := range []string{clusterv1.ReadyCondition, infrav1.VMProvisionedCondition} {
				if got := w.condition("m", kind); !strings.Contains(got, tc.want) || !strings.HasPrefix(got, "False") {
					t.Errorf("%s is %q, want %q: %s", kind, got, tc.want, tc.reason)
				}
			}
			if made, _ := w.vms(); made != 0 || createStarted(w.get("m")) {
				t.Errorf("%d VMs made, intent %v: %s", made, createStarted(w.get("m")), tc.reason)
			}
			tc.repair(w)
			w.settle("m", w.isProvisioned("m"))
		})
	}
}

// TestBadInputHoldsNoDeletion: what keeps a VM from being made does not keep a
// machine from going. Only what the cloud has to be asked with is waited for, and
// its absence is told together with the way out.
func TestBadInputHoldsNoDeletion(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{"NoClass": true, "NoClassToBootFrom": true, "ForeignClass": true, "ForeignSecret": true}
	for name, tc := range harms() {
		t.Run("Before/"+name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.create(w.newMachine("m")...)
			tc.harm(w)
			w.run("m")
			w.delete(w.get("m"))
			w.run("m")
			if m := w.get("m"); m != nil {
				t.Errorf("no VM was asked for, and the object stays: %v", m.Status.Conditions)
			}
		})
		t.Run("After/"+name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.running("m")
			tc.harm(w)
			w.delete(w.get("m"))
			if !needed[name] {
				w.settle("m", w.gone())
				if _, live := w.vms(); live != 0 {
					t.Errorf("%d VMs left behind", live)
				}
				return
			}
			w.run("m")
			if got := w.condition("m", clusterv1.DeletingCondition); !strings.HasPrefix(got, "True"+
				strings.TrimPrefix(tc.want, "False")) || !strings.Contains(got, machinev1.ReleaseAnnotation+"=true") {
				t.Errorf("Deleting is %q, want what is missing and how to let go", got)
			}
			tc.repair(w)
			w.settle("m", w.gone())
		})
	}
}
