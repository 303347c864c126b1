package migration

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// atWork refuses a pool that rests already although no move of it is on record: who
// has put it to rest is not known, and neither is which door is the truth.
func (p *planner) atWork(d Door) {
	if p.Phase != "" {
		return
	}
	key, remedy := clusterv1.PausedAnnotation, "remove the annotation: a move pauses it by itself, and unpauses it "+
		"afterwards"
	if d == DoorNative {
		key = machinev1.MigrationHoldAnnotation
		remedy = "restore ConfigMap " + recordName(p.Plan.Pool) +
			", which said how far its move was; remove the annotation only if nobody moves it"
	}
	for _, tier := range p.tiers(d) {
		for _, o := range tier {
			if _, rests := o.GetAnnotations()[key]; rests {
				p.find(Finding{
					Level: Blocked, Object: objectName(kindOf(o), o), Field: "metadata.annotations[" + key + "]",
					Text: fmt.Sprintf("it is at rest on the %s door, and no move of the pool is on record", d), Remedy: remedy,
				})
			}
		}
	}
}

// retained is about MCMMachines whose VM is to outlive them.
func (p *planner) retained(o client.Object) {
	if o.GetAnnotations()[machinev1.RetainVMAnnotation] != "" && p.Phase == "" {
		p.find(Finding{
			Level: Lost, Object: objectName(kindMCMMachine, o), Field: "metadata.annotations[" + machinev1.RetainVMAnnotation +
				"]",
			Text: "natively the VM goes with its Machine; a way back does not set it again",
		})
	}
}
