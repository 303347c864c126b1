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
	// nameConflictRetry is when a set is made under another name because its first was taken.
	nameConflictRetry = 100 * time.Millisecond
	// staleCacheRetry is when the cache is looked at again although no event came.
	staleCacheRetry = 5 * time.Second
)

// copiedToSets reports whether an annotation of a deployment is copied to its set, and
// back in a rollback. Those that describe the object they stand on are not.
func copiedToSets(key string) bool {
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

// ensureNewSet makes sure that a set with the template exists and is up to date in
// what is changed in place; a new one gets size machines. It is not ready while
// there is none yet.
func (s *scope) ensureNewSet(ctx context.Context, size func() int) (bool, error) {
	if s.newSet != nil {
		s.syncNewSet()
		return true, nil
	}
	return s.createNewSet(ctx, size())
}

// syncNewSet brings what does not need new machines from the deployment to the
// set with its template, and only to that one. Annotations that were removed
// from the deployment stay on the set, as in MCM.
func (s *scope) syncNewSet() {
	set, d := s.newSet.desired, s.d
	for key, value := range d.Annotations {
		if copiedToSets(key) {
			setAnnotation(set, key, value)
		}
	}
	if rollout.SetNewRevision(set, s.oldMachineSets()) {
		s.rolloutEvent = explanation{machinev1.ReasonFoundNewMachineSet, fmt.Sprintf("Found new machine set %q", set.Name)}
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
	s.applySetMetadata(set)
	s.copyRevision()
}

// copyRevision copies the revision of the current set to the deployment.
func (s *scope) copyRevision() {
	if revision, ok := s.newSet.desired.Annotations[machinev1.RevisionAnnotation]; ok {
		setAnnotation(s.desired, machinev1.RevisionAnnotation, revision)
	}
}

func (s *scope) oldMachineSets() []*machinev1.MachineSet {
	var sets []*machinev1.MachineSet
	for _, o := range s.oldSets() {
		sets = append(sets, o.observed)
	}
	return sets
}

// createNewSet makes the set with the template.
func (s *scope) createNewSet(ctx context.Context, size int) (bool, error) {
	if err := s.ensureCacheCurrent(ctx); err != nil {
		return false, err
	}
	if behind, err := s.cacheLacksSets(ctx); err != nil || behind {
		return false, err
	}
	set := s.buildNewSet(size)
	err := s.Client.Create(ctx, set)
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, s.resolveNameConflict(ctx, set.Name)
	case err != nil:
		message := fmt.Sprintf("Failed to create new machine set %q: %v", set.Name, err)
		s.rolloutEvent = explanation{machinev1.ReasonMachineSetCreateError, message}
		s.emitWarning(machinev1.EventMachineSetCreateError, "%s", message)
		return false, fmt.Errorf("create machine set %s: %w", set.Name, err)
	}
	s.newSet = &ownedSet{observed: set, desired: set.DeepCopy(), now: s.now}
	s.sets = append(s.sets, s.newSet)
	s.rolloutEvent = explanation{machinev1.ReasonNewMachineSetCreated, fmt.Sprintf("Created new machine set %q", set.Name)}
	if size > 0 {
		s.emitNormal(machinev1.EventScalingMachineSet, "Scaled up machine set %s to %d", set.Name, size)
	}
	s.copyRevision()
	return true, nil
}

// cacheLacksSets reports whether the API server has sets, or asks for machines in them, that
// the cache does not show yet. A further set would come on top of those.
func (s *scope) cacheLacksSets(ctx context.Context) (bool, error) {
	owned, err := s.listLiveSets(ctx)
	if err != nil {
		return false, err
	}
	known := map[types.UID]int32{}
	for _, o := range s.sets {
		known[o.observed.UID] = o.observed.Spec.Replicas
	}
	for _, set := range owned {
		if machinev1.Held(set) {
			return false, hold.Behind(set.Name)
		}
		if replicas, found := known[set.UID]; !found || replicas < set.Spec.Replicas {
			s.requeue = staleCacheRetry // its event comes sooner
			return true, nil
		}
	}
	return false, nil
}

// buildNewSet returns a set of the template with size machines. It has its finalizer
// from birth, which saves the set's controller a write.
func (s *scope) buildNewSet(size int) *machinev1.MachineSet {
	template := s.d.Spec.Template.DeepCopy()
	hash := rollout.Hash(template, s.d.Status.CollisionCount)
	template.Labels = withLabel(template.Labels, machinev1.TemplateHashLabel, hash)
	selector := s.d.Spec.Selector.DeepCopy()
	selector.MatchLabels = withLabel(selector.MatchLabels, machinev1.TemplateHashLabel, hash)
	set := &machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            rollout.SetName(s.d.Name, hash),
			Namespace:       s.d.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     map[string]string{},
			Finalizers:      []string{machinev1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{s.controllerRef()},
		},
		Spec: machinev1.MachineSetSpec{
			Replicas:                     int32(size), // #nosec G115 -- at most spec.replicas
			Selector:                     selector,
			Template:                     *template,
			MinReadySeconds:              s.d.Spec.MinReadySeconds,
			AutoPreserveFailedMachineMax: s.d.Spec.AutoPreserveFailedMachineMax,
		},
	}
	for key, value := range s.d.Annotations {
		if copiedToSets(key) {
			set.Annotations[key] = value
		}
	}
	rollout.SetNewRevision(set, s.oldMachineSets())
	s.setReplicasAnnotations(set)
	s.applySetMetadata(set)
	return set
}

// resolveNameConflict finds out whose the name of the new set is. If the set is ours and has
// the template, only our cache is behind, or it is being deleted: its next event
// brings us back. Otherwise two templates have the same hash, and the next pass
// uses another one.
func (s *scope) resolveNameConflict(ctx context.Context, name string) error {
	set := &machinev1.MachineSet{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.d.Namespace, Name: name}, set)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read machine set %s: %w", name, err)
	}
	ours := metav1.IsControlledBy(set, s.d) && rollout.SameTemplate(&s.d.Spec.Template, &set.Spec.Template)
	if apierrors.IsNotFound(err) || ours {
		s.requeue = staleCacheRetry
		return nil
	}
	count := int32(1)
	if before := s.d.Status.CollisionCount; before != nil {
		count += *before
	}
	s.collisions = &count
	s.requeue = nameConflictRetry
	s.Events.Eventf(s.d, corev1.EventTypeWarning, machinev1.EventMachineSetCreateError,
		"The name of machine set %s is taken by another; the next name is tried", name)
	return nil
}
