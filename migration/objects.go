package migration

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// make creates o, owned by owner. One that exists already was made by an earlier
// call whose answer was lost, and is looked at in the next pass.
func (e *Engine) make(ctx context.Context, o client.Object, owner *metav1.OwnerReference) error {
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	if err := client.IgnoreAlreadyExists(e.Control.Create(ctx, o)); err != nil {
		return fmt.Errorf("make %s: %w", title(o), err)
	}
	return nil
}

// drop removes objects from the API server and nothing else: their controllers are
// at rest, and their VMs are somebody else's now.
func (e *Engine) drop(ctx context.Context, objects []client.Object) error {
	for _, o := range objects {
		if err := e.dropOne(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// dropOne deletes first and takes the finalizers away then, because Cluster API
// puts its own back onto objects that are not being deleted. Each write carries
// the version that was read, so an object that has changed since is looked at again.
func (e *Engine) dropOne(ctx context.Context, o client.Object) error {
	if _, marked := o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; !marked && !native(o) {
		empty := ""
		changed := o.DeepCopyObject().(client.Object)
		setAnnotation(changed, clusterctlv1.DeleteForMoveAnnotation, empty)
		if err := e.patch(ctx, o, changed); err != nil {
			return err
		}
		o = changed
	}
	if o.GetDeletionTimestamp().IsZero() {
		uid, version := o.GetUID(), o.GetResourceVersion()
		err := e.Control.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %s: %w", title(o), err)
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

func setAnnotation(o client.Object, key, value string) {
	all := maps.Clone(o.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetAnnotations(all)
}

// refTo is a reference to o as it stands in what it owns.
func refTo(o client.Object, controller bool) *metav1.OwnerReference {
	ref := &metav1.OwnerReference{APIVersion: versionOf(o).String(), Kind: kindOf(o), Name: o.GetName(), UID: o.GetUID()}
	if controller {
		ref.Controller, ref.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	}
	return ref
}

func versionOf(o client.Object) schema.GroupVersion {
	if native(o) {
		return machinev1.GroupVersion
	}
	return clusterv1.GroupVersion
}

// find returns the element of that name; nil if there is none.
func find[T any, P interface {
	*T
	client.Object
}](list []T, name string) P {
	for i := range list {
		if P(&list[i]).GetName() == name {
			return &list[i]
		}
	}
	return nil
}

func contains[T any, P interface {
	*T
	client.Object
}](list []T, name string) bool {
	return find[T, P](list, name) != nil
}

// sortedNames are the keys of a map, sorted.
func sortedNames[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }

// derived reports whether have is want, with fields that want leaves to the API
// server filled in.
func derived(want, have any) bool { return equality.Semantic.DeepDerivative(want, have) }

// mcmMachineOf is the MCMMachine of a Machine; nil if it does not exist.
func (s *Scene) mcmMachineOf(m *clusterv1.Machine) *infrav1.MCMMachine {
	return find(s.ClusterAPI.MCMMachines, m.Spec.InfrastructureRef.Name)
}

// provisioned reports whether a MCMMachine has found its VM.
func provisioned(o *infrav1.MCMMachine) bool {
	return ptr.Deref(o.Status.Initialization.Provisioned, false)
}

// lost reports whether the VM of a MCMMachine is certain to be gone. It moves like
// any other, and is replaced by the new door's health check.
func lost(o *infrav1.MCMMachine) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, infrav1.VMProvisionedCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.ReasonInstanceNotFound
}

// wordOf is what a MCMMachine says about its VM.
func wordOf(o *infrav1.MCMMachine) string {
	if c := meta.FindStatusCondition(o.Status.Conditions, infrav1.VMProvisionedCondition); c != nil {
		return c.Reason + ": " + c.Message
	}
	return "nothing yet"
}
