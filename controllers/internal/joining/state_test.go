package joining

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var (
	noon     = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	standard = Policy{Timeout: 20 * time.Minute, GrowthPercent: 50, Cycles: 2}
)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func TestNext(t *testing.T) {
	t.Parallel()
	off := standard
	off.GrowthPercent = 0
	cases := map[string]struct {
		reason string
		policy Policy
		before State
		joins  Joins
		after  State
	}{
		"Nothing": {"A pool whose machines join has no state.", standard, State{}, Joins{Joined: 5}, State{}},
		"FirstCycle": {
			"One failure may be the machine's own fault.", standard,
			State{},
			Joins{Failed: 1, First: noon},
			State{Cycles: 1, Counted: noon},
		},
		"Grows": {
			"The second cycle: half as much again.", standard,
			State{Cycles: 1, Counted: ago(20 * time.Minute)},
			Joins{Failed: 1, First: noon},
			State{Timeout: 30 * time.Minute, Adapted: noon, Counted: noon},
		},
		"NextStep": {
			"Again, from what it has grown to.", standard,
			State{Timeout: 30 * time.Minute, Cycles: 1, Adapted: ago(time.Hour), Counted: ago(30 * time.Minute)},
			Joins{Failed: 1, First: noon},
			State{Timeout: 45 * time.Minute, Adapted: noon, Counted: noon},
		},
		"Longest": {
			"Four steps are the most.", standard,
			State{Timeout: 100 * time.Minute, Cycles: 1, Adapted: ago(4 * time.Hour), Counted: ago(2 * time.Hour)},
			Joins{Failed: 1, First: noon},
			State{Timeout: 101*time.Minute + 15*time.Second, Adapted: noon, Counted: noon},
		},
		"Reduced": {
			"Two that joined show how long it takes.", standard,
			State{Timeout: 45 * time.Minute, Adapted: ago(45 * time.Minute), Counted: ago(45 * time.Minute)},
			Joins{Joined: 2, Longest: 25 * time.Minute},
			State{Timeout: 25 * time.Minute, Adapted: noon, Counted: ago(45 * time.Minute)},
		},
		"NotYetReduced": {
			"A timeout is in use for as long as it is before it is judged.", standard,
			State{Timeout: 45 * time.Minute, Adapted: ago(44 * time.Minute), Counted: ago(44 * time.Minute)},
			Joins{Joined: 2, Longest: 25 * time.Minute},
			State{Timeout: 45 * time.Minute, Adapted: ago(44 * time.Minute), Counted: ago(44 * time.Minute)},
		},
		"Fast": {
			"Machines that join in time need no state.", standard,
			State{Timeout: 45 * time.Minute, Adapted: ago(time.Hour), Counted: ago(time.Hour)},
			Joins{Joined: 2, Longest: 5 * time.Minute},
			State{Counted: ago(time.Hour)},
		},
		"Raised": {
			"A user who gives machines more time than it has grown to gets that.",
			Policy{time.Hour, 50, 2},
			State{Timeout: 45 * time.Minute, Cycles: 1, Adapted: ago(time.Minute), Counted: ago(time.Minute)},
			Joins{Failed: 1, First: noon},
			State{Counted: ago(time.Minute)},
		},
		"Idle": {
			"An old record says nothing about the next scale-out.", standard,
			State{Timeout: 30 * time.Minute, Cycles: 1, Adapted: ago(5 * time.Hour), Counted: ago(4 * time.Hour)},
			Joins{},
			State{Counted: ago(4 * time.Hour)},
		},
		"IdleCycles": {
			"Two failures in a year do not make a pool slow.", standard,
			State{Cycles: 1, Counted: ago(4 * time.Hour)},
			Joins{Failed: 1, First: noon},
			State{Cycles: 1, Counted: noon},
		},
		"Off": {
			"Whoever switches it off gets the template's timeout back.", off,
			State{Timeout: 30 * time.Minute, Adapted: ago(time.Minute), Counted: ago(time.Minute)},
			Joins{Failed: 1, First: noon},
			State{Counted: ago(time.Minute)},
		},
		"OffAlways": {"And no state ever comes about.", off, State{}, Joins{Failed: 1, First: noon}, State{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.before.Next(tc.policy, tc.joins, noon); got != tc.after {
				t.Errorf("%+v, want %+v: %s", got, tc.after, tc.reason)
			}
		})
	}
}

// TestTheLongestTimeoutIsKept: machines that have the longest timeout take so long to fail
// that the time without a failure must not count as success.
func TestTheLongestTimeoutIsKept(t *testing.T) {
	t.Parallel()
	s, now := State{}, noon
	for range 20 {
		now = now.Add(s.Effective(standard))
		s = s.Next(standard, Joins{Failed: 1, First: now}, now)
		for range 10 {
			s = s.Next(standard, Joins{}, now.Add(s.Effective(standard)+5*time.Minute))
		}
		now = now.Add(6 * time.Minute) // until the next one is created
	}
	if s.Timeout != standard.Longest() {
		t.Errorf("timeout %s, want %s to stay while all machines fail", s.Timeout, standard.Longest())
	}
}

// TestNextIsStable: a state that was just written is not written again.
func TestNextIsStable(t *testing.T) {
	t.Parallel()
	for _, joins := range []Joins{{}, {Failed: 1}, {Joined: 2, Longest: 25 * time.Minute}} {
		s, now := State{}, noon.Add(time.Millisecond)
		for range 1000 {
			happened := joins
			if happened.First = now; now.Before(s.Counted.Add(s.Effective(standard))) {
				happened.Failed = 0
			}
			s = s.Next(standard, happened, now)
			d := &machinev1.MachineDeployment{}
			s.Annotate(d)
			if read := StateOf(d); read != s {
				t.Fatalf("read %+v, want %+v", read, s)
			}
			if again := s.Next(standard, Joins{}, now); again != s {
				t.Fatalf("%+v becomes %+v at once", s, again)
			}
			if s.Timeout > standard.Longest() {
				t.Fatalf("%s is longer than the longest timeout", s.Timeout)
			}
			now = now.Add(7 * time.Minute)
		}
	}
}

// TestWaitIsWhenItChanges: nothing changes before the time that Wait returns, and then it does.
func TestWaitIsWhenItChanges(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		state State
		joins Joins
		want  time.Duration
	}{
		"None":   {State{}, Joins{}, 0},
		"Cycles": {State{Cycles: 1, Counted: ago(time.Minute)}, Joins{}, 0},
		"Idle": {
			State{Timeout: 30 * time.Minute, Adapted: ago(time.Hour), Counted: ago(time.Minute)},
			Joins{},
			201*time.Minute + 30*time.Second,
		},
		"Joined": {
			State{Timeout: 30 * time.Minute, Adapted: ago(time.Minute), Counted: ago(time.Minute)},
			Joins{Joined: 2, Longest: 25 * time.Minute},
			29 * time.Minute,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.state.Wait(standard, tc.joins, noon)
			if got != tc.want {
				t.Errorf("waits for %s, want %s", got, tc.want)
			}
			if early := tc.state.Next(standard, tc.joins, noon.Add(got-time.Second)); got > 0 && early != tc.state {
				t.Errorf("%+v becomes %+v before that", tc.state, early)
			}
			if then := tc.state.Next(standard, tc.joins, noon.Add(got)); got > 0 && then == tc.state {
				t.Errorf("%+v does not change then", tc.state)
			}
		})
	}
}

func machine(name string, c corev1.NodeCondition, at time.Time) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(ago(time.Hour))}}
	c.LastTransitionTime = metav1.NewTime(at)
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	m.Status.Conditions = Record([]corev1.NodeCondition{ready}, c)
	return m
}

var (
	joined = corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: machinev1.ReasonJoined}
	failed = corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: machinev1.ReasonFailedJoin}
)

func TestJoins(t *testing.T) {
	t.Parallel()
	got := State{Counted: ago(30 * time.Minute)}.Joins(standard, []*machinev1.Machine{
		machine("counted", failed, ago(30*time.Minute)), machine("same cycle", failed, ago(11*time.Minute)),
		machine("later", failed, ago(9*time.Minute)), machine("next cycle", failed, ago(10*time.Minute)),
		machine("fast", joined, ago(9*time.Minute)), machine("slow", joined, ago(time.Minute)),
		machine("earlier", joined, ago(30*time.Minute)),
		{},
	})
	want := Joins{Failed: 2, First: ago(10 * time.Minute), Joined: 2, Longest: 59 * time.Minute, Example: "next cycle"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestABatchIsOneCycle: however long its machines stay after they failed.
func TestABatchIsOneCycle(t *testing.T) {
	t.Parallel()
	batch := []*machinev1.Machine{machine("first", failed, noon), machine("preserved", failed, noon.Add(time.Minute))}
	s := State{}
	for i := range 10 {
		now := noon.Add(time.Duration(i*20+1) * time.Minute)
		s = s.Next(standard, s.Joins(standard, batch), now)
	}
	if want := (State{Cycles: 1, Counted: noon}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	grown := State{Timeout: 30 * time.Minute, Adapted: noon, Counted: noon}
	batch = append(batch, machine("a", joined, noon.Add(time.Minute)), machine("b", joined, noon.Add(time.Minute)))
	if j := grown.Joins(standard, batch); j.Failed != 0 || j.Joined != 2 {
		t.Errorf("%+v, want no failure that keeps the timeout from being reduced", j)
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	d := &machinev1.MachineDeployment{}
	if Foreign(d) {
		t.Error("a timeout that nobody set is a user's")
	}
	for _, value := range []string{"1h", "0s", "soon"} {
		d.Annotations = map[string]string{machinev1.EffectiveCreationTimeoutAnnotation: value}
		if !Foreign(d) {
			t.Errorf("timeout %q, which a user set, is the manager's", value)
		}
	}
	State{Timeout: time.Hour, Adapted: noon}.Annotate(d)
	if Foreign(d) {
		t.Error("a timeout that the manager set is a user's")
	}
	d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation] = "5m"
	if !Foreign(d) {
		t.Error("a user who replaces a timeout that has grown is ignored")
	}
	d.Annotations[machinev1.EffectiveCreationTimeoutAppliedAnnotation] = noon.Add(time.Hour).Format(time.RFC3339)
	if Foreign(d) {
		t.Error("a timeout that MCM adapted since is a user's")
	}
	if !Forget(d) || Forget(d) || len(d.Annotations) != 1 {
		t.Errorf("annotations %v, want the timeout only", d.Annotations)
	}
}

func TestLongest(t *testing.T) {
	t.Parallel()
	huge := Policy{Timeout: 20 * time.Minute, GrowthPercent: 1 << 30, Cycles: 1}
	if got := huge.Longest(); got != limit {
		t.Errorf("%s, want %s", got, limit)
	}
}
