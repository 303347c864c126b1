package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// preserveFailed annotates failed machines that are kept for examination, the
// newest first, up to the number that the set allows, and removes the annotation
// from the oldest ones beyond it.
func (c *Controller) preserveFailed(ctx context.Context, s *scope) error {
	mark, unmark := planAutoPreserve(s.machines, s.preservedByNode, int(s.set.Spec.AutoPreserveFailedMachineMax))
	if len(mark) > 0 {
		rolling, err := c.inRollout(ctx, s)
		if err != nil {
			return err
		}
		if rolling {
			mark = nil
		}
	}
	var errs []error
	change := func(m *machinev1.Machine, change func(*machinev1.Machine)) {
		changed, err := c.patchMachine(ctx, s, m, change)
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
			return
		}
		s.replaceMachine(changed)
	}
	for _, m := range mark {
		change(m, func(m *machinev1.Machine) {
			machinev1.SetAnnotation(m, machinev1.PreserveAnnotation, machinev1.PreserveAuto)
		})
	}
	for _, m := range unmark {
		change(m, func(m *machinev1.Machine) { delete(m.Annotations, machinev1.PreserveAnnotation) })
	}
	return errors.Join(errs...)
}

// inRollout reports whether the set's deployment is being rolled out, as far as caches show
// it: another of its sets has machines, or this one is about to be replaced. None is
// preserved automatically then: it would take the place of the machine that the rollout
// waits for. What a person asks for is preserved all the same.
func (c *Controller) inRollout(ctx context.Context, s *scope) (bool, error) {
	d := s.deployment
	if d == nil {
		return false, nil
	}
	if !d.Spec.Paused && !machinev1.SameTemplate(&d.Spec.Template, &s.set.Spec.Template) {
		return true, nil
	}
	var sets machinev1.MachineSetList
	err := c.Client.List(ctx, &sets, client.InNamespace(d.Namespace),
		client.MatchingFields{index.SetByOwner: string(d.UID)})
	if err != nil {
		return false, fmt.Errorf("list MachineSets of MachineDeployment %s: %w", d.Name, err)
	}
	return slices.ContainsFunc(sets.Items, func(other machinev1.MachineSet) bool {
		return other.UID != s.set.UID && (other.Spec.Replicas > 0 || other.Status.Replicas > 0)
	}), nil
}

// preservedByNode reports whether the node's annotation decides about m: the Machine
// controller removes the Machine's own then.
func (s *scope) preservedByNode(m *machinev1.Machine) bool {
	return s.nodePreserves[m.Name].value != "" || m.Annotations[machinev1.LastAppliedNodePreserveAnnotation] != ""
}

// planAutoPreserve returns the machines to annotate and those to remove the annotation
// from. A machine that a person has annotated, or whose node decides, is left alone.
func planAutoPreserve(
	machines []*machinev1.Machine, byNode func(*machinev1.Machine) bool, allowed int,
) (mark, unmark []*machinev1.Machine) {
	var marked, failed []*machinev1.Machine
	for _, m := range machines {
		switch {
		case m.Annotations[machinev1.PreserveAnnotation] == machinev1.PreserveAuto:
			marked = append(marked, m)
		case rollout.PhaseOf(m) == machinev1.MachineFailed && !hasPreserveValue(m) && !byNode(m):
			failed = append(failed, m)
		}
	}
	byAge := func(a, b *machinev1.Machine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }
	slices.SortStableFunc(marked, byAge)
	slices.SortStableFunc(failed, func(a, b *machinev1.Machine) int { return byAge(b, a) })
	free := max(allowed, 0) - len(marked)
	if free < 0 {
		return nil, marked[:-free]
	}
	return failed[:min(free, len(failed))], nil
}

// hasPreserveValue reports whether the preserve annotation of a Machine has a known value.
func hasPreserveValue(m *machinev1.Machine) bool {
	switch m.Annotations[machinev1.PreserveAnnotation] {
	case machinev1.PreserveNow, machinev1.PreserveWhenFailed, machinev1.PreserveAuto, machinev1.PreserveFalse:
		return true
	}
	return false
}

// shouldReplaceFailed reports whether a failed machine is deleted, so that it gets
// replaced: unless it is preserved, or will be once the Machine controller has
// read the annotations.
func shouldReplaceFailed(m *machinev1.Machine, view nodePreserve, now time.Time) bool {
	if rollout.PhaseOf(m) != machinev1.MachineFailed {
		return false
	}
	if m.Status.CurrentStatus.PreserveExpiryTime != nil {
		return !rollout.Preserved(m, now)
	}
	if view.known && !view.found {
		return true
	}
	value := m.Annotations[machinev1.PreserveAnnotation]
	if view.annotated || m.Annotations[machinev1.LastAppliedNodePreserveAnnotation] != "" {
		value = view.value
	}
	switch value {
	case machinev1.PreserveNow, machinev1.PreserveWhenFailed, machinev1.PreserveAuto:
		return false
	}
	return true
}

// requeueAtPreserveExpiry asks for a reconcile when the preservation of the first
// failed machine expires.
func (s *scope) requeueAtPreserveExpiry() {
	for _, m := range s.machines {
		if rollout.PhaseOf(m) == machinev1.MachineFailed && rollout.Preserved(m, s.now) {
			s.requeueAfter(m.Status.CurrentStatus.PreserveExpiryTime.Sub(s.now) + time.Millisecond)
		}
	}
}
