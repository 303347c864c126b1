package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// resize sets the desired replicas of a set, and the annotations with what they
// were derived from. A set that is being deleted keeps its replicas.
func (s *scope) resize(o *ownedSet, n int) {
	if o.deleting() {
		return
	}
	o.desired.Spec.Replicas = int32(n) // #nosec G115 -- between 0 and the sum of two int32 that the API server admitted
	s.setReplicasAnnotations(o.desired)
}

// setReplicasAnnotations annotates a set with the replicas of the deployment, as
// MCM does whenever it scales one.
func (s *scope) setReplicasAnnotations(set *machinev1.MachineSet) {
	limit := s.bounds.Replicas + rollout.AnnotatedSurge(s.d, s.bounds)
	machinev1.SetAnnotation(set, machinev1.DesiredReplicasAnnotation, strconv.Itoa(s.bounds.Replicas))
	machinev1.SetAnnotation(set, machinev1.MaxReplicasAnnotation, strconv.Itoa(limit))
}

// patchSets patches every set that differs from its desired state, each once. It
// goes on after a failure: no replicas were decided in reliance on another set's
// patch. All were decided from the same deployment, so one uncached read confirms
// it for all of them.
func (s *scope) patchSets(ctx context.Context) error {
	ensureCurrent := sync.OnceValue(func() error { return s.ensureCacheCurrent(ctx) })
	var errs []error
	for _, o := range s.sets {
		errs = append(errs, s.patchSet(ctx, o, ensureCurrent))
	}
	return errors.Join(errs...)
}

func (s *scope) patchSet(ctx context.Context, o *ownedSet, ensureCurrent func() error) error {
	if o.deleting() || setUnchanged(o.observed, o.desired) {
		return nil
	}
	before, after := o.observed.Spec.Replicas, o.desired.Spec.Replicas
	patch := client.MergeFrom(o.observed)
	if before != after {
		// New replicas are derived from the former ones, which must not be stale.
		patch = client.MergeFromWithOptions(o.observed, client.MergeFromWithOptimisticLock{})
		if err := ensureCurrent(); err != nil {
			return err
		}
	}
	saved := o.desired.DeepCopy()
	if err := s.Client.Patch(ctx, saved, patch); err != nil {
		return fmt.Errorf("patch MachineSet %s: %w", o.observed.Name, err)
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

// setUnchanged reports whether two states of a set need no patch.
func setUnchanged(a, b *machinev1.MachineSet) bool {
	return apiequality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		apiequality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// patchDeployment patches the deployment, without its status, if it differs from
// its desired state. It fails on a stale deployment, because users and scalers
// write it too.
func (s *scope) patchDeployment(ctx context.Context) error {
	if apiequality.Semantic.DeepEqual(s.d.ObjectMeta, s.desired.ObjectMeta) &&
		apiequality.Semantic.DeepEqual(s.d.Spec, s.desired.Spec) {
		return nil
	}
	saved := s.desired.DeepCopy()
	if err := s.Client.Patch(ctx, saved, client.MergeFromWithOptions(s.d,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch MachineDeployment: %w", err)
	}
	s.d, s.desired = saved, saved.DeepCopy()
	return nil
}

// patchMachine patches the difference between two states of a machine. One that no
// longer exists is no error.
func (s *scope) patchMachine(ctx context.Context, before, after *machinev1.Machine) error {
	if err := s.Client.Patch(ctx, after, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch Machine %s: %w", before.Name, err)
	}
	return nil
}

// withLabel returns a copy of labels with one more.
func withLabel(labels map[string]string, key, value string) map[string]string {
	all := make(map[string]string, len(labels)+1)
	maps.Copy(all, labels)
	all[key] = value
	return all
}
