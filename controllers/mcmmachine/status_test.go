package mcmmachine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

func TestStatusLeavesWhatOthersWroteMeanwhile(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		wrote  metav1.Condition
	}{
		"Extension": {
			"The runtime extension tells there, and only there, why an update in place has failed.",
			metav1.Condition{
				Type: infrav1.UpdatedInPlaceCondition, Status: metav1.ConditionFalse,
				Reason: infrav1.ReasonNodeAgentFailed, Message: "disk full",
			},
		},
		"Successor": {
			"Another leader knows better by now.",
			metav1.Condition{
				Type: infrav1.CredentialsAvailableCondition, Status: metav1.ConditionFalse,
				Reason: machinev1.ReasonCredentialsRefused, Message: "expired",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.running("m")
			change(w, cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
			w.fail = func(client.Object) error {
				w.fail = nil
				change(w, w.object("m"), func(o *infrav1.MCMMachine) {
					capi.SetCondition(&o.Status.Conditions, tc.wrote, o.Generation, w.clock.Now())
				})
				return nil
			}
			if wait := w.run("m"); wait == 0 || wait > time.Second {
				t.Errorf("comes back after %s, although its status is not written yet", wait)
			}
			w.run("m")
			want := string(tc.wrote.Status) + " " + tc.wrote.Reason + ": " + tc.wrote.Message
			if got := w.condition("m", tc.wrote.Type); got != want {
				t.Errorf("%s is %q, want %q: %s", tc.wrote.Type, got, want, tc.reason)
			}
			if got := w.condition("m", clusterv1.PausedCondition); !strings.HasPrefix(got, "True Paused") {
				t.Errorf("Paused is %q", got)
			}
		})
	}
}

func TestOutageNamesWhatIsMissingNow(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(w *env)
		want   string
	}{
		"Before": {"The Secret of the class is gone.", func(*env) {}, `there is no Secret "ns/small"`},
		"After": {"The class names another one by now, which is missing as well.", func(w *env) {
			change(w, smallClass(), func(c *machinev1.MachineClass) { c.SecretRef = &corev1.SecretReference{Name: "other"} })
		}, `there is no Secret "ns/other"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.running("m")
			w.delete(smallSecret())
			for range 3 {
				w.pass(10 * time.Minute)
				w.run("m")
			}
			tc.change(w)
			w.pass(10 * time.Minute)
			w.run("m")
			if got := w.condition("m", infrav1.CredentialsAvailableCondition); !strings.Contains(got, tc.want) {
				t.Errorf("CredentialsAvailable is %q, want %q: %s", got, tc.want, tc.reason)
			}
		})
	}
}
