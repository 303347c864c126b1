package machineset

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// keepAvailable returns those of the surplus machines that may be deleted now. The size of
// the set may follow from what a user has asked for and taken back since: available
// machines are deleted only as far as the MachineDeployment, read uncached, allows. It
// scales the set out again, or other machines become available in their place.
// Machines that a scaler or a user has chosen are deleted in any case.
func (c *Controller) keepAvailable(ctx context.Context, s *scope, surplus, all []*machinev1.Machine,
) ([]*machinev1.Machine, error) {
	chosen := rollout.Ranking{Now: s.now, Chosen: s.requestedDeletions()}
	atRisk := func(m *machinev1.Machine) bool { return isAvailable(m) && !chosen.Prioritized(m) }
	if s.deployment == nil || !slices.ContainsFunc(surplus, atRisk) {
		return surplus, nil
	}
	least, err := c.leastAvailable(ctx, s)
	if err != nil || least == 0 {
		return surplus, err
	}
	others, err := c.availableInOtherSets(ctx, s)
	if err != nil {
		return nil, err
	}
	deletable, withheld := keepAtRisk(surplus, atRisk, others+available(all)-least)
	s.withheld = withheld
	return deletable, nil
}

// keepAtRisk takes those that are at risk out of the surplus machines, but for as many as
// the available ones are more than needed. withheld is how many it took out.
func keepAtRisk(surplus []*machinev1.Machine, atRisk func(*machinev1.Machine) bool, spare int,
) (deletable []*machinev1.Machine, withheld int) {
	for _, m := range surplus {
		if isAvailable(m) && !atRisk(m) {
			spare--
		}
	}
	for _, m := range surplus {
		if atRisk(m) {
			spare--
			if spare < 0 {
				withheld++
				continue
			}
		}
		deletable = append(deletable, m)
	}
	return deletable, withheld
}

// leastAvailable returns how many machines of the set's MachineDeployment have to stay
// available: replicas less maxUnavailable of a rolling update, else none.
func (c *Controller) leastAvailable(ctx context.Context, s *scope) (int, error) {
	live := &machinev1.MachineDeployment{}
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.deployment), live)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("read MachineDeployment on the API server: %w", err)
	}
	rolling := live.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType
	if live.UID != s.deployment.UID || !live.DeletionTimestamp.IsZero() || !rolling {
		return 0, nil
	}
	bounds, err := rollout.BoundsOf(live)
	if err != nil {
		return 0, nil //nolint:nilerr // the MachineDeployment reports its invalid spec, and promises nothing
	}
	return bounds.MinAvailable(), nil
}

// availableInOtherSets counts the available machines of the MachineDeployment's other sets.
func (c *Controller) availableInOtherSets(ctx context.Context, s *scope) (int, error) {
	sets := &machinev1.MachineSetList{}
	err := c.Client.List(ctx, sets, client.InNamespace(s.set.Namespace),
		client.MatchingFields{index.SetByOwner: string(s.deployment.UID)})
	if err != nil {
		return 0, fmt.Errorf("list MachineSets: %w", err)
	}
	count := 0
	for i := range sets.Items {
		if sets.Items[i].UID == s.set.UID {
			continue
		}
		machines := &machinev1.MachineList{}
		err := c.Client.List(ctx, machines, client.InNamespace(s.set.Namespace),
			client.MatchingFields{index.MachineByOwner: string(sets.Items[i].UID)})
		if err != nil {
			return 0, fmt.Errorf("list Machines: %w", err)
		}
		for j := range machines.Items {
			if isAvailable(&machines.Items[j]) {
				count++
			}
		}
	}
	return count, nil
}

// isAvailable reports whether a machine serves: it has a node that is ready.
func isAvailable(m *machinev1.Machine) bool {
	phase := rollout.PhaseOf(m)
	return phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable
}
