package machinedeployment

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// adoptSets adds the finalizer to the deployment, because it must be there before
// the first set, adopts orphaned sets that match the selector, and syncs the
// metadata of all sets. It is not ready while a set without the template hash gets
// it: until then sets with the same selector could adopt each other's machines.
func (s *scope) adoptSets(ctx context.Context) (bool, error) {
	controllerutil.AddFinalizer(s.desired, machinev1.Finalizer)
	if err := s.patchDeployment(ctx); err != nil {
		return true, err
	}
	confirmed := false
	for _, orphan := range s.orphans {
		if !orphan.DeletionTimestamp.IsZero() || !s.selector.Matches(labels.Set(orphan.Labels)) {
			continue
		}
		if !confirmed {
			if err := s.canAdopt(ctx); err != nil {
				return false, err
			}
			confirmed = true
		}
		if err := s.adoptSet(ctx, orphan); err != nil {
			return false, err
		}
	}
	slices.SortFunc(s.sets, func(a, b *ownedSet) int { return rollout.ByAge(a.observed, b.observed) })
	s.findNewSet()
	return s.syncSetMetadata(ctx)
}

// canAdopt returns an error unless the deployment exists on the API server, is not
// being deleted and not held: an adopted set would be deleted with it.
func (s *scope) canAdopt(ctx context.Context) error {
	live := &machinev1.MachineDeployment{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(s.d), live); err != nil {
		return fmt.Errorf("read MachineDeployment before adoption: %w", err)
	}
	if live.UID != s.d.UID || !live.DeletionTimestamp.IsZero() {
		return fmt.Errorf("adopt MachineSets: MachineDeployment %s is being deleted or was replaced", s.d.Name)
	}
	if machinev1.Held(live) {
		return hold.Behind(s.d.Name)
	}
	return nil
}

// adoptSet makes the deployment the controller of an orphan. Other owner
// references stay.
func (s *scope) adoptSet(ctx context.Context, orphan *machinev1.MachineSet) error {
	adopted := orphan.DeepCopy()
	adopted.OwnerReferences = append(adopted.OwnerReferences, s.controllerRef())
	if err := s.Client.Patch(ctx, adopted, client.MergeFromWithOptions(orphan,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adopt MachineSet %s: %w", orphan.Name, err)
	}
	return s.addSet(ctx, adopted)
}

func (s *scope) controllerRef() metav1.OwnerReference {
	return *metav1.NewControllerRef(s.d, machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))
}

// syncSetMetadata sets what autoscalers read on all sets, and adds the template
// hash to those without.
func (s *scope) syncSetMetadata(ctx context.Context) (bool, error) {
	ready := true
	for _, o := range s.sets {
		if o.deleting() {
			continue
		}
		s.applySetMetadata(o.desired)
		hashed, err := s.addTemplateHash(ctx, o)
		if err != nil {
			return false, err
		}
		ready = ready && hashed
	}
	if !ready {
		return false, s.patchSets(ctx)
	}
	return true, nil
}

// applySetMetadata sets labels and annotations for the cluster-autoscaler, and the
// annotation with the form of the machines' providerIDs. They are not part of the
// template, so they enter neither selector nor hash.
func (s *scope) applySetMetadata(set *machinev1.MachineSet) {
	if s.d.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode {
		machinev1.SetAnnotation(set, machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	} else {
		delete(set.Annotations, machinev1.ProviderIDFormAnnotation)
	}
	if len(validation.IsValidLabelValue(s.d.Name)) == 0 {
		machinev1.SetLabel(set, machinev1.DeploymentNameLabel, s.d.Name)
	}
	if revision, ok := set.Annotations[machinev1.RevisionAnnotation]; ok {
		machinev1.SetAnnotation(set, machinev1.CAPIRevisionAnnotation, revision)
	}
}

// addTemplateHash reports whether the set selects by its template hash. If not, it
// takes the next step: the template gets the hash first, so that every new machine
// has it, then the machines, then the selector, once the set counts all of them.
func (s *scope) addTemplateHash(ctx context.Context, o *ownedSet) (bool, error) {
	selector := o.observed.Spec.Selector
	if selector == nil || selector.MatchLabels[machinev1.TemplateHashLabel] != "" {
		return true, nil // the set itself reports a missing selector
	}
	hash := o.observed.Spec.Template.Labels[machinev1.TemplateHashLabel]
	switch {
	case hash == "":
		hash = rollout.Hash(&o.observed.Spec.Template, s.d.Status.CollisionCount)
		machinev1.SetLabel(&o.desired.Spec.Template, machinev1.TemplateHashLabel, hash)
		return false, nil
	case o.observed.Status.ObservedGeneration < o.observed.Generation:
		return false, nil
	}
	for _, m := range o.machines {
		if err := s.labelMachine(ctx, m, hash); err != nil {
			return false, err
		}
	}
	if o.observed.Status.FullyLabeledReplicas >= o.observed.Status.Replicas {
		machinev1.SetLabel(o.desired, machinev1.TemplateHashLabel, hash)
		selector := o.desired.Spec.Selector
		selector.MatchLabels = withLabel(selector.MatchLabels, machinev1.TemplateHashLabel, hash)
	}
	return false, nil
}

func (s *scope) labelMachine(ctx context.Context, m *machinev1.Machine, hash string) error {
	if m.Labels[machinev1.TemplateHashLabel] == hash {
		return nil
	}
	labelled := m.DeepCopy()
	machinev1.SetLabel(labelled, machinev1.TemplateHashLabel, hash)
	return s.patchMachine(ctx, m, labelled)
}
