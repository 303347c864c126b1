package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

const (
	// nameConflictRetry is when a set whose name was taken is created under another one.
	nameConflictRetry = 100 * time.Millisecond
	// staleCacheRetry is when a reconcile with a stale cache is retried if no watch
	// event comes.
	staleCacheRetry = 5 * time.Second
)

// copiedToSets reports whether an annotation of a deployment is copied to its sets,
// and back in a rollback. Annotations about the object itself are not.
func copiedToSets(key string) bool {
	switch key {
	case machinev1.LastAppliedConfigurationAnnotation,
		machinev1.RevisionAnnotation, machinev1.RevisionHistoryAnnotation,
		machinev1.DesiredReplicasAnnotation, machinev1.MaxReplicasAnnotation,
		machinev1.PreferNoScheduleKey, machinev1.UnfreezeAnnotation, machinev1.TriggerDeletionAnnotation,
		machinev1.OrdinalsAnnotation, machinev1.OwnerIDAnnotation, machinev1.CAPIRevisionAnnotation,
		machinev1.ProviderIDFormAnnotation, machinev1.OfferedCapacityAnnotation, machinev1.MaxReplacementsAnnotation,
		machinev1.EffectiveCreationTimeoutAppliedAnnotation, machinev1.ReplaceCycleCountAnnotation,
		machinev1.ReplaceCycleCountAppliedAnnotation, machinev1.AppliedCreationTimeoutAnnotation,
		machinev1.SurgeFallbackAnnotation, machinev1.FallbackClassesAnnotation,
		machinev1.FailedRolloutAnnotation, machinev1.RolloutPausedAnnotation,
		machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation, machinev1.MigrationHeldSinceAnnotation:
		return false
	}
	return !strings.HasPrefix(key, machinev1.CapacityAnnotationPrefix)
}

// ensureNewSet ensures that a set with the template exists, and syncs to it what
// changes in place. It creates one with size machines, and is not ready until it
// exists.
func (s *scope) ensureNewSet(ctx context.Context, size func() int) (bool, error) {
	if s.newSet != nil {
		s.syncNewSet()
		return true, nil
	}
	return s.createNewSet(ctx, size())
}

// syncNewSet copies what needs no new machines from the deployment to the new set,
// and only to that one. Annotations that were removed from the deployment stay on
// the set, as in MCM.
func (s *scope) syncNewSet() {
	set, d := s.newSet.desired, s.d
	for key, value := range d.Annotations {
		if copiedToSets(key) {
			machinev1.SetAnnotation(set, key, value)
		}
	}
	if rollout.SetNewRevision(set, s.oldMachineSets()) {
		s.rolloutEvent = rollout.Explanation{
			Reason: machinev1.ReasonFoundNewMachineSet, Message: fmt.Sprintf("Found new machine set %q", set.Name),
		}
	}
	set.Spec.MinReadySeconds = d.Spec.MinReadySeconds
	set.Spec.AutoPreserveFailedMachineMax = d.Spec.AutoPreserveFailedMachineMax
	rollout.SyncInPlace(&set.Spec.Template.Spec, &d.Spec.Template.Spec)
	// An in-place update disables scale-up of old sets. One that has the template again must grow.
	delete(set.Labels, machinev1.ScaleUpDisabledLabel)
	delete(set.Annotations, machinev1.PreferNoScheduleKey)
	s.applySetMetadata(set)
	s.copyRevision()
}

// copyRevision copies the revision of the new set to the deployment.
func (s *scope) copyRevision() {
	if revision, ok := s.newSet.desired.Annotations[machinev1.RevisionAnnotation]; ok {
		machinev1.SetAnnotation(s.desired, machinev1.RevisionAnnotation, revision)
	}
}

func (s *scope) oldMachineSets() []*machinev1.MachineSet {
	var sets []*machinev1.MachineSet
	for _, o := range s.oldSets() {
		sets = append(sets, o.observed)
	}
	return sets
}

// createNewSet creates the set with the template.
func (s *scope) createNewSet(ctx context.Context, size int) (bool, error) {
	if err := s.ensureCacheCurrent(ctx); err != nil {
		return false, err
	}
	if stale, err := s.cacheLacksSets(ctx); err != nil || stale {
		return false, err
	}
	set := s.buildNewSet(size)
	if err := s.checkUnanswered(set.Name); err != nil {
		return false, err
	}
	err := s.Client.Create(ctx, set)
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, s.resolveNameConflict(ctx, set.Name)
	case err != nil:
		message := fmt.Sprintf("Failed to create new machine set %q: %v", set.Name, err)
		s.rolloutEvent = rollout.Explanation{Reason: machinev1.ReasonMachineSetCreateError, Message: message}
		s.emitWarning(machinev1.EventMachineSetCreateError, "%s", message)
		return false, fmt.Errorf("create MachineSet %s: %w", set.Name, err)
	}
	s.newSet = &ownedSet{observed: set, desired: set.DeepCopy(), now: s.now}
	s.sets = append(s.sets, s.newSet)
	s.rolloutEvent = rollout.Explanation{
		Reason: machinev1.ReasonNewMachineSetCreated, Message: fmt.Sprintf("Created new machine set %q", set.Name),
	}
	if size > 0 {
		s.emitNormal(machinev1.EventScalingMachineSet, "Scaled up machine set %s to %d", set.Name, size)
	}
	s.copyRevision()
	return true, nil
}

// cacheLacksSets reports whether the API server has sets, or replicas in them, that
// the cache does not show yet. A new set would exceed the surge.
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
			s.ownSets.Saw(set)
			s.requeue = staleCacheRetry // the watch event of the set comes sooner
			return true, nil
		}
	}
	return false, nil
}

// buildNewSet returns a set with the template and size machines. It has its
// finalizer from the start, which saves the MachineSet controller a write.
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

// resolveNameConflict finds out which set has the name of the new one. If it is the
// deployment's and has the template, the cache is stale or the set is being deleted:
// its next watch event triggers a reconcile. Otherwise two templates have the same
// hash, and the next reconcile uses another hash.
func (s *scope) resolveNameConflict(ctx context.Context, name string) error {
	set := &machinev1.MachineSet{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.d.Namespace, Name: name}, set)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read MachineSet %s: %w", name, err)
	}
	ours := metav1.IsControlledBy(set, s.d) && machinev1.SameTemplate(&s.d.Spec.Template, &set.Spec.Template)
	if ours {
		s.ownSets.Saw(set)
	}
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
	s.emitWarning(machinev1.EventMachineSetCreateError,
		"Name of machine set %s is taken by another set; the next name is tried in %s", name, nameConflictRetry)
	return nil
}
