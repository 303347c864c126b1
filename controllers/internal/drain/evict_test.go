package drain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestRefusedEvictionsAreRetriedThenForced(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		retries int32
		restart bool
		claims  bool
		want    time.Duration // from the first eviction to the deletion
	}{
		"Twice":      {"Two retries, 20 s apart, come before the deletion.", 2, false, false, 40 * time.Second},
		"WithVolume": {"Pods with volumes are counted in the same way.", 2, false, true, 40 * time.Second},
		"Zero":       {"Without retries the first refusal is the last.", 0, false, false, 0},
		"Negative":   {"A number below 0 must not mean for ever.", -3, false, false, 0},
		"Restart":    {"A restart begins to count again: later, never earlier.", 2, true, false, 60 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod("p")
			if tc.claims {
				claiming("c")(p)
			}
			w := newEnv(t, p)
			w.answer, w.request.MaxEvictRetries = denied, tc.retries
			for elapsed := time.Duration(0); elapsed <= 2*time.Minute; elapsed += 5 * time.Second {
				_, calls := w.pass()
				deleted := slices.Contains(calls, "delete p")
				if deleted != (elapsed == tc.want) {
					t.Fatalf("after %s: calls %v, want the deletion after %s: %s", elapsed, calls, tc.want, tc.reason)
				}
				if deleted {
					return
				}
				if tc.restart && elapsed == 15*time.Second {
					w.restart()
				}
				w.Advance(5 * time.Second)
			}
		})
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	strict := policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: 2, ExpectedPods: 3, CurrentHealthy: 3,
		DesiredHealthy: 3,
	}
	with := func(change func(*policyv1.PodDisruptionBudgetStatus)) policyv1.PodDisruptionBudgetStatus {
		s := *strict.DeepCopy()
		change(&s)
		return s
	}
	cases := map[string]struct {
		reason  string
		budgets []client.Object
		deletes bool // once the retries are used up
		want    string
		message string
	}{
		"Unknown": {
			"A budget that the cache does not know yet still denies.", nil, true,
			machinev1.ReasonEvictionDenied, "d/p",
		},
		"Spent": {
			"A budget that needs a pod to come up first is to be waited for.",
			[]client.Object{pdb("b", "p", with(func(s *policyv1.PodDisruptionBudgetStatus) {
				s.CurrentHealthy, s.DesiredHealthy = 2, 2
			}))},
			true, machinev1.ReasonEvictionDenied,
			"PodDisruptionBudget b allows no eviction now (2 of 3 pods are healthy, 2 are required)",
		},
		"Misconfigured": {
			"A budget that never allows an eviction is named, and not run over before the time-out.",
			[]client.Object{pdb("b", "p", strict)},
			false, ReasonBudgetMisconfigured, "PodDisruptionBudget b is misconfigured",
		},
		"SecondOne": {
			"Not only the first budget of a pod is looked at.",
			[]client.Object{pdb("a", "p", with(func(s *policyv1.PodDisruptionBudgetStatus) {
				s.DesiredHealthy = 1
			})), pdb("b", "p", strict)},
			false, ReasonBudgetMisconfigured, "PodDisruptionBudget b is misconfigured",
		},
		"OldStatus": {
			"A status behind its spec proves nothing.",
			[]client.Object{pdb("b", "p", with(func(s *policyv1.PodDisruptionBudgetStatus) {
				s.ObservedGeneration = 1
			}))},
			true, machinev1.ReasonEvictionDenied, "PodDisruptionBudget b",
		},
		"Disrupted": {
			"An eviction that is still being counted is not a misconfiguration.",
			[]client.Object{pdb("b", "p", with(func(s *policyv1.PodDisruptionBudgetStatus) {
				s.DisruptedPods = map[string]metav1.Time{"q": {}}
			}))},
			true, machinev1.ReasonEvictionDenied, "PodDisruptionBudget b",
		},
		"OldHealth": {
			"currentHealthy may be old; desiredHealthy says what the budget asks for.",
			[]client.Object{pdb("b", "p", with(func(s *policyv1.PodDisruptionBudgetStatus) {
				s.DesiredHealthy = 2
			}))},
			true, machinev1.ReasonEvictionDenied, "PodDisruptionBudget b",
		},
		"OtherPods": {
			"A budget that does not select the pod is not to blame.",
			[]client.Object{pdb("b", "q", strict)},
			true, machinev1.ReasonEvictionDenied, "d/p",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, append(tc.budgets, pod("p"))...)
			w.answer, w.request.MaxEvictRetries = denied, 1
			r, _ := w.pass()
			if r.Reason != tc.want || !strings.Contains(r.Message, tc.message) {
				t.Errorf("Drain() = %+v, want %s and %q: %s", r, tc.want, tc.message, tc.reason)
			}
			deleted := false
			for range 5 {
				w.Advance(retryInterval)
				_, calls := w.pass()
				deleted = deleted || slices.Contains(calls, "delete p")
			}
			if deleted != tc.deletes {
				t.Errorf("deleted: %v, want %v: %s", deleted, tc.deletes, tc.reason)
			}
		})
	}
}

func TestSpentBudgetIsAskedOnce(t *testing.T) {
	t.Parallel()
	sick := func(p *corev1.Pod) { p.Status.Conditions = nil }
	w := newEnv(t, pdb("b", "x", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2}),
		pod("p1", app("x")), pod("p2", app("x")), pod("p3", app("x"), sick), pod("q"))
	w.answer = func(pod string) error {
		if pod == "q" {
			return nil
		}
		return denied(pod)
	}
	_, calls := w.pass()
	if want := []string{"evict p1", "evict p3", "evict q"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v: a healthy pod needs no second refusal, an unhealthy one may be let go", calls, want)
	}
}

func TestOtherEvictionErrors(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "pods"}
	throttled := apierrors.NewTooManyRequests("busy", 3)
	cases := map[string]struct {
		reason  string
		answer  error
		budgets int
		fails   bool
		others  bool // other pods are evicted all the same
		message string
	}{
		"Gone": {"Somebody else was faster.", apierrors.NewNotFound(resource, "p"), 0, false, true, "waiting"},
		"Namesake": {
			"The UID is of a pod that is gone; its namesake lives elsewhere.",
			apierrors.NewConflict(resource, "p", errors.New("uid")), 0, false, true, "waiting",
		},
		"TwoBudgets": {
			"The API server refuses a pod of two budgets without saying which.",
			apierrors.NewInternalError(errors.New("more than one")), 2, false, true,
			"selected by 2 PodDisruptionBudgets (b0, b1)",
		},
		"Forbidden": {
			"One pod that must not be evicted does not keep the others.",
			apierrors.NewForbidden(resource, "p", errors.New("namespace is being terminated")), 0, false, true, "d/p",
		},
		"Throttled": {"A busy API server is no disruption budget.", throttled, 0, true, false, ""},
		"Unavailable": {
			"An API server that does not answer would fail for every pod.", apierrors.NewServiceUnavailable("x"),
			0, true, false, "",
		},
		"Network": {"No answer at all says nothing about the pod.", errors.New("connection refused"), 0, true, false, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{pod("p"), pod("q")}
			for i := range tc.budgets {
				objects = append(objects, pdb("b"+string(rune('0'+i)), "p",
					policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2}))
			}
			w := newEnv(t, objects...)
			w.request.MaxEvictRetries = 0
			w.answer = func(pod string) error {
				if pod == "p" {
					return tc.answer
				}
				return nil
			}
			r, calls, err := w.try()
			if (err != nil) != tc.fails || (err != nil && !errors.Is(err, tc.answer)) {
				t.Fatalf("Drain() = %v: %s", err, tc.reason)
			}
			if slices.Contains(calls, "evict q") != tc.others || slices.Contains(calls, "delete p") {
				t.Errorf("calls %v: %s", calls, tc.reason)
			}
			if !tc.fails && !strings.Contains(r.Message, tc.message) {
				t.Errorf("message %q, want %q in it: %s", r.Message, tc.message, tc.reason)
			}
		})
	}
}
