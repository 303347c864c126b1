package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
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
	rollout.Annotate(set, s.d, s.bounds)
}

// patchSets patches every set that differs from its desired state, each once. It
// goes on after a failure: no replicas were decided in reliance on another set's
// patch. All were decided from the same deployment, so one uncached read confirms
// it for all of them.
func (s *scope) patchSets(ctx context.Context) error {
	if slices.ContainsFunc(s.sets, (*ownedSet).resized) {
		if err := s.checkUnanswered(""); err != nil {
			return err
		}
	}
	ensureCurrent := sync.OnceValue(func() error { return s.ensureCacheCurrent(ctx) })
	var errs []error
	for _, o := range s.sets {
		errs = append(errs, s.patchSet(ctx, o, ensureCurrent))
	}
	return errors.Join(errs...)
}

// checkUnanswered returns a conflict while a request of this process to resize a set, or to create
// one, got no answer and may still arrive: the sizes of the others were decided as if it never did.
// One that is repeated now, and the creation of the set with that name, may arrive.
func (s *scope) checkUnanswered(created string) error {
	for _, o := range s.ownSets.Pending(s.d.UID) {
		asked, ok := o.(*machinev1.MachineSet)
		if !ok || asked.Name == created {
			continue
		}
		var is, becomes int32
		if i := slices.IndexFunc(s.sets, func(o *ownedSet) bool { return o.observed.Name == asked.Name }); i >= 0 {
			is, becomes = s.sets[i].observed.Spec.Replicas, s.sets[i].desired.Spec.Replicas
		}
		if asked.Spec.Replicas != is && asked.Spec.Replicas != becomes {
			s.unanswered = asked.Name
			resource := machinev1.GroupVersion.WithResource("machinesets").GroupResource()
			return apierrors.NewConflict(resource, asked.Name, errors.New("a request to size it got no answer yet"))
		}
	}
	return nil
}

// resized reports whether the set is to have other replicas.
func (o *ownedSet) resized() bool { return o.observed.Spec.Replicas != o.desired.Spec.Replicas }

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

// listLiveSets lists the deployment's sets uncached. It asks for those with the
// label deployment-name, which our sets are created with, and for those without
// it: MCM's lack it until syncSetMetadata. Reading all sets of the namespace for
// each deployment would cost the square of the number of deployments.
func (s *scope) listLiveSets(ctx context.Context) ([]*machinev1.MachineSet, error) {
	selectors, err := s.liveSetSelectors()
	if err != nil {
		return nil, err
	}
	var owned []*machinev1.MachineSet
	for _, selector := range selectors {
		list := &machinev1.MachineSetList{}
		err := s.Live.List(ctx, list, client.InNamespace(s.d.Namespace), client.MatchingLabelsSelector{Selector: selector})
		if err != nil {
			return nil, fmt.Errorf("list MachineSets on the API server: %w", err)
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], s.d) {
				owned = append(owned, &list.Items[i])
			}
		}
	}
	return owned, nil
}

// liveSetSelectors returns selectors of the sets that the deployment may own: all
// but those labelled with the name of another deployment. A name that is no valid
// label value selects all.
func (s *scope) liveSetSelectors() ([]labels.Selector, error) {
	if len(validation.IsValidLabelValue(s.d.Name)) > 0 {
		return []labels.Selector{labels.Everything()}, nil
	}
	without, err := labels.NewRequirement(machinev1.DeploymentNameLabel, selection.DoesNotExist, nil)
	if err != nil {
		return nil, fmt.Errorf("select MachineSets without label %s: %w", machinev1.DeploymentNameLabel, err)
	}
	named := labels.SelectorFromSet(labels.Set{machinev1.DeploymentNameLabel: s.d.Name})
	return []labels.Selector{named, labels.NewSelector().Add(*without)}, nil
}

// ensureCacheCurrent returns a conflict, before a set is created or resized, if the
// deployment on the API server has another spec than the one which this was
// decided from, or is held. The caches of two kinds are not in step, and the
// optimistic lock of the write covers the set alone.
func (s *scope) ensureCacheCurrent(ctx context.Context) error {
	live := &machinev1.MachineDeployment{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(s.d), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read MachineDeployment on the API server: %w", err)
	}
	if machinev1.Held(live) {
		return hold.Behind(s.d.Name)
	}
	if live.UID != s.d.UID || live.Generation != s.d.Generation {
		resource := machinev1.GroupVersion.WithResource("machinedeployments").GroupResource()
		return apierrors.NewConflict(resource, s.d.Name, errors.New("the cache does not show its last change yet"))
	}
	return nil
}
