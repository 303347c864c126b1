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

// finalize puts the finalizer on the deployment before it has any set.
func (p *pass) finalize(ctx context.Context) (bool, error) {
	controllerutil.AddFinalizer(p.want, machinev1.Finalizer)
	return true, p.saveDeployment(ctx)
}

// adopt takes over orphaned sets that match the selector and dresses all sets.
// It is not ready while a set that was made without the hash gets it: until
// then sets of one selector could take each other's machines.
func (p *pass) adopt(ctx context.Context) (bool, error) {
	confirmed := false
	for _, orphan := range p.orphans {
		if !orphan.DeletionTimestamp.IsZero() || !p.selector.Matches(labels.Set(orphan.Labels)) {
			continue
		}
		if !confirmed {
			if err := p.confirm(ctx); err != nil {
				return false, err
			}
			confirmed = true
		}
		if err := p.take(ctx, orphan); err != nil {
			return false, err
		}
	}
	slices.SortFunc(p.pools, func(a, b *pool) int { return rollout.ByAge(a.seen, b.seen) })
	p.elect()
	return p.dress(ctx)
}

// confirm makes sure that the deployment is not being deleted: it must not
// adopt what it would then delete.
func (p *pass) confirm(ctx context.Context) error {
	live := &machinev1.MachineDeployment{}
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.d), live); err != nil {
		return fmt.Errorf("read machine deployment before adoption: %w", err)
	}
	if live.UID != p.d.UID || !live.DeletionTimestamp.IsZero() {
		return fmt.Errorf("machine deployment %s is being deleted or was replaced: nothing is adopted", p.d.Name)
	}
	if machinev1.Held(live) {
		return hold.Behind(p.d.Name)
	}
	return nil
}

// take makes the deployment the controller of an orphan, beside its other owners.
func (p *pass) take(ctx context.Context, orphan *machinev1.MachineSet) error {
	adopted := orphan.DeepCopy()
	adopted.OwnerReferences = append(adopted.OwnerReferences, p.reference())
	if err := p.Client.Patch(ctx, adopted, client.MergeFromWithOptions(orphan,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adopt machine set %s: %w", orphan.Name, err)
	}
	return p.enlist(ctx, adopted)
}

func (p *pass) reference() metav1.OwnerReference {
	return *metav1.NewControllerRef(p.d, machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))
}

// dress gives the sets what autoscalers read, and the hash to those without.
func (p *pass) dress(ctx context.Context) (bool, error) {
	ready := true
	for _, o := range p.pools {
		if o.gone() {
			continue
		}
		p.introduce(o.want)
		hashed, err := p.giveHash(ctx, o)
		if err != nil {
			return false, err
		}
		ready = ready && hashed
	}
	if !ready {
		return false, p.saveSets(ctx)
	}
	return true, nil
}

// introduce labels a set for the cluster-autoscaler, and tells it in which form
// its machines carry their providerIDs. Both are no part of the template, so
// they enter neither selector nor hash.
func (p *pass) introduce(set *machinev1.MachineSet) {
	if p.d.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode {
		annotate(set, machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	} else {
		delete(set.Annotations, machinev1.ProviderIDFormAnnotation)
	}
	if len(validation.IsValidLabelValue(p.d.Name)) == 0 {
		label(set, machinev1.DeploymentNameLabel, p.d.Name)
	}
	if revision, ok := set.Annotations[machinev1.RevisionAnnotation]; ok {
		annotate(set, machinev1.CAPIRevisionAnnotation, revision)
	}
}

// giveHash reports whether the set selects by its hash; where not, it takes the
// next step: first the template gets it, so that no machine is made without it,
// then the machines, then the selector, once the set has seen all of them.
func (p *pass) giveHash(ctx context.Context, o *pool) (bool, error) {
	selector := o.seen.Spec.Selector
	if selector == nil || selector.MatchLabels[machinev1.TemplateHashLabel] != "" {
		return true, nil // a nil selector is the set's own problem and reported there
	}
	hash := o.seen.Spec.Template.Labels[machinev1.TemplateHashLabel]
	switch {
	case hash == "":
		hash = rollout.Hash(&o.seen.Spec.Template, p.d.Status.CollisionCount)
		label(&o.want.Spec.Template, machinev1.TemplateHashLabel, hash)
		return false, nil
	case o.seen.Status.ObservedGeneration < o.seen.Generation:
		return false, nil
	}
	for _, m := range o.machines {
		if err := p.labelMachine(ctx, m, hash); err != nil {
			return false, err
		}
	}
	if o.seen.Status.FullyLabeledReplicas >= o.seen.Status.Replicas {
		label(o.want, machinev1.TemplateHashLabel, hash)
		o.want.Spec.Selector.MatchLabels = with(o.want.Spec.Selector.MatchLabels, machinev1.TemplateHashLabel, hash)
	}
	return false, nil
}

func (p *pass) labelMachine(ctx context.Context, m *machinev1.Machine, hash string) error {
	if m.Labels[machinev1.TemplateHashLabel] == hash {
		return nil
	}
	if err := p.released(ctx); err != nil {
		return err
	}
	labelled := m.DeepCopy()
	label(labelled, machinev1.TemplateHashLabel, hash)
	if err := p.Client.Patch(ctx, labelled, client.MergeFrom(m)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label machine %s with its hash: %w", m.Name, err)
	}
	return nil
}
