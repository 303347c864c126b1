package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var rankedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type rankedChange func(*machinev1.Machine)

func ranked(name string, changes ...rankedChange) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{},
		CreationTimestamp: metav1.NewTime(rankedAt),
	}}
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	for _, c := range changes {
		c(m)
	}
	return m
}

func rankedNote(key, value string) rankedChange {
	return func(m *machinev1.Machine) { m.Annotations[key] = value }
}

func rankedIn(phase machinev1.MachinePhase) rankedChange {
	return func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = phase }
}

func rankedOlder(d time.Duration) rankedChange {
	return func(m *machinev1.Machine) { m.CreationTimestamp = metav1.NewTime(rankedAt.Add(-d)) }
}

func rankedPreserved(d time.Duration) rankedChange {
	return func(m *machinev1.Machine) {
		until := metav1.NewTime(rankedAt.Add(d))
		m.Status.CurrentStatus.PreserveExpiryTime = &until
	}
}

func TestRanking(t *testing.T) {
	t.Parallel()
	priority := func(p string) rankedChange { return rankedNote(machinev1.PriorityAnnotation, p) }
	mark := func(d time.Duration) rankedChange {
		return rankedNote(machinev1.MarkedForDeletionAnnotation, rankedAt.Add(d).Format(time.RFC3339))
	}
	deleted := func(m *machinev1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: rankedAt} }
	cases := map[string]struct {
		reason   string
		machines []*machinev1.Machine
		chosen   map[string]bool
		want     []string
	}{
		"Phases": {
			reason: "The less use a machine is, the earlier it goes; unlisted phases go first.",
			machines: []*machinev1.Machine{
				ranked("running"), ranked("available", rankedIn(machinev1.MachineAvailable)),
				ranked("pending", rankedIn(machinev1.MachinePending)),
				ranked("unknown", rankedIn(machinev1.MachineUnknown)),
				ranked("crashing", rankedIn(machinev1.MachineCrashLoopBackOff)),
				ranked("failed", rankedIn(machinev1.MachineFailed)),
				ranked("d-terminating", rankedIn(machinev1.MachineTerminating)), ranked("a-new", rankedIn("")),
				ranked("b-updating", rankedIn(machinev1.MachineInPlaceUpdating)),
				ranked("c-updated", rankedIn(machinev1.MachineInPlaceUpdateSuccessful)),
				ranked("c-update-failed", rankedIn(machinev1.MachineInPlaceUpdateFailed)),
			},
			want: []string{
				"a-new", "b-updating", "c-update-failed", "c-updated", "d-terminating", "failed", "crashing",
				"unknown", "pending", "available", "running",
			},
		},
		"Deleted": {
			reason:   "A machine that is being deleted is Terminating whatever its phase.",
			machines: []*machinev1.Machine{ranked("failed", rankedIn(machinev1.MachineFailed)), ranked("going", deleted)},
			want:     []string{"going", "failed"},
		},
		"Priority": {
			reason: "A lower priority goes before everything but preservation; 3 is the default, also for what is no number.",
			machines: []*machinev1.Machine{
				ranked("five", priority("5")), ranked("none", rankedIn(machinev1.MachineFailed)),
				ranked("bad", priority("high")), ranked("one", priority("1")), ranked("zero", priority("0")),
			},
			want: []string{"zero", "one", "none", "bad", "five"},
		},
		"Autoscaler": {
			reason: "The annotation of the upstream autoscaler is priority 1, whatever it says, and does not lower one that " +
				"is higher.",
			machines: []*machinev1.Machine{
				ranked("a", rankedIn(machinev1.MachineFailed)),
				ranked("c", rankedNote(machinev1.DeleteMachineAnnotation, "")),
				ranked("b", priority("0"), rankedNote(machinev1.DeleteMachineAnnotation, "now")),
			},
			want: []string{"b", "c", "a"},
		},
		"Chosen": {
			reason:   "A machine that the MachineDeployment lists for deletion goes first, even before its annotation is seen.",
			machines: []*machinev1.Machine{ranked("a", rankedIn("")), ranked("b")},
			chosen:   map[string]bool{"b": true},
			want:     []string{"b", "a"},
		},
		"Preserved": {
			reason: "Preserved machines go last: those that MCM preserves before those that a person does, earlier expiry " +
				"first. An expired one is like any other.",
			machines: []*machinev1.Machine{
				ranked("late", rankedPreserved(2*time.Hour)), ranked("early", rankedPreserved(time.Hour), priority("1")),
				ranked("auto", rankedPreserved(3*time.Hour), rankedNote(machinev1.PreserveAnnotation, machinev1.PreserveAuto)),
				ranked("expired", rankedPreserved(-time.Hour), rankedIn(machinev1.MachineFailed)), ranked("running"),
				ranked("now", rankedPreserved(0)),
			},
			want: []string{"expired", "now", "running", "auto", "early", "late"},
		},
		"Marks": {
			reason: "Among equal priorities marked machines go first, the earliest mark first; what is no time is no mark.",
			machines: []*machinev1.Machine{
				ranked("none", rankedIn(machinev1.MachineFailed)),
				ranked("bad", rankedNote(machinev1.MarkedForDeletionAnnotation, "soon")), ranked("late", mark(0)),
				ranked("early", mark(-time.Hour)),
			},
			want: []string{"early", "late", "none", "bad"},
		},
		"Age": {
			reason:   "Of equal machines the oldest goes first, and then the name decides.",
			machines: []*machinev1.Machine{ranked("b"), ranked("a"), ranked("old", rankedOlder(time.Hour))},
			want:     []string{"old", "a", "b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			Ranking{Now: rankedAt, Chosen: tc.chosen}.Sort(tc.machines)
			var got []string
			for _, m := range tc.machines {
				got = append(got, m.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRankingByClass(t *testing.T) {
	t.Parallel()
	of := func(class string) rankedChange { return func(m *machinev1.Machine) { m.Spec.Class.Name = class } }
	order := func(class string) string {
		machines := []*machinev1.Machine{
			ranked("first", of("first"), rankedOlder(time.Hour)), ranked("fallback", of("fallback")),
			ranked("failed", of("first"), rankedIn(machinev1.MachineFailed)),
		}
		Ranking{Now: rankedAt, Class: class}.Sort(machines)
		return machines[0].Name + " " + machines[1].Name + " " + machines[2].Name
	}
	if got := order("first"); got != "failed fallback first" {
		t.Errorf("order %s: machines of other classes go before older ones", got)
	}
	if got := order(""); got != "failed first fallback" {
		t.Errorf("order %s: without a class, the order is MCM's", got)
	}
}

func TestShielded(t *testing.T) {
	t.Parallel()
	first := rankedNote(machinev1.PriorityAnnotation, "1")
	for name, tc := range map[string]struct {
		reason   string
		machines []*machinev1.Machine
		want     int
	}{
		"None": {
			"Without priorities broken machines go first.",
			[]*machinev1.Machine{ranked("a"), ranked("b", rankedIn(machinev1.MachinePending))},
			0,
		},
		"Healthy": {
			"A healthy machine that goes first hides the broken one.",
			[]*machinev1.Machine{ranked("a", first), ranked("b", rankedIn(machinev1.MachinePending))},
			1,
		},
		"Broken": {
			"A broken one with the priority is the first to go.",
			[]*machinev1.Machine{ranked("a"), ranked("b", rankedIn(machinev1.MachineFailed), first)},
			0,
		},
		"Preserved": {
			"One that is kept for examination is counted as that.",
			[]*machinev1.Machine{ranked("a"), ranked("b", rankedIn(machinev1.MachineFailed), rankedPreserved(time.Hour))},
			0,
		},
		"Nothing": {"No machines hide none.", nil, 0},
	} {
		if got := (Ranking{Now: rankedAt}).ProtectedUnavailable(tc.machines); got != tc.want {
			t.Errorf("%s: %d, want %d: %s", name, got, tc.want, tc.reason)
		}
	}
}
