package machinedeployment

import (
	"context"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
)

// frozenSets returns the names of the sets that may not make machines, because
// they have too many.
func (p *pass) frozenSets() []string {
	var names []string
	for _, o := range p.pools {
		if freeze.IsFrozen(o.seen) {
			names = append(names, o.seen.Name)
		}
	}
	return names
}

// syncFreeze labels the deployment as frozen while any of its sets is, and passes
// a person's wish to unfreeze on to them. The label is a sign only: it does not
// stop rollouts. The wish is taken off the deployment when every frozen set has
// it.
func (p *pass) syncFreeze(ctx context.Context) (bool, error) {
	if wish, ok := p.want.Annotations[machinev1.UnfreezeAnnotation]; ok {
		for _, o := range p.pools {
			if freeze.IsFrozen(o.seen) {
				annotate(o.want, machinev1.UnfreezeAnnotation, wish)
			}
		}
		if err := p.saveSets(ctx); err != nil {
			return false, err
		}
		delete(p.want.Annotations, machinev1.UnfreezeAnnotation)
	}
	if len(p.frozenSets()) > 0 {
		label(p.want, machinev1.FreezeLabel, freeze.LabelValue)
	} else if freeze.IsFrozen(p.want) {
		delete(p.want.Labels, machinev1.FreezeLabel)
	}
	return true, p.saveDeployment(ctx)
}
