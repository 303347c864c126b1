package plan

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// notPaused refuses a pool that rests already although no move of it is on record: who
// has put it to rest is not known, and neither is which API is authoritative.
func (p *planner) notPaused(d migration.API) {
	if p.Phase != "" {
		return
	}
	key, remedy := clusterv1.PausedAnnotation, "remove the annotation: a move pauses it by itself, and unpauses it "+
		"afterwards"
	if d == migration.Native {
		key = machinev1.MigrationHoldAnnotation
		remedy = "restore ConfigMap " + migration.RecordName(p.Plan.Pool) +
			", which said how far its move was; remove the annotation only if nobody moves it"
	}
	for _, tier := range p.Tiers(d) {
		for _, o := range tier {
			if _, rests := o.GetAnnotations()[key]; rests {
				p.find(migration.Finding{
					Level: migration.Blocked, Object: objects.Name(objects.KindOf(o), o), Field: "metadata.annotations[" + key + "]",
					Text: fmt.Sprintf("it is paused on %s, and no move of the pool is on record", d.Title()), Remedy: remedy,
				})
			}
		}
	}
}
