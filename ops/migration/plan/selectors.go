package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// claim is what a native object takes for its own.
type claim struct {
	kind     string
	object   metav1.Object
	selector *metav1.LabelSelector
	labels   map[string]string // of its machines
}

func claimOfDeployment(d *machinev1.MachineDeployment) claim {
	return claim{machinev1.MachineDeploymentKind, d, d.Spec.Selector, d.Spec.Template.Labels}
}

func claimOfSet(s *machinev1.MachineSet) claim {
	return claim{machinev1.MachineSetKind, s, s.Spec.Selector, s.Spec.Template.Labels}
}

// claims are those of all pools of the namespace that make machines.
func claims(s *migration.Namespace) []claim {
	var out []claim
	for i := range s.Deployments {
		out = append(out, claimOfDeployment(&s.Deployments[i]))
	}
	for i := range s.Sets {
		if metav1.GetControllerOf(&s.Sets[i]) == nil {
			out = append(out, claimOfSet(&s.Sets[i]))
		}
	}
	return out
}

// selectors refuses pools that would take each other's machines. n is what the pool
// is, or is to be, natively.
func (p *planner) selectors(n *migration.NativeObjects) {
	if p.Around == nil {
		return
	}
	switch {
	case n.Deployment != nil:
		p.overlap(claimOfDeployment(n.Deployment))
	case p.Plan.Pool.Kind == migration.KindSet && len(n.Sets) > 0 && metav1.GetControllerOf(&n.Sets[0]) == nil:
		p.overlap(claimOfSet(&n.Sets[0]))
	case p.Plan.Pool.Kind == migration.KindMachine && len(n.Machines) > 0:
		p.adopters(&n.Machines[0])
	}
}

func (p *planner) overlap(mine claim) {
	for _, other := range claims(p.Around) {
		if other.kind == mine.kind && other.object.GetName() == mine.object.GetName() {
			continue
		}
		if objects.Selects(other.selector, mine.labels) || objects.Selects(mine.selector, other.labels) {
			p.find(migration.Finding{
				Level: migration.Blocked, Object: objects.Name(mine.kind, mine.object), Field: "spec.selector",
				Text: "it and " + other.kind + " " + other.object.GetName() +
					" select each other's machines; an autoscaler would count them twice, and a machine without an owner could be " +
					"adopted by either",
				Remedy: "give one of them a label of its own, in spec.selector and spec.template; that rolls it",
			})
		}
	}
}

// adopters refuses a Machine that a native MachineSet takes as soon as it can.
func (p *planner) adopters(m *machinev1.Machine) {
	if metav1.GetControllerOf(m) != nil {
		return
	}
	for i := range p.Around.Sets {
		if s := &p.Around.Sets[i]; objects.Selects(s.Spec.Selector, m.Labels) {
			p.find(migration.Finding{
				Level: migration.Blocked, Object: objects.Name(machinev1.MachineKind, m), Field: "metadata.labels",
				Text: "MachineSet " +
					s.Name + " selects it, and adopts it as soon as it may",
				Remedy: "take the labels that it selects by off the Machine, or move the pool of that MachineSet",
			})
		}
	}
}
