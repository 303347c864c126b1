package hold_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type env struct {
	*harness.Env
	gate *hold.Gate
}

func newEnv(t *testing.T, annotations map[string]string) *env {
	t.Helper()
	e := harness.New(t, harness.At(noon), harness.With(fixture.Machine("m", "small", func(m *machinev1.Machine) {
		m.Annotations, m.CreationTimestamp = annotations, metav1.NewTime(noon.Add(-time.Hour))
	})))
	return &env{Env: e, gate: hold.New(hold.Deps{Client: e.Client, Clock: e.Clock, Events: e.Events})}
}

func (w *env) machine() *machinev1.Machine {
	w.Helper()
	return harness.Get[machinev1.Machine](w.Cluster, client.ObjectKey{Namespace: fixture.Namespace, Name: "m"})
}

func (w *env) answer(m *machinev1.Machine) (bool, error) {
	return w.gate.Answer(w.Context(), m)
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	asked, held, since := machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation,
		machinev1.MigrationHeldSinceAnnotation
	at := noon.Format(time.RFC3339)
	cases := map[string]struct {
		reason string
		before map[string]string
		closed bool
		writes int
		events int
		after  map[string]string
	}{
		"Free": {
			"An object that nobody moves costs nothing.",
			map[string]string{"a": "b"},
			false, 0, 0,
			map[string]string{"a": "b"},
		},
		"Bare": {"Annotations may be missing altogether.", nil, false, 0, 0, nil},
		"Asked": {
			"A hold is answered with its value.",
			map[string]string{asked: "x"},
			true, 1, 1,
			map[string]string{asked: "x", held: "x", since: at},
		},
		"Empty": {
			"A hold may be empty, and is one.",
			map[string]string{asked: ""},
			true, 1, 1,
			map[string]string{asked: "", held: "", since: at},
		},
		"Answered": {
			"An answer is given once.",
			map[string]string{asked: "x", held: "x", since: "then"},
			true, 0, 0,
			map[string]string{asked: "x", held: "x", since: "then"},
		},
		"Other": {
			"The answer to an earlier hold is none to this one.",
			map[string]string{asked: "y", held: "x", since: "then"},
			true, 1, 1,
			map[string]string{asked: "y", held: "y", since: at},
		},
		"LeftOver": {
			"What an earlier hold left goes first, or the next one would be taken for answered.",
			map[string]string{held: "x", since: "then"},
			true, 1, 0, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, tc.before)
			closed, err := w.answer(w.machine())
			if err != nil || closed != tc.closed || len(w.Writes()) != tc.writes || len(w.Events.Events) != tc.events {
				t.Errorf("%s closed %t (%v), %d writes, %d events, want %t, %d, %d", tc.reason, closed, err, len(w.Writes()),
					len(w.Events.Events), tc.closed, tc.writes, tc.events)
			}
			after := w.machine().Annotations
			if len(after) != len(tc.after) {
				t.Errorf("%s annotations %v, want %v", tc.reason, after, tc.after)
			}
			for key, want := range tc.after {
				if after[key] != want {
					t.Errorf("%s %s is %q, want %q", tc.reason, key, after[key], want)
				}
			}
		})
	}
}

// TestStaleAnswer: an answer must not be given from what has changed meanwhile,
// least of all to a hold that has been taken off.
func TestStaleAnswer(t *testing.T) {
	t.Parallel()
	w := newEnv(t, map[string]string{machinev1.MigrationHoldAnnotation: "x"})
	stale := w.machine()
	harness.Edit(w.Cluster, w.machine(), func(m *machinev1.Machine) { machinev1.DropHold(m) })
	closed, err := w.answer(stale)
	if !closed || !apierrors.IsConflict(err) {
		t.Errorf("closed %t, %v; want a conflict", closed, err)
	}
	if got := w.machine().Annotations; len(got) > 0 || len(w.Events.Events) > 0 {
		t.Errorf("annotations %v, %d events, want none", got, len(w.Events.Events))
	}
}

func TestVisits(t *testing.T) {
	t.Parallel()
	var nobody *hold.Visits
	nobody.Begin("n")()
	if nobody.Busy("n") {
		t.Error("nobody visits")
	}
	var v hold.Visits
	one, two := v.Begin("n"), v.Begin("n")
	one()
	if !v.Busy("n") || v.Busy("other") {
		t.Error("the second visit is going on, and of that node only")
	}
	two()
	if v.Busy("n") {
		t.Error("both are over")
	}
}
