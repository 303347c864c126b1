package steps

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// copyToNative writes the native side, held, as Cluster API is. What is
// there already keeps its identity; what is missing is made.
func (e *Engine) copyToNative(ctx context.Context, m *move, s *migration.PoolState) (done bool, waiting string,
	err error,
) {
	if wrote, err := e.removeDeleted(ctx, s); err != nil || wrote {
		return false, "", err
	}
	for _, tier := range s.Tiers(migration.Native) {
		if missing, err := e.pause(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return false, pausePending(migration.Native, missing), err
		}
	}
	want, findings := fields.ToNative(s, m.options())
	if err := refuse(m.Pool, findings); err != nil {
		return false, "", err
	}
	for _, step := range []func(context.Context, *migration.PoolState, *migration.NativeObjects) (bool, error){
		e.writeNativeDeployment, e.writeNativeSets, e.writeNativeMachines, e.writeNativeStatus, e.deleteSurplus,
	} {
		if wrote, err := step(ctx, s, &want); err != nil || wrote {
			return false, "", err
		}
	}
	return true, "", nil
}

// removeDeleted removes native objects that are being deleted although the pool's
// truth, Cluster API, still has them: what an unfinished finish, or a
// user, has deleted of the copy. Released, they would take their VMs along.
func (e *Engine) removeDeleted(ctx context.Context, s *migration.PoolState) (wrote bool, err error) {
	var stale []client.Object
	for _, tier := range s.Tiers(migration.Native)[:2] {
		for _, o := range tier {
			if !o.GetDeletionTimestamp().IsZero() {
				stale = append(stale, o)
			}
		}
	}
	for i := range s.Native.Machines {
		o := &s.Native.Machines[i]
		if !o.DeletionTimestamp.IsZero() && objects.Find(s.ClusterAPI.Machines, o.Name) != nil {
			stale = append(stale, o)
		}
	}
	for _, o := range stale {
		if !pauseAcknowledged(o) {
			return false, fmt.Errorf("%s is being deleted and is not held: its VM may go; wait until it is gone",
				objects.Title(o))
		}
	}
	return len(stale) > 0, e.remove(ctx, stale)
}

func (e *Engine) writeNativeDeployment(ctx context.Context, s *migration.PoolState,
	want *migration.NativeObjects,
) (bool, error) {
	switch have := s.Native.Deployment; {
	case want.Deployment == nil:
		return false, nil
	case have == nil:
		return true, e.create(ctx, want.Deployment, nil)
	default:
		changed := have.DeepCopy()
		changed.Labels, changed.Annotations, changed.Spec = want.Deployment.Labels, want.Deployment.Annotations,
			want.Deployment.Spec
		return e.update(ctx, have, changed)
	}
}

func (e *Engine) writeNativeSets(ctx context.Context, s *migration.PoolState,
	want *migration.NativeObjects,
) (wrote bool, err error) {
	var owner *metav1.OwnerReference
	if s.Native.Deployment != nil {
		owner = refTo(s.Native.Deployment, true)
	}
	for i := range want.Sets {
		o := &want.Sets[i]
		have, did := objects.Find(s.Native.Sets, o.Name), true
		if have == nil {
			err = e.create(ctx, o, owner)
		} else {
			changed := have.DeepCopy()
			changed.Labels, changed.Annotations, changed.Spec = o.Labels, o.Annotations, o.Spec
			changed.OwnerReferences = withController(have.OwnerReferences, owner)
			did, err = e.update(ctx, have, changed)
		}
		if wrote = wrote || did; err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

func (e *Engine) writeNativeMachines(ctx context.Context, s *migration.PoolState,
	want *migration.NativeObjects,
) (wrote bool, err error) {
	for i := range want.Machines {
		o := &want.Machines[i]
		owner := ownerOfNative(s, o)
		have, did := objects.Find(s.Native.Machines, o.Name), true
		if have == nil {
			err = e.create(ctx, o.DeepCopy(), owner)
		} else {
			changed := have.DeepCopy()
			changed.Labels, changed.Annotations, changed.Spec, changed.Finalizers = o.Labels, o.Annotations, o.Spec, o.Finalizers
			changed.OwnerReferences = withController(have.OwnerReferences, owner)
			did, err = e.update(ctx, have, changed)
		}
		if wrote = wrote || did; err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// ownerOfNative is the native MachineSet that a Machine is to belong to: the one
// with the name that the Machine's owner reference gives. nil if it has none.
func ownerOfNative(s *migration.PoolState, m *machinev1.Machine) *metav1.OwnerReference {
	for _, ref := range m.OwnerReferences {
		if ref.Kind != machinev1.MachineSetKind {
			continue
		}
		if set := objects.Find(s.Native.Sets, ref.Name); set != nil {
			return refTo(set, true)
		}
	}
	return nil
}

// writeNativeStatus gives Machines that were made here the status of one that has
// joined; the API server takes none with the object.
func (e *Engine) writeNativeStatus(ctx context.Context, s *migration.PoolState,
	want *migration.NativeObjects,
) (wrote bool, err error) {
	for i := range want.Machines {
		have := objects.Find(s.Native.Machines, want.Machines[i].Name)
		if have == nil || have.Status.CurrentStatus.Phase != "" || want.Machines[i].Status.CurrentStatus.Phase == "" {
			continue
		}
		changed := have.DeepCopy()
		changed.Status = want.Machines[i].Status
		if err := e.Control.Status().Patch(ctx, changed, client.MergeFrom(have)); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("write the status of %s: %w", objects.Title(have), err)
		}
		wrote = true
	}
	return wrote, nil
}

// deleteSurplus asks for the deletion of native Machines that Cluster API
// has removed meanwhile. They are held: it is carried out after their release, and
// takes along whatever there still is.
func (e *Engine) deleteSurplus(ctx context.Context, s *migration.PoolState, want *migration.NativeObjects) (wrote bool,
	err error,
) {
	for i := range s.Native.Machines {
		o := &s.Native.Machines[i]
		if objects.Find(want.Machines, o.Name) != nil || !o.DeletionTimestamp.IsZero() {
			continue
		}
		uid, version := o.UID, o.ResourceVersion
		if err := e.Control.Delete(ctx, o, client.Preconditions{
			UID:             &uid,
			ResourceVersion: &version,
		}); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("delete %s: %w", objects.Title(o), err)
		}
		wrote = true
	}
	return wrote, nil
}
