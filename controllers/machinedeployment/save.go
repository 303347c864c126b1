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
func (p *pass) resize(o *pool, n int) {
	if o.gone() {
		return
	}
	o.want.Spec.Replicas = int32(n) // #nosec G115 -- between 0 and the sum of two int32 that the API server admitted
	p.note(o.want)
}

// note annotates a set with the replicas of the deployment, as MCM does
// whenever it scales one.
func (p *pass) note(set *machinev1.MachineSet) {
	annotate(set, machinev1.DesiredReplicasAnnotation, strconv.Itoa(p.bounds.Replicas))
	annotate(set, machinev1.MaxReplicasAnnotation, strconv.Itoa(p.bounds.Replicas+rollout.AnnotatedSurge(p.d, p.bounds)))
}

// saveSets writes every set that differs from what is wanted, each with one
// patch. A failure of one does not keep the others from being written: how far
// each is scaled was decided without counting on another.
func (p *pass) saveSets(ctx context.Context) error {
	var errs []error
	for _, o := range p.pools {
		errs = append(errs, p.saveSet(ctx, o))
	}
	return errors.Join(errs...)
}

func (p *pass) saveSet(ctx context.Context, o *pool) error {
	if o.gone() || same(o.seen, o.want) {
		return nil
	}
	before, after := o.seen.Spec.Replicas, o.want.Spec.Replicas
	patch, sure := client.MergeFrom(o.seen), p.released
	if before != after {
		// A size is decided from the former one; on a stale one it would be wrong.
		patch, sure = client.MergeFromWithOptions(o.seen, client.MergeFromWithOptimisticLock{}), p.abreast
	}
	if err := sure(ctx); err != nil {
		return err
	}
	saved := o.want.DeepCopy()
	if err := p.Client.Patch(ctx, saved, patch); err != nil {
		return fmt.Errorf("patch machine set %s: %w", o.seen.Name, err)
	}
	o.seen, o.want = saved, saved.DeepCopy()
	switch {
	case before < after:
		p.normal(machinev1.EventScalingMachineSet, "Scaled up machine set %s to %d", saved.Name, after)
	case before > after:
		p.normal(machinev1.EventScalingMachineSet, "Scaled down machine set %s to %d", saved.Name, after)
	}
	return nil
}

// same says that two states of a set need no write.
func same(a, b *machinev1.MachineSet) bool {
	return apiequality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		apiequality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// saveDeployment writes the deployment if it differs from what is wanted, its
// status excepted. Users and scalers write it too, so it must not have changed.
func (p *pass) saveDeployment(ctx context.Context) error {
	if apiequality.Semantic.DeepEqual(p.d.ObjectMeta, p.want.ObjectMeta) &&
		apiequality.Semantic.DeepEqual(p.d.Spec, p.want.Spec) {
		return nil
	}
	saved := p.want.DeepCopy()
	if err := p.Client.Patch(ctx, saved, client.MergeFromWithOptions(p.d,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch machine deployment: %w", err)
	}
	p.d, p.want = saved, saved.DeepCopy()
	return nil
}

func annotate(o metav1.Object, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

func label(o metav1.Object, key, value string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetLabels(all)
}

// with returns a copy of labels with one more.
func with(labels map[string]string, key, value string) map[string]string {
	all := make(map[string]string, len(labels)+1)
	maps.Copy(all, labels)
	all[key] = value
	return all
}
