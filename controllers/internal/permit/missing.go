package permit

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// missing returns how many successors the MachineSets of m's pool have yet to create, and the
// name of one such set: a machine that is gone is being replaced until its successor exists.
func (p *Permits) missing(ctx context.Context, m *machinev1.Machine) (count int, set string, err error) {
	sets, err := p.setsOf(ctx, m)
	if err != nil {
		return 0, "", err
	}
	for i := range sets {
		short, err := p.missingIn(ctx, &sets[i])
		if err != nil {
			return 0, "", err
		}
		if count += short; set == "" && short > 0 {
			set = sets[i].Name
		}
	}
	return count, set, nil
}

// missingIn returns how many Machines a MachineSet wants beside those that it has and those that
// are being deleted, which count by themselves. A set that does not create Machines, or cannot,
// wants none: else its pool could never be repaired.
func (p *Permits) missingIn(ctx context.Context, set *machinev1.MachineSet) (int, error) {
	if !set.DeletionTimestamp.IsZero() || freeze.IsFrozen(set) ||
		set.Labels[machinev1.ScaleUpDisabledLabel] == "true" || cannotCreate(set) {
		return 0, nil
	}
	var list machinev1.MachineList
	err := p.client.List(ctx, &list, client.InNamespace(set.Namespace),
		client.MatchingFields{index.MachineByOwner: string(set.UID)}, client.UnsafeDisableDeepCopy)
	return max(int(set.Spec.Replicas)-len(list.Items), 0), err
}

// cannotCreate reports whether the API server refuses the Machines of a MachineSet, as for a quota.
func cannotCreate(set *machinev1.MachineSet) bool {
	return slices.ContainsFunc(set.Status.Conditions, func(c machinev1.MachineSetCondition) bool {
		return c.Type == machinev1.MachineSetReplicaFailure && c.Status == machinev1.ConditionTrue
	})
}

// setsOf returns the MachineSets of m's pool: those of its MachineDeployment, else its own.
func (p *Permits) setsOf(ctx context.Context, m *machinev1.Machine) ([]machinev1.MachineSet, error) {
	set := &machinev1.MachineSet{}
	found, err := p.controllerOf(ctx, m, machinev1.MachineSetKind, set)
	if err != nil || !found {
		return nil, err
	}
	owner := metav1.GetControllerOf(set)
	if owner == nil {
		return []machinev1.MachineSet{*set}, nil
	}
	var list machinev1.MachineSetList
	err = p.client.List(ctx, &list, client.InNamespace(m.Namespace),
		client.MatchingFields{index.SetByOwner: string(owner.UID)}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}
