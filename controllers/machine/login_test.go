package machine

import (
	"crypto/rand"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// TestDeletionWithSecretsThatMix: a VM exists, and its class names a second Secret with an address
// for the key of the first. Within a namespace MCM merges them, so that the deletion goes where the
// class says; across namespaces the VM goes with the login of one Secret alone.
func TestDeletionWithSecretsThatMix(t *testing.T) {
	t.Parallel()
	const realURL, otherURL = "https://cloud.example.com", "https://other.example.com"
	cases := map[string]struct {
		reason, namespace, url, event string
	}{
		"one namespace":  {"As MCM does it.", namespace, realURL, ""},
		"two namespaces": {"The key stays with its address.", "other", otherURL, `"small" and Secret ns/small alone`},
	}
	for name, tc := range cases {
		w := newEnv(t, interceptor.Funcs{})
		d := &harness.Located{Driver: w.cloud.Driver(), URL: realURL}
		clouds, err := cloud.NewRegistry([]cloud.Driver{d}, w.clock.Now)
		w.Must(err)
		w.controller = New(Deps{
			Client: w.client, Live: w.client, Target: w.target, Clouds: clouds, Clock: w.clock, Fence: w.fence,
			Events: w.events, Options: w.options, Rand: rand.Reader,
			Evidence: evidence.New(evidence.Deps{Client: w.client, Live: w.client, Clock: w.clock}),
		})
		harness.Edit(w.Cluster, smallSecret(), func(s *corev1.Secret) { s.Data[harness.URLEntry] = []byte(realURL) })
		w.running("m")
		w.create(fixture.Secret("address", map[string]string{harness.URLEntry: tc.url, "note": "x"},
			fixture.In[*corev1.Secret](tc.namespace)))
		harness.Edit(w.Cluster, smallClass(), func(c *machinev1.MachineClass) {
			c.CredentialsSecretRef = &corev1.SecretReference{Name: "address", Namespace: tc.namespace}
		})
		if tc.url == realURL { // it takes both to log in
			harness.Edit(w.Cluster, smallSecret(), func(s *corev1.Secret) { delete(s.Data, harness.URLEntry) })
		}
		w.delete(w.machine("m"))
		w.settle("m", func() bool { return w.machine("m") == nil })
		if _, live := w.vms(); live != 0 {
			t.Errorf("%s: the VM is left\nbecause: %s", name, tc.reason)
		}
		if told := strings.Join(w.Heard(), "\n"); tc.event != "" && !strings.Contains(told, tc.event) {
			t.Errorf("%s: told %s, want %s\nbecause: %s", name, told, tc.event, tc.reason)
		}
		for _, s := range d.Sent() {
			if s.URL != realURL {
				t.Errorf("%s: the key was sent to %s\nbecause: %s", name, s.URL, tc.reason)
			}
		}
	}
}
