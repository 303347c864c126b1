package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// absent adds the finding that the pool is not on the API to move from. group is
// that API's group.
func (p *planner) absent(from migration.API, group string) {
	f := migration.Finding{
		Level: migration.Blocked, Object: p.Plan.Pool.String(),
		Text: fmt.Sprintf("there is no such pool on %s", from.Title()),
	}
	f.Remedy = fmt.Sprintf("name one that kubectl get %ss.%s shows", p.Plan.Pool.Kind, group)
	if p.On(from.Other()) {
		f.Text, f.Remedy = fmt.Sprintf("it is on %s already", from.Other().Title()),
			fmt.Sprintf("nothing is to be done; --to %s is the way back", from)
	}
	p.find(f)
}

// partOf refuses what somebody makes again when it is gone: it moves with its owner only.
func (p *planner) partOf(kind string, o metav1.Object) {
	if owner := metav1.GetControllerOf(o); owner != nil {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: objects.Name(kind, o), Field: "metadata.ownerReferences",
			Text:   fmt.Sprintf("it belongs to %s %s, which would make another in its place", owner.Kind, owner.Name),
			Remedy: "move the pool that it is part of: " + kind + "s move alone only if nothing controls them",
		})
	}
}

// nativeSet is about the state of a native MachineSet that is a pool.
func (p *planner) nativeSet(s *machinev1.MachineSet) {
	object := objects.Name(machinev1.MachineSetKind, s)
	p.Replicas = s.Spec.Replicas
	p.partOf(machinev1.MachineSetKind, s)
	p.selectsAll(object, s.Spec.Selector)
	p.frozen(object, s)
	p.scales(object, len(p.Native.Machines))
}

// selectsAll refuses a native selector that is none.
func (p *planner) selectsAll(object string, s *metav1.LabelSelector) {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: "spec.selector",
			Text: "it selects everything; MCM does nothing for such an object", Remedy: "give it a label of its own",
		})
	}
}

// frozen refuses what the native API has stopped.
func (p *planner) frozen(object string, o metav1.Object) {
	if o.GetLabels()[machinev1.FreezeLabel] != "" {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: "metadata.labels[" + machinev1.FreezeLabel + "]",
			Text:   "it is frozen: it has too many machines, or an API server is out of reach",
			Remedy: "wait until the native API unfreezes it",
		})
	}
}

// scales refuses a pool that has another number of machines than it is to have.
func (p *planner) scales(object string, have int) {
	if have != int(p.Replicas) {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: "spec.replicas",
			Text: fmt.Sprintf("%d machines are wanted, and there are %d", p.Replicas, have), Remedy: "wait until it has scaled",
		})
	}
}
