package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

const (
	// takenRetry is when a set is made under another name because its first was taken.
	takenRetry = 100 * time.Millisecond
	// behindRetry is when the cache is looked at again although no event came.
	behindRetry = 5 * time.Second
)

// travels reports whether an annotation of a deployment is copied to its set, and
// back in a rollback. Those that describe the object they stand on are not.
func travels(key string) bool {
	switch key {
	case machinev1.LastAppliedConfigurationAnnotation,
		machinev1.RevisionAnnotation, machinev1.RevisionHistoryAnnotation,
		machinev1.DesiredReplicasAnnotation, machinev1.MaxReplicasAnnotation,
		machinev1.PreferNoScheduleKey, machinev1.UnfreezeAnnotation, machinev1.TriggerDeletionAnnotation,
		machinev1.OrdinalsAnnotation, machinev1.OwnerIDAnnotation, machinev1.CAPIRevisionAnnotation,
		machinev1.ProviderIDFormAnnotation, machinev1.OfferedCapacityAnnotation,
		machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation, machinev1.MigrationHeldSinceAnnotation:
		return false
	}
	return !strings.HasPrefix(key, machinev1.CapacityAnnotationPrefix)
}

// ensure makes sure that a set with the template exists and is up to date in
// what is changed in place; a new one gets size machines. It is not ready while
// there is none yet.
func (p *pass) ensure(ctx context.Context, size func() int) (bool, error) {
	if p.current != nil {
		p.propagate()
		return true, nil
	}
	return p.create(ctx, size())
}

// propagate brings what does not need new machines from the deployment to the
// set with its template, and only to that one. Annotations that were removed
// from the deployment stay on the set, as in MCM.
func (p *pass) propagate() {
	set, d := p.current.want, p.d
	for key, value := range d.Annotations {
		if travels(key) {
			annotate(set, key, value)
		}
	}
	if rollout.Promote(set, p.oldSets()) {
		p.turn = turn{machinev1.ReasonFoundNewMachineSet, fmt.Sprintf("Found new machine set %q", set.Name)}
	}
	set.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	set.Spec.AutoPreserveFailedMachineMax = d.Spec.AutoPreserveFailedMachineMax
	template := d.Spec.Template.Spec.DeepCopy()
	set.Spec.Template.Spec.NodeTemplateSpec = template.NodeTemplateSpec
	set.Spec.Template.Spec.MachineConfiguration = template.MachineConfiguration
	set.Spec.Template.Spec.Class.Kind = template.Class.Kind
	// An update in place keeps old sets from growing. One that is current again must grow.
	delete(set.Labels, machinev1.ScaleUpDisabledLabel)
	delete(set.Annotations, machinev1.PreferNoScheduleKey)
	p.introduce(set)
	p.showRevision()
}

// showRevision copies the revision of the current set to the deployment.
func (p *pass) showRevision() {
	if revision, ok := p.current.want.Annotations[machinev1.RevisionAnnotation]; ok {
		annotate(p.want, machinev1.RevisionAnnotation, revision)
	}
}

func (p *pass) oldSets() []*machinev1.MachineSet {
	var sets []*machinev1.MachineSet
	for _, o := range p.old() {
		sets = append(sets, o.seen)
	}
	return sets
}

// create makes the set with the template.
func (p *pass) create(ctx context.Context, size int) (bool, error) {
	if err := p.abreast(ctx); err != nil {
		return false, err
	}
	if behind, err := p.behind(ctx); err != nil || behind {
		return false, err
	}
	set := p.fresh(size)
	err := p.Client.Create(ctx, set)
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, p.taken(ctx, set.Name)
	case err != nil:
		message := fmt.Sprintf("Failed to create new machine set %q: %v", set.Name, err)
		p.turn = turn{machinev1.ReasonMachineSetCreateError, message}
		p.warn(machinev1.EventMachineSetCreateError, "%s", message)
		return false, fmt.Errorf("create machine set %s: %w", set.Name, err)
	}
	p.current = &pool{seen: set, want: set.DeepCopy(), now: p.now}
	p.pools = append(p.pools, p.current)
	p.turn = turn{machinev1.ReasonNewMachineSetCreated, fmt.Sprintf("Created new machine set %q", set.Name)}
	if size > 0 {
		p.normal(machinev1.EventScalingMachineSet, "Scaled up machine set %s to %d", set.Name, size)
	}
	p.showRevision()
	return true, nil
}

// behind reports whether the API server has sets, or asks for machines in them, that
// the cache does not show yet. A further set would come on top of those.
func (p *pass) behind(ctx context.Context) (bool, error) {
	owned, err := p.ownedLive(ctx)
	if err != nil {
		return false, err
	}
	known := map[types.UID]int32{}
	for _, o := range p.pools {
		known[o.seen.UID] = o.seen.Spec.Replicas
	}
	for _, set := range owned {
		if machinev1.Held(set) {
			return false, hold.Behind(set.Name)
		}
		if replicas, found := known[set.UID]; !found || replicas < set.Spec.Replicas {
			p.wait = behindRetry // its event comes sooner
			return true, nil
		}
	}
	return false, nil
}

// fresh returns a set of the template with size machines. It has its finalizer
// from birth, which saves the set's controller a write.
func (p *pass) fresh(size int) *machinev1.MachineSet {
	template := p.d.Spec.Template.DeepCopy()
	hash := rollout.Hash(template, p.d.Status.CollisionCount)
	template.Labels = with(template.Labels, machinev1.TemplateHashLabel, hash)
	selector := p.d.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, machinev1.TemplateHashLabel, hash)
	set := &machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            rollout.SetName(p.d.Name, hash),
			Namespace:       p.d.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     map[string]string{},
			Finalizers:      []string{machinev1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{p.reference()},
		},
		Spec: machinev1.MachineSetSpec{
			Replicas:                     int32(size), // #nosec G115 -- at most spec.replicas
			Selector:                     selector,
			Template:                     *template,
			MinReadySeconds:              p.d.Spec.MinReadySeconds,
			AutoPreserveFailedMachineMax: p.d.Spec.AutoPreserveFailedMachineMax,
		},
	}
	for key, value := range p.d.Annotations {
		if travels(key) {
			set.Annotations[key] = value
		}
	}
	rollout.Promote(set, p.oldSets())
	p.note(set)
	p.introduce(set)
	return set
}

// taken finds out whose the name of the new set is. If the set is ours and has
// the template, only our cache is behind, or it is being deleted: its next event
// brings us back. Otherwise two templates have the same hash, and the next pass
// uses another one.
func (p *pass) taken(ctx context.Context, name string) error {
	set := &machinev1.MachineSet{}
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.d.Namespace, Name: name}, set)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read machine set %s: %w", name, err)
	}
	ours := metav1.IsControlledBy(set, p.d) && rollout.SameTemplate(&p.d.Spec.Template, &set.Spec.Template)
	if apierrors.IsNotFound(err) || ours {
		p.wait = behindRetry
		return nil
	}
	count := int32(1)
	if before := p.d.Status.CollisionCount; before != nil {
		count += *before
	}
	p.collisions = &count
	p.wait = takenRetry
	p.Events.Eventf(p.d, corev1.EventTypeWarning, machinev1.EventMachineSetCreateError,
		"The name of machine set %s is taken by another; the next name is tried", name)
	return nil
}
