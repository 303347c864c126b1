package machineset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// scale creates the machines that are missing, or deletes those that are too
// many, failed, or chosen by a scaler. Failed machines count until they are
// deleted, so a pass that creates leaves them to the next one.
func (c *Controller) scale(ctx context.Context, s *scope) error {
	s.replicasCompared = true
	s.requeueAtPreserveExpiry()
	missing := int(s.set.Spec.Replicas) - len(active(s.machines))
	if missing > 0 && !s.createsBlocked() {
		s.scaleErr = c.createMachines(ctx, s)
		return s.scaleErr
	}
	s.scaleErr = c.deleteUnwanted(ctx, s)
	if s.scaleErr != nil {
		return s.scaleErr
	}
	return c.closeReservation(ctx, s)
}

// createsBlocked reports whether no machine may be created now.
func (s *scope) createsBlocked() bool {
	_, disabled := s.set.Labels[machinev1.ScaleUpDisabledLabel]
	return disabled || freeze.IsFrozen(s.set)
}

// deleteUnwanted deletes the machines that shall go.
func (c *Controller) deleteUnwanted(ctx context.Context, s *scope) error {
	going, err := c.findSurplus(ctx, s)
	if err != nil {
		return err
	}
	for _, m := range active(s.machines) {
		if shouldReplaceFailed(m, s.nodePreserves[m.Name], s.now) || s.shouldDeleteMarked(m) {
			going = append(going, m)
		}
	}
	return c.deleteMachines(ctx, s, deduplicate(going))
}

// findSurplus returns the machines that are too many. Which ones is decided from
// what the API server has: a scaler marks a machine just before it asks for one
// machine less, and the cache may show the two in the other order.
func (c *Controller) findSurplus(ctx context.Context, s *scope) ([]*machinev1.Machine, error) {
	if surplusCount(s.set, s.machines) <= 0 {
		return nil, nil
	}
	if live, err := c.getLiveSet(ctx, s); err != nil {
		return nil, err
	} else if live.UID != s.set.UID || live.Spec.Replicas != s.set.Spec.Replicas {
		return nil, errCacheStale("the MachineSet has been scaled")
	}
	machines, err := c.listLiveMachines(ctx, s)
	if err != nil {
		return nil, err
	}
	count := surplusCount(s.set, machines)
	candidates := countedMachines(machines)
	if count <= 0 {
		return nil, nil
	}
	rollout.Ranking{Now: s.now, Chosen: deletionCandidates(s.deployment)}.Sort(candidates)
	return candidates[:count], nil
}

func surplusCount(set *machinev1.MachineSet, machines []*machinev1.Machine) int {
	return len(countedMachines(machines)) - int(set.Spec.Replicas)
}

// countedMachines returns the machines that a set must have replicas for. One that has
// just been updated in place came from another set, and its replica follows.
func countedMachines(machines []*machinev1.Machine) []*machinev1.Machine {
	return slices.DeleteFunc(active(machines), func(m *machinev1.Machine) bool {
		return m.Labels[machinev1.UpdateResultLabel] == machinev1.UpdateSuccessful
	})
}

// getLiveSet is the set on the API server; one without UID if there is none.
func (c *Controller) getLiveSet(ctx context.Context, s *scope) (*machinev1.MachineSet, error) {
	live := &machinev1.MachineSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.set), live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read MachineSet on the API server: %w", err)
	}
	return live, errIfHeld(live, nil)
}

// listLiveMachines lists the set's machines on the API server, sorted by name.
func (c *Controller) listLiveMachines(ctx context.Context, s *scope) ([]*machinev1.Machine, error) {
	list := &machinev1.MachineList{}
	err := c.Live.List(ctx, list, client.InNamespace(s.set.Namespace), client.MatchingLabelsSelector{Selector: s.selector})
	if err != nil {
		return nil, fmt.Errorf("count Machines on the API server: %w", err)
	}
	var machines []*machinev1.Machine
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.set) {
			machines = append(machines, &list.Items[i])
		}
	}
	sortByName(machines)
	s.machines = s.memory.dropDeleted(s.machines, machines)
	return machines, errIfHeld(s.set, machines)
}

// shouldDeleteMarked reports whether a scaler wants this very machine deleted, even if there is
// none too many. The mark must not be newer than the scaler's last change of the
// replicas, and that change must have reached the set: otherwise the machine
// would be replaced first and the set shrunk afterwards.
func (s *scope) shouldDeleteMarked(m *machinev1.Machine) bool {
	if m.Annotations[machinev1.PriorityAnnotation] != machinev1.HighestPriority {
		return false
	}
	marked, isMarked := rollout.MarkedAt(m)
	changed, err := time.Parse(time.RFC3339, s.set.Annotations[machinev1.LastReplicaChangeByScalerAnnotation])
	return isMarked && err == nil && !marked.After(changed) && !s.scalingPending()
}

// scalingPending reports whether the MachineDeployment has been scaled, and the set
// not yet.
func (s *scope) scalingPending() bool {
	desired, found := s.set.Annotations[machinev1.DesiredReplicasAnnotation]
	return found && s.deployment != nil && desired != fmt.Sprint(s.deployment.Spec.Replicas)
}

// deletionCandidates returns the names of the machines that a MachineDeployment lists for
// deletion, as "name~time" or, from old scalers, "name".
func deletionCandidates(d *machinev1.MachineDeployment) map[string]bool {
	names := map[string]bool{}
	if d == nil {
		return names
	}
	for entry := range strings.SplitSeq(d.Annotations[machinev1.TriggerDeletionAnnotation], ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(entry), "~")
		names[name] = true
	}
	return names
}

// deduplicate returns the machines without repetitions, in their order.
func deduplicate(machines []*machinev1.Machine) []*machinev1.Machine {
	seen := map[string]bool{}
	return slices.DeleteFunc(machines, func(m *machinev1.Machine) bool {
		was := seen[m.Name]
		seen[m.Name] = true
		return was
	})
}
