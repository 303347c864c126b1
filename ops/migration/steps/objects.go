package steps

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// annotate sets annotations of o, nil takes one away, with one write that leaves
// everything else alone. An object that is gone is fine; another one of that name
// is not touched.
func (e *Engine) annotate(ctx context.Context, o client.Object, values map[string]*string) error {
	changed := o.DeepCopyObject().(client.Object)
	all := maps.Clone(changed.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range values {
		if value == nil {
			delete(all, key)
			continue
		}
		all[key] = *value
	}
	changed.SetAnnotations(all)
	return e.patch(ctx, o, changed)
}

// patch writes the difference between o and changed, unless somebody else has
// changed the object since.
func (e *Engine) patch(ctx context.Context, o, changed client.Object) error {
	err := e.Control.Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write %s: %w", objects.Title(o), err)
	}
	return nil
}

// create creates o, owned by owner. One that exists already was made by an earlier
// call whose answer was lost, and is looked at in the next pass.
func (e *Engine) create(ctx context.Context, o client.Object, owner *metav1.OwnerReference) error {
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	if err := client.IgnoreAlreadyExists(e.Control.Create(ctx, o)); err != nil {
		return fmt.Errorf("make %s: %w", objects.Title(o), err)
	}
	return nil
}

// remove removes objects from the API server and nothing else: their controllers are
// at rest, and their VMs are somebody else's now.
func (e *Engine) remove(ctx context.Context, list []client.Object) error {
	for _, o := range list {
		if err := e.removeOne(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// removeOne deletes first and takes the finalizers away then, because Cluster API
// puts its own back onto objects that are not being deleted. Each write carries
// the version that was read, so an object that has changed since is looked at again.
func (e *Engine) removeOne(ctx context.Context, o client.Object) error {
	if _, marked := o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; !marked && !objects.IsNative(o) {
		changed := o.DeepCopyObject().(client.Object)
		machinev1.SetAnnotation(changed, clusterctlv1.DeleteForMoveAnnotation, "")
		if err := e.patch(ctx, o, changed); err != nil {
			return err
		}
		o = changed
	}
	if o.GetDeletionTimestamp().IsZero() {
		err := e.Control.Delete(ctx, o, asRead(o), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %s: %w", objects.Title(o), err)
		}
		if len(o.GetFinalizers()) == 0 {
			return nil
		}
	}
	fresh := o.DeepCopyObject().(client.Object)
	if err := e.Control.Get(ctx, client.ObjectKeyFromObject(o), fresh); err != nil {
		return client.IgnoreNotFound(err)
	}
	if fresh.GetUID() != o.GetUID() || len(fresh.GetFinalizers()) == 0 {
		return nil
	}
	changed := fresh.DeepCopyObject().(client.Object)
	changed.SetFinalizers(nil)
	return e.patch(ctx, fresh, changed)
}

// asRead has a deletion succeed only while the object is as it was read.
func asRead(o client.Object) client.Preconditions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

// refTo is a reference to o as it stands in what it owns.
func refTo(o client.Object, controller bool) *metav1.OwnerReference {
	version := clusterv1.GroupVersion
	if objects.IsNative(o) {
		version = machinev1.GroupVersion
	}
	ref := &metav1.OwnerReference{
		APIVersion: version.String(), Kind: objects.KindOf(o), Name: o.GetName(), UID: o.GetUID(),
	}
	if controller {
		ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	}
	return ref
}

// matches reports whether have is want, with fields that want leaves to the API
// server filled in.
func matches(want, have any) bool { return equality.Semantic.DeepDerivative(want, have) }

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

// update writes changed if it differs from have.
func (e *Engine) update(ctx context.Context, have, changed client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(have, changed) {
		return false, nil
	}
	return true, e.patch(ctx, have, changed)
}
