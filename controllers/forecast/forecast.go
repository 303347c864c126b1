// Package forecast tells what the controllers of the native API do about a MachineDeployment or a
// MachineSet before it is written: which Machines they create, delete, or update in place.
//
// It plays the change through in memory, step by step, with the functions of
// controllers/internal/rollout that the controllers decide with. Machines that it creates join at
// once: an outcome holds if nothing fails. Nothing here reads or writes an API.
package forecast

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// Observed are the MachineSets and Machines of a namespace, as they were read. They are not changed.
type Observed struct {
	Sets     []machinev1.MachineSet
	Machines []machinev1.Machine
}

// An Outcome is what the controllers do. Machines are named where they exist already.
type Outcome struct {
	// Present is how many Machines the pool has, terminating ones included.
	Present int
	// Created is how many Machines are created.
	Created int
	// Deleted are the Machines that are deleted, sorted.
	Deleted []string
	// Discarded is how many of the created Machines are deleted again.
	Discarded int
	// Updated are the Machines that the strategy InPlaceUpdate updates without replacing their VMs.
	Updated []string
	// Synced are the Machines that get another node template, other timeouts or limits, or another
	// kind of class, and go on running.
	Synced []string
	// Surge and Unavailable are what the strategy resolves to.
	Surge, Unavailable int
	// Most is how many Machines exist at the same time, terminating ones included; Least how many
	// are available.
	Most, Least int
	// Rounds is how often new Machines have to join before the controllers go on.
	Rounds int
	// Waits is why the controllers stop before all Machines have the template; empty: they do not.
	Waits string
}

// Replaced is how many of the deleted Machines others take the place of.
func (o *Outcome) Replaced() int { return min(o.Created-o.Discarded, len(o.Deleted)) }

// OfDeployment tells what happens if d is as it is here. The error says which field of its strategy
// is wrong; nothing happens then.
func OfDeployment(d *machinev1.MachineDeployment, seen Observed, now time.Time) (Outcome, error) {
	bounds, err := rollout.BoundsOf(d)
	if err != nil {
		return Outcome{}, fmt.Errorf("strategy %s: %w", d.Spec.Strategy.Type, err)
	}
	w := &world{d: d.DeepCopy(), bounds: bounds, now: now}
	w.out.Surge, w.out.Unavailable = bounds.Surge, bounds.Unavailable
	for _, set := range setsOf(d, seen.Sets) {
		w.sets = append(w.sets, &member{set: set.DeepCopy(), machines: machinesOf(set, seen.Machines)})
	}
	if w.out.Waits = w.heldBy(); w.out.Waits == "" {
		w.play(w.act)
		w.settle()
	}
	return w.outcome(), nil
}

// OfSet tells what happens if a MachineSet is as it is here. d is the MachineDeployment that controls
// it; nil if none does.
func OfSet(set *machinev1.MachineSet, d *machinev1.MachineDeployment, seen Observed, now time.Time) Outcome {
	w := &world{now: now, d: d, bounds: rollout.Bounds{Replicas: int(set.Spec.Replicas)}}
	w.current = &member{set: set.DeepCopy(), machines: machinesOf(set, seen.Machines)}
	w.sets = []*member{w.current}
	if w.out.Waits = w.heldBy(); w.out.Waits == "" {
		w.play(func() {})
		w.settle()
	}
	return w.outcome()
}

// setsOf returns the sets that d controls or would adopt, oldest first.
func setsOf(d *machinev1.MachineDeployment, all []machinev1.MachineSet) []*machinev1.MachineSet {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		selector = labels.Nothing()
	}
	var sets []*machinev1.MachineSet
	for i := range all {
		set := &all[i]
		orphan := metav1.GetControllerOf(set) == nil && set.DeletionTimestamp.IsZero() &&
			selector.Matches(labels.Set(set.Labels))
		if set.Namespace == d.Namespace && (orphan || metav1.IsControlledBy(set, d)) {
			sets = append(sets, set)
		}
	}
	rollout.SortByAge(sets)
	return sets
}

// machinesOf returns copies of the Machines that a set controls or would adopt, by name.
func machinesOf(set *machinev1.MachineSet, all []machinev1.Machine) []*machinev1.Machine {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		selector = labels.Nothing()
	}
	var machines []*machinev1.Machine
	for i := range all {
		m := &all[i]
		orphan := metav1.GetControllerOf(m) == nil && m.DeletionTimestamp.IsZero() &&
			selector.Matches(labels.Set(m.Labels))
		if m.Namespace == set.Namespace && (orphan || set.UID != "" && metav1.IsControlledBy(m, set)) {
			machines = append(machines, m.DeepCopy())
		}
	}
	slices.SortFunc(machines, byName)
	return machines
}

// Evicts reports whether the drain of a node removes a pod.
func Evicts(pod *corev1.Pod) bool { return drain.IsDrained(pod) }
