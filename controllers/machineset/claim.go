package machineset

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// claimMachines adds the finalizer to the set, because it must be there before
// the first Machine, releases Machines whose labels no longer match, and adopts
// those that match and have no controller. Other owner references stay.
func (c *Controller) claimMachines(ctx context.Context, s *scope) error {
	err := c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		controllerutil.AddFinalizer(set, machinev1.Finalizer)
	})
	if err != nil {
		return err
	}
	return errors.Join(c.releaseMachines(ctx, s), c.adoptMachines(ctx, s))
}

// releaseMachines removes the set's owner reference from Machines that the
// selector does not match.
func (c *Controller) releaseMachines(ctx context.Context, s *scope) error {
	var matching []*machinev1.Machine
	var errs []error
	for _, m := range s.machines {
		if s.selector.Matches(labels.Set(m.Labels)) {
			matching = append(matching, m)
			continue
		}
		_, err := c.patchMachine(ctx, s, m, func(m *machinev1.Machine) {
			m.OwnerReferences = otherOwners(m, s.set)
		}, client.MergeFromWithOptimisticLock{})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
		}
	}
	s.machines = matching
	return errors.Join(errs...)
}

// adoptMachines makes the set the controller of the orphans that match.
func (c *Controller) adoptMachines(ctx context.Context, s *scope) error {
	orphans := slices.DeleteFunc(slices.Clone(s.orphans), func(m *machinev1.Machine) bool {
		return !m.DeletionTimestamp.IsZero()
	})
	if len(orphans) == 0 {
		return nil
	}
	if err := c.canAdopt(ctx, s); err != nil {
		return err
	}
	for _, m := range orphans {
		adopted, err := c.patchMachine(ctx, s, m, func(m *machinev1.Machine) {
			// The controller goes first: autoscalers read the first owner only.
			m.OwnerReferences = append([]metav1.OwnerReference{controllerRef(s.set)}, otherOwners(m, s.set)...)
		}, client.MergeFromWithOptimisticLock{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		s.machines = append(s.machines, adopted)
	}
	sortByName(s.machines)
	return nil
}

// canAdopt returns an error unless the set exists on the API server and is not
// being deleted: an adopted Machine would be deleted with it.
func (c *Controller) canAdopt(ctx context.Context, s *scope) error {
	live, err := c.getLiveSet(ctx, s)
	if err != nil {
		return err
	}
	if live.UID != s.set.UID || !live.DeletionTimestamp.IsZero() {
		return errCacheStale("the MachineSet is being deleted")
	}
	return nil
}

// otherOwners returns the owner references of a Machine without that of the set.
func otherOwners(m *machinev1.Machine, set *machinev1.MachineSet) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(m.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return ref.UID == set.UID
	})
}

func controllerRef(set *machinev1.MachineSet) metav1.OwnerReference {
	return *metav1.NewControllerRef(set, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))
}

func sortByName(machines []*machinev1.Machine) {
	slices.SortFunc(machines, func(a, b *machinev1.Machine) int { return strings.Compare(a.Name, b.Name) })
}

// errCacheStale returns the error of a reconcile that learned from the API server
// that its cache is stale. It is a conflict: the next reconcile sees the change.
func errCacheStale(cause string) error {
	return apierrors.NewConflict(machinev1.GroupVersion.WithResource("machinesets").GroupResource(), "", errors.New(cause))
}
