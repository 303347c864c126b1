package machinedeployment

import (
	"context"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// frozen is the value of the label freeze.
const frozen = "True"

// frozenSets returns the names of the sets that may not make machines, because
// they have too many.
func (p *pass) frozenSets() []string {
	var names []string
	for _, o := range p.pools {
		if o.seen.Labels[machinev1.FreezeLabel] == frozen {
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
			if o.seen.Labels[machinev1.FreezeLabel] == frozen {
				annotate(o.want, machinev1.UnfreezeAnnotation, wish)
			}
		}
		if err := p.saveSets(ctx); err != nil {
			return false, err
		}
		delete(p.want.Annotations, machinev1.UnfreezeAnnotation)
	}
	if len(p.frozenSets()) > 0 {
		label(p.want, machinev1.FreezeLabel, frozen)
	} else if p.want.Labels[machinev1.FreezeLabel] == frozen {
		delete(p.want.Labels, machinev1.FreezeLabel)
	}
	return true, p.saveDeployment(ctx)
}
