package migration

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// copyToNative writes the native side, held, as the Cluster API door is. What is
// there already keeps its identity; what is missing is made.
func (e *Engine) copyToNative(ctx context.Context, m *move, s *Scene) (done bool, waiting string, err error) {
	if wrote, err := e.dropDeleted(ctx, s); err != nil || wrote {
		return false, "", err
	}
	for _, tier := range s.tiers(DoorNative) {
		if missing, err := e.rest(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return false, resting(DoorNative, missing), err
		}
	}
	want, findings := s.CopyToNative(m.options())
	if err := refuse(m.Pool, findings); err != nil {
		return false, "", err
	}
	for _, step := range []func(context.Context, *Scene, *Native) (bool, error){
		e.writeNativeDeployment, e.writeNativeSets, e.writeNativeMachines, e.writeNativeStatus, e.deleteSurplus,
	} {
		if wrote, err := step(ctx, s, &want); err != nil || wrote {
			return false, "", err
		}
	}
	return true, "", nil
}

// dropDeleted removes native objects that are being deleted although the pool's
// truth, the Cluster API door, still has them: what an unfinished finish, or a
// user, has deleted of the copy. Released, they would take their VMs along.
func (e *Engine) dropDeleted(ctx context.Context, s *Scene) (wrote bool, err error) {
	var stale []client.Object
	for _, tier := range s.tiers(DoorNative)[:2] {
		for _, o := range tier {
			if !o.GetDeletionTimestamp().IsZero() {
				stale = append(stale, o)
			}
		}
	}
	for i := range s.Native.Machines {
		o := &s.Native.Machines[i]
		if !o.DeletionTimestamp.IsZero() && find(s.ClusterAPI.Machines, o.Name) != nil {
			stale = append(stale, o)
		}
	}
	for _, o := range stale {
		if !atRest(o) {
			return false, fmt.Errorf("%s is being deleted and is not held: its VM may go; wait until it is gone", title(o))
		}
	}
	return len(stale) > 0, e.drop(ctx, stale)
}

func (e *Engine) writeNativeDeployment(ctx context.Context, s *Scene, want *Native) (bool, error) {
	switch have := s.Native.Deployment; {
	case want.Deployment == nil:
		return false, nil
	case have == nil:
		return true, e.make(ctx, want.Deployment, nil)
	default:
		changed := have.DeepCopy()
		changed.Labels, changed.Annotations, changed.Spec = want.Deployment.Labels, want.Deployment.Annotations, want.Deployment.Spec
		return e.update(ctx, have, changed)
	}
}

func (e *Engine) writeNativeSets(ctx context.Context, s *Scene, want *Native) (wrote bool, err error) {
	var owner *metav1.OwnerReference
	if s.Native.Deployment != nil {
		owner = refTo(s.Native.Deployment, true)
	}
	for i := range want.Sets {
		o := &want.Sets[i]
		have, did := find(s.Native.Sets, o.Name), true
		if have == nil {
			err = e.make(ctx, o, owner)
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

func (e *Engine) writeNativeMachines(ctx context.Context, s *Scene, want *Native) (wrote bool, err error) {
	for i := range want.Machines {
		o := &want.Machines[i]
		owner := s.ownerOfNative(o)
		have, did := find(s.Native.Machines, o.Name), true
		if have == nil {
			err = e.make(ctx, o.DeepCopy(), owner)
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
func (s *Scene) ownerOfNative(m *machinev1.Machine) *metav1.OwnerReference {
	for _, ref := range m.OwnerReferences {
		if ref.Kind != machinev1.MachineSetKind {
			continue
		}
		if set := find(s.Native.Sets, ref.Name); set != nil {
			return refTo(set, true)
		}
	}
	return nil
}

// withController puts the controlling owner first, where autoscalers look, in
// place of any other one of its kind.
func withController(refs []metav1.OwnerReference, owner *metav1.OwnerReference) []metav1.OwnerReference {
	if owner == nil {
		return refs
	}
	out := []metav1.OwnerReference{*owner}
	for _, ref := range refs {
		if ref.Kind != owner.Kind {
			out = append(out, ref)
		}
	}
	return out
}

// writeNativeStatus gives Machines that were made here the status of one that has
// joined; the API server takes none with the object.
func (e *Engine) writeNativeStatus(ctx context.Context, s *Scene, want *Native) (wrote bool, err error) {
	for i := range want.Machines {
		have := find(s.Native.Machines, want.Machines[i].Name)
		if have == nil || have.Status.CurrentStatus.Phase != "" || want.Machines[i].Status.CurrentStatus.Phase == "" {
			continue
		}
		changed := have.DeepCopy()
		changed.Status = want.Machines[i].Status
		if err := e.Control.Status().Patch(ctx, changed, client.MergeFrom(have)); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("write the status of %s: %w", title(have), err)
		}
		wrote = true
	}
	return wrote, nil
}

// deleteSurplus asks for the deletion of native Machines that the Cluster API door
// has removed meanwhile. They are held: it is carried out after their release, and
// takes along whatever there still is.
func (e *Engine) deleteSurplus(ctx context.Context, s *Scene, want *Native) (wrote bool, err error) {
	for i := range s.Native.Machines {
		o := &s.Native.Machines[i]
		if find(want.Machines, o.Name) != nil || !o.DeletionTimestamp.IsZero() {
			continue
		}
		uid, version := o.UID, o.ResourceVersion
		if err := e.Control.Delete(ctx, o, client.Preconditions{
			UID:             &uid,
			ResourceVersion: &version,
		}); client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("delete %s: %w", title(o), err)
		}
		wrote = true
	}
	return wrote, nil
}

// update writes changed if it differs from have.
func (e *Engine) update(ctx context.Context, have, changed client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(have, changed) {
		return false, nil
	}
	return true, e.patch(ctx, have, changed)
}
