package machineset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// getLiveSet reads the set uncached; it returns one without UID if there is none,
// and a conflict if the set is held.
func (c *Controller) getLiveSet(ctx context.Context, s *scope) (*machinev1.MachineSet, error) {
	live := &machinev1.MachineSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.set), live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read MachineSet on the API server: %w", err)
	}
	return live, errIfHeld(live, nil)
}

// listLiveMachines lists the set's Machines uncached, sorted by name. It drops from
// the scope those that were created here and no longer exist, and returns a
// conflict if one is held.
func (c *Controller) listLiveMachines(ctx context.Context, s *scope) ([]*machinev1.Machine, error) {
	machines, err := c.listControlled(ctx, s, s.selector)
	if err != nil {
		return nil, err
	}
	sortByName(machines)
	s.machines = s.memory.machines.DropDeleted(s.machines, machines)
	return machines, errIfHeld(s.set, machines)
}

// listRemainingMachines lists the Machines of a set that is being deleted, uncached.
// It looks for Machines that the cache does not show yet and therefore still have
// the labels of the template; the garbage collector deletes one that lost them.
// Reading all Machines of the namespace would cost the square of their number when
// many sets are deleted; only a set without a usable selector does that.
func (c *Controller) listRemainingMachines(ctx context.Context, s *scope) ([]*machinev1.Machine, error) {
	if s.selector == nil {
		return c.listControlled(ctx, s, labels.Everything())
	}
	return c.listControlled(ctx, s, s.selector)
}

func (c *Controller) listControlled(ctx context.Context, s *scope, selector labels.Selector,
) ([]*machinev1.Machine, error) {
	list := &machinev1.MachineList{}
	err := c.Live.List(ctx, list, client.InNamespace(s.set.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("list Machines on the API server: %w", err)
	}
	var machines []*machinev1.Machine
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.set) {
			machines = append(machines, &list.Items[i])
		}
	}
	return machines, nil
}
