package machinedeployment

import (
	"context"
	"maps"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// rollBack gives the deployment the template of the revision that is asked for,
// and clears the request whether that is possible or not. The next pass rolls
// out.
func (p *pass) rollBack(ctx context.Context) error {
	revision := p.d.Spec.RollbackTo.Revision
	if revision == 0 {
		revision = rollout.LastRevision(p.allSets())
	}
	p.want.Spec.RollbackTo = nil
	set := p.ofRevision(revision)
	switch {
	case set == nil && revision == 0:
		p.warn(machinev1.EventRollbackRevisionNotFound, "There is no earlier revision to roll back to")
	case set == nil:
		p.warn(machinev1.EventRollbackRevisionNotFound, "There is no revision %d to roll back to", revision)
	case rollout.SameTemplate(&p.d.Spec.Template, &set.Spec.Template):
		p.warn(machinev1.EventRollbackTemplateUnchanged,
			"The template is that of revision %d already; nothing is rolled back", revision)
	default:
		p.restore(set)
		if err := p.saveDeployment(ctx); err != nil {
			return err
		}
		p.normal(machinev1.EventDeploymentRollback, "Rolled back to revision %d", revision)
	}
	return p.saveDeployment(ctx)
}

// restore gives the deployment the template and the annotations of a set.
func (p *pass) restore(set *machinev1.MachineSet) {
	p.want.Spec.Template = *set.Spec.Template.DeepCopy()
	delete(p.want.Spec.Template.Labels, machinev1.TemplateHashLabel)
	maps.DeleteFunc(p.want.Annotations, func(key, _ string) bool { return travels(key) && !p.keeps(key) })
	for key, value := range set.Annotations {
		if travels(key) && !p.keeps(key) {
			annotate(p.want, key, value)
		}
	}
}

// keeps reports whether an annotation of the deployment survives a rollback: when a
// scaler last changed the replicas is no part of any revision.
func (*pass) keeps(key string) bool { return key == machinev1.LastReplicaChangeByScalerAnnotation }

func (p *pass) allSets() []*machinev1.MachineSet {
	var sets []*machinev1.MachineSet
	for _, o := range p.pools {
		sets = append(sets, o.seen)
	}
	return sets
}

func (p *pass) ofRevision(revision int64) *machinev1.MachineSet {
	for _, set := range p.allSets() {
		if revision > 0 && rollout.Revision(set) == revision {
			return set
		}
	}
	return nil
}
