package machinedeployment

import (
	"context"
	"maps"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// rollBack gives the deployment the template of the requested revision, and clears
// the request whether that is possible or not. The next reconcile rolls it out.
func (s *scope) rollBack(ctx context.Context) error {
	revision := s.d.Spec.RollbackTo.Revision
	if revision == 0 {
		revision = rollout.LastRevision(s.machineSets())
	}
	s.desired.Spec.RollbackTo = nil
	set := s.setOfRevision(revision)
	switch {
	case set == nil && revision == 0:
		s.emitWarning(machinev1.EventRollbackRevisionNotFound, "There is no earlier revision to roll back to")
	case set == nil:
		s.emitWarning(machinev1.EventRollbackRevisionNotFound, "There is no revision %d to roll back to", revision)
	case machinev1.SameTemplate(&s.d.Spec.Template, &set.Spec.Template):
		s.emitWarning(machinev1.EventRollbackTemplateUnchanged,
			"The template is that of revision %d already; nothing is rolled back", revision)
	default:
		s.restoreRevision(set)
		if err := s.patchDeployment(ctx); err != nil {
			return err
		}
		s.emitNormal(machinev1.EventDeploymentRollback, "Rolled back to revision %d", revision)
	}
	return s.patchDeployment(ctx)
}

// restoreRevision gives the deployment the template and the annotations of a set.
func (s *scope) restoreRevision(set *machinev1.MachineSet) {
	s.desired.Spec.Template = *set.Spec.Template.DeepCopy()
	delete(s.desired.Spec.Template.Labels, machinev1.TemplateHashLabel)
	maps.DeleteFunc(s.desired.Annotations, func(key, _ string) bool { return copiedToSets(key) && !s.survivesRollback(key) })
	for key, value := range set.Annotations {
		if copiedToSets(key) && !s.survivesRollback(key) {
			machinev1.SetAnnotation(s.desired, key, value)
		}
	}
}

// survivesRollback reports whether a rollback leaves an annotation of the deployment
// alone: the time of the scaler's last change is not part of any revision.
func (*scope) survivesRollback(key string) bool {
	return key == machinev1.LastReplicaChangeByScalerAnnotation
}

func (s *scope) machineSets() []*machinev1.MachineSet {
	var sets []*machinev1.MachineSet
	for _, o := range s.sets {
		sets = append(sets, o.observed)
	}
	return sets
}

func (s *scope) setOfRevision(revision int64) *machinev1.MachineSet {
	for _, set := range s.machineSets() {
		if revision > 0 && rollout.Revision(set) == revision {
			return set
		}
	}
	return nil
}
