package manager

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestEvictionsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		cause  metav1.CauseType
	}{
		"Budget": {"A disruption budget that is not observed yet says to come back.", policyv1.DisruptionBudgetCause},
		"Busy":   {"So does an API server that is busy; its answer keeps the time to wait, by which the drain knows it.", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body policyv1.Eviction
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Kind != "Eviction" || body.Name != "p" {
					t.Errorf("sent %+v (%v), want an Eviction", body, err)
				}
				if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/ns/pods/p/eviction" {
					t.Errorf("asked %s %s, want an eviction", r.Method, r.URL.Path)
				}
				asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "10")
				w.WriteHeader(http.StatusTooManyRequests)
				refusal := apierrors.NewTooManyRequests("wait", 10).Status()
				refusal.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				if tc.cause != "" {
					refusal.Details.Causes = []metav1.StatusCause{{Type: tc.cause}}
				}
				_ = json.NewEncoder(w).Encode(refusal)
			}))
			t.Cleanup(server.Close)
			c, err := newEvictingClient(fake.NewClientBuilder().Build(), &rest.Config{Host: server.URL}, server.Client())
			if err != nil {
				t.Fatal(err)
			}
			meta := metav1.ObjectMeta{Namespace: "ns", Name: "p"}
			err = c.SubResource("eviction").Create(t.Context(), &corev1.Pod{ObjectMeta: meta},
				&policyv1.Eviction{ObjectMeta: meta})
			if !apierrors.IsTooManyRequests(err) || asked.Load() != 1 {
				t.Errorf("asked %d times and got %v, want the first answer: %s", asked.Load(), err, tc.reason)
			}
			if seconds, wait := apierrors.SuggestsClientDelay(err); !wait || seconds != 10 {
				t.Errorf("wait %d s (%v), want 10 s: %s", seconds, wait, tc.reason)
			}
			if tc.cause != "" && !apierrors.HasStatusCause(err, tc.cause) {
				t.Errorf("%v, want the cause: %s", err, tc.reason)
			}
		})
	}
}
