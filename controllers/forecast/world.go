package forecast

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// A member is a set of the pool with its Machines.
type member struct {
	set      *machinev1.MachineSet
	machines []*machinev1.Machine
	selected map[*machinev1.Machine]bool // for an update in place
}

// A world is a pool while the change is played through.
type world struct {
	d       *machinev1.MachineDeployment // nil: the one set is of its own
	bounds  rollout.Bounds
	now     time.Time
	sets    []*member // oldest first
	current *member   // the set with the template; nil if there is none
	rounds  int
	changed bool // in this round
	created map[*machinev1.Machine]bool
	out     Outcome
}

// play repeats what the controllers do, until nothing changes any more: decide is the controller of
// the MachineDeployment.
func (w *world) play(decide func()) {
	w.created = map[*machinev1.Machine]bool{}
	for _, m := range w.sets {
		w.out.Present += len(m.machines)
		m.report()
	}
	w.out.Least = w.available()
	limit := 100 + 10*(w.out.Present+w.bounds.Allowed()) // every Machine comes and goes a few times at most
	for w.changed = true; w.changed && w.rounds < limit; w.rounds++ {
		w.changed = false
		decide()
		for _, m := range w.sets {
			w.scaleSet(m)
		}
		w.watch()
		w.pass()
	}
}

// scaleSet creates and deletes Machines of a set, as its controller does.
func (w *world) scaleSet(m *member) {
	if !m.set.DeletionTimestamp.IsZero() {
		w.remove(live(m.machines))
		return
	}
	missing := int(m.set.Spec.Replicas) - len(live(m.machines))
	if missing > 0 && brake.Create(m.set).Allowed {
		for range missing {
			w.create(m)
		}
		return
	}
	w.remove(w.surplus(m))
	for _, machine := range live(m.machines) {
		if rollout.PhaseOf(machine) == machinev1.MachineFailed && !w.keeps(m, machine) {
			w.remove([]*machinev1.Machine{machine})
		}
	}
}

// keeps reports whether a failed Machine stays: it is preserved, or the rollout to its set is paused.
func (w *world) keeps(m *member, failed *machinev1.Machine) bool {
	paused := w.d != nil && rollout.PausedTo(w.d, m.set.Name)
	return rollout.Preserved(failed, w.now) || paused && joining.FailedToJoin(failed)
}

// surplus returns the Machines that a set has beyond its replicas, by the ranking of its controller.
func (w *world) surplus(m *member) []*machinev1.Machine {
	machines := live(m.machines)
	count := len(machines) - int(m.set.Spec.Replicas)
	if count <= 0 {
		return nil
	}
	ranking := rollout.Ranking{Now: w.now, Chosen: map[string]bool{}}
	first := m.set.Spec.Template.Spec.Class.Name
	var named metav1.Object = m.set
	if w.d != nil {
		named = w.d
		requests, _ := rollout.ParseDeletionRequests(w.d.Annotations[machinev1.TriggerDeletionAnnotation], w.now)
		for _, r := range requests {
			ranking.Chosen[r.Name] = true
		}
	}
	if len(machinev1.FallbackClasses(named, first)) > 0 {
		ranking.Class = first
	}
	ranking.Sort(machines)
	return machines[:count]
}

// create adds a Machine to a set.
func (w *world) create(m *member) {
	w.changed = true
	w.out.Created++
	machine := &machinev1.Machine{Spec: *m.set.Spec.Template.Spec.DeepCopy()}
	machine.Labels = maps.Clone(m.set.Spec.Template.Labels)
	machine.Annotations = maps.Clone(m.set.Spec.Template.Annotations)
	machine.CreationTimestamp.Time = w.now.Add(time.Duration(w.rounds) * time.Second)
	w.created[machine] = true
	m.machines = append(m.machines, machine)
}

// remove deletes Machines.
func (w *world) remove(machines []*machinev1.Machine) {
	for _, machine := range machines {
		w.changed = true
		machine.DeletionTimestamp = &metav1.Time{Time: w.now}
		if w.created[machine] {
			w.out.Discarded++
		} else {
			w.out.Deleted = append(w.out.Deleted, machine.Name)
		}
	}
}

// watch notes how many Machines there are.
func (w *world) watch() {
	total := 0
	for _, m := range w.sets {
		total += len(m.machines)
	}
	w.out.Most, w.out.Least = max(w.out.Most, total), min(w.out.Least, w.available())
}

func (w *world) available() int {
	n := 0
	for _, m := range w.sets {
		for _, machine := range live(m.machines) {
			if rollout.IsAvailable(machine) && !m.selected[machine] {
				n++
			}
		}
	}
	return n
}

// pass lets time pass: what is deleted is gone, and what is new has joined.
func (w *world) pass() {
	joined := false
	for _, m := range w.sets {
		before := len(m.machines)
		m.machines = live(m.machines)
		w.changed = w.changed || len(m.machines) < before
		for _, machine := range m.machines {
			if phase := rollout.PhaseOf(machine); phase == "" || phase == machinev1.MachinePending {
				machine.Status.CurrentStatus.Phase = machinev1.MachineRunning
				joined, w.changed = joined || w.created[machine], true
			}
		}
		m.report()
	}
	if joined {
		w.out.Rounds++
	}
}

// report counts the Machines of a set in its status.
func (m *member) report() {
	status := &m.set.Status
	status.Replicas = int32(len(m.machines)) // #nosec G115 -- as many as were read, or asked for
	status.AvailableReplicas, status.PreservedFailedReplicas = 0, 0
	for _, machine := range live(m.machines) {
		switch {
		case rollout.IsAvailable(machine):
			status.AvailableReplicas++
		case rollout.PhaseOf(machine) == machinev1.MachineFailed && machine.Status.CurrentStatus.PreserveExpiryTime != nil:
			status.PreservedFailedReplicas++
		}
	}
}

// outcome returns what has happened.
func (w *world) outcome() Outcome {
	for _, names := range [][]string{w.out.Deleted, w.out.Updated, w.out.Synced} {
		slices.Sort(names)
	}
	return w.out
}

// live returns the Machines that are not being deleted.
func live(machines []*machinev1.Machine) []*machinev1.Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m *machinev1.Machine) bool {
		return rollout.PhaseOf(m) == machinev1.MachineTerminating
	})
}

func byName(a, b *machinev1.Machine) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
}
