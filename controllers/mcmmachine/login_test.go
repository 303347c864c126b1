package mcmmachine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// TestDeletionWithSecretsThatMix: a VM exists, and its class names two Secrets that may not be used
// together. The VM goes, and no entry of one Secret is sent to an address of another namespace's.
func TestDeletionWithSecretsThatMix(t *testing.T) {
	t.Parallel()
	const realURL, evilURL = "https://cloud.example.com", "https://evil.example.com"
	whole := map[string]string{"url": realURL, "accountID": "demo", "secretKey": "demo-secret"}
	half := map[string]string{"accountID": "demo", "secretKey": "demo-secret"}
	cases := map[string]struct {
		reason    string
		small     map[string]string // of secretRef, in the class's namespace
		other     map[string]string // of credentialsSecretRef
		namespace string            // of that one
		gone      bool
		says      string // the Event of the deletion, or what it waits for
	}{
		"address over a whole login": {
			"The Secret with the whole login shows the VM.",
			whole,
			map[string]string{"url": evilURL},
			"other", true, `"small" and Secret ns/small alone`,
		},
		"whole login over an address switch": {
			"It is the same the other way round.",
			map[string]string{"url": evilURL, "secretKey": "mine-of-the-tenant"},
			whole, "other", true, "VM",
		},
		"halves of two namespaces": {
			"Who owns the credentials has to say where they go; the deletion waits and names what to do.",
			map[string]string{"url": evilURL},
			half, "other", false, "put them all into one of the two",
		},
		"halves of one namespace": {
			"VMs that were made so before this was refused can be deleted.",
			map[string]string{"url": realURL},
			half, namespace, true, `"small" and both Secrets`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			located := &harness.Located{URL: realURL}
			w.driver = func(d cloud.Driver) cloud.Driver {
				located.Driver = d.(*sim.Driver) //nolint:forcetypeassert // the env's
				return located
			}
			w.restart()
			change(w, smallSecret(), func(s *corev1.Secret) { s.Data = entries(whole) })
			w.running("m")
			keys := fixture.Secret("keys", tc.other, fixture.In[*corev1.Secret](tc.namespace))
			keys.Annotations = map[string]string{machinev1.AllowedNamespacesAnnotation: namespace}
			w.create(keys)
			change(w, smallSecret(), func(s *corev1.Secret) { s.Data = entries(tc.small) })
			change(w, smallClass(), func(c *machinev1.MachineClass) {
				c.CredentialsSecretRef = &corev1.SecretReference{Name: "keys", Namespace: tc.namespace}
			})
			w.told()
			w.delete(w.get("m"))
			if tc.gone {
				w.settle("m", w.gone())
				if told := strings.Join(w.told(), "\n"); !strings.Contains(told, tc.says) {
					t.Errorf("told %s, want %q\nbecause: %s", told, tc.says, tc.reason)
				}
			} else {
				w.run("m")
				if got := w.condition("m", clusterv1.DeletingCondition); !strings.HasPrefix(got, "True InvalidSecret") ||
					!strings.Contains(got, tc.says) {
					t.Errorf("Deleting is %q, want %q\nbecause: %s", got, tc.says, tc.reason)
				}
				change(w, keys, func(s *corev1.Secret) { s.Data = entries(whole) }) // its owner adds the address
				w.settle("m", w.gone())
			}
			if _, live := w.vms(); live != 0 {
				t.Errorf("%d VMs left\nbecause: %s", live, tc.reason)
			}
			if slices.Contains(located.Sent(), harness.Sent{URL: evilURL, Secret: "demo-secret"}) {
				t.Errorf("the key went to the address of another Secret: %v\nbecause: %s", located.Sent(), tc.reason)
			}
		})
	}
}

func entries(of map[string]string) map[string][]byte {
	data := map[string][]byte{}
	for key, value := range maps.All(of) {
		data[key] = []byte(value)
	}
	return data
}
