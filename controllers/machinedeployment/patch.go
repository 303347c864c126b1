package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// resize asks for n machines in a set and notes what that was derived from. A
// set that is being deleted is left alone.
func (s *scope) resize(o *ownedSet, n int) {
	if o.deleting() {
		return
	}
	o.desired.Spec.Replicas = int32(n) // #nosec G115 -- between 0 and the sum of two int32 that the API server admitted
	s.setReplicasAnnotations(o.desired)
}

// setReplicasAnnotations annotates a set with the replicas of the deployment, as MCM does
// whenever it scales one.
func (s *scope) setReplicasAnnotations(set *machinev1.MachineSet) {
	setAnnotation(set, machinev1.DesiredReplicasAnnotation, strconv.Itoa(s.bounds.Replicas))
	setAnnotation(set, machinev1.MaxReplicasAnnotation, strconv.Itoa(s.bounds.Replicas+rollout.AnnotatedSurge(s.d, s.bounds)))
}

// patchSets writes every set that differs from what is wanted, each with one
// patch. A failure of one does not keep the others from being written: how far
// each is scaled was decided without counting on another.
func (s *scope) patchSets(ctx context.Context) error {
	var errs []error
	for _, o := range s.sets {
		errs = append(errs, s.patchSet(ctx, o))
	}
	return errors.Join(errs...)
}

func (s *scope) patchSet(ctx context.Context, o *ownedSet) error {
	if o.deleting() || setUnchanged(o.observed, o.desired) {
		return nil
	}
	before, after := o.observed.Spec.Replicas, o.desired.Spec.Replicas
	patch, sure := client.MergeFrom(o.observed), s.confirmNotHeld
	if before != after {
		// A size is decided from the former one; on a stale one it would be wrong.
		patch, sure = client.MergeFromWithOptions(o.observed, client.MergeFromWithOptimisticLock{}), s.ensureCacheCurrent
	}
	if err := sure(ctx); err != nil {
		return err
	}
	saved := o.desired.DeepCopy()
	if err := s.Client.Patch(ctx, saved, patch); err != nil {
		return fmt.Errorf("patch machine set %s: %w", o.observed.Name, err)
	}
	o.observed, o.desired = saved, saved.DeepCopy()
	switch {
	case before < after:
		s.emitNormal(machinev1.EventScalingMachineSet, "Scaled up machine set %s to %d", saved.Name, after)
	case before > after:
		s.emitNormal(machinev1.EventScalingMachineSet, "Scaled down machine set %s to %d", saved.Name, after)
	}
	return nil
}

// setUnchanged says that two states of a set need no write.
func setUnchanged(a, b *machinev1.MachineSet) bool {
	return apiequality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		apiequality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// patchDeployment writes the deployment if it differs from what is wanted, its
// status excepted. Users and scalers write it too, so it must not have changed.
func (s *scope) patchDeployment(ctx context.Context) error {
	if apiequality.Semantic.DeepEqual(s.d.ObjectMeta, s.desired.ObjectMeta) &&
		apiequality.Semantic.DeepEqual(s.d.Spec, s.desired.Spec) {
		return nil
	}
	saved := s.desired.DeepCopy()
	if err := s.Client.Patch(ctx, saved, client.MergeFromWithOptions(s.d,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch machine deployment: %w", err)
	}
	s.d, s.desired = saved, saved.DeepCopy()
	return nil
}

func setAnnotation(o metav1.Object, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

func setLabel(o metav1.Object, key, value string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetLabels(all)
}

// withLabel returns a copy of labels with one more.
func withLabel(labels map[string]string, key, value string) map[string]string {
	all := make(map[string]string, len(labels)+1)
	maps.Copy(all, labels)
	all[key] = value
	return all
}
