package migration

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// checkOf is the MachineHealthCheck of the pool's name, else the first that selects
// its machines; nil if none does.
func checkOf(checks []clusterv1.MachineHealthCheck, c *ClusterAPI, p Pool) *clusterv1.MachineHealthCheck {
	var found *clusterv1.MachineHealthCheck
	for i := range checks {
		check := &checks[i]
		if check.Spec.ClusterName != c.belongsTo() || !selects(&check.Spec.Selector, c.machineLabels()) {
			continue
		}
		if check.Name == p.Name {
			return check
		}
		if found == nil || check.Name < found.Name {
			found = check
		}
	}
	return found
}

// machineLabels are those of the pool's Machines.
func (c *ClusterAPI) machineLabels() map[string]string {
	for i := range c.Machines {
		return c.Machines[i].Labels
	}
	if d := c.Deployment; d != nil {
		return with(d.Spec.Template.Labels, map[string]string{
			clusterv1.MachineDeploymentNameLabel: d.Name,
			clusterv1.ClusterNameLabel:           d.Spec.ClusterName,
		})
	}
	if len(c.Sets) > 0 {
		s := &c.Sets[0]
		return with(s.Spec.Template.Labels, map[string]string{
			clusterv1.MachineSetNameLabel: format.MustFormatValue(s.Name),
			clusterv1.ClusterNameLabel:    s.Spec.ClusterName,
		})
	}
	return nil
}

// ownCheck is the pool's MachineHealthCheck if it is for this pool alone: one that
// decides for others, too, outlives it. nil if there is none.
func (s *Scene) ownCheck() *clusterv1.MachineHealthCheck {
	check := s.ClusterAPI.HealthCheck
	if check == nil || !s.Pool.owns(check) {
		return nil
	}
	return check
}

// owns reports whether a MachineHealthCheck was made for the pool, or asks for its name.
func (p Pool) owns(check *clusterv1.MachineHealthCheck) bool {
	asked := check.Spec.Selector.MatchLabels
	switch p.Kind {
	case KindDeployment:
		return originOf(check, machinev1.MachineDeploymentKind) == p.Name ||
			asked[clusterv1.MachineDeploymentNameLabel] == p.Name
	case KindSet:
		return originOf(check, machinev1.MachineSetKind) == p.Name ||
			asked[clusterv1.MachineSetNameLabel] == format.MustFormatValue(p.Name)
	case KindMachine:
	}
	return false
}

// healthChecks is about MachineHealthChecks that are there before the pool's own is
// made: two that look at the same machines would both replace them.
func (p *planner) healthChecks(want *ClusterAPI) {
	if want.HealthCheck == nil || p.around == nil || p.Phase != "" || p.ClusterAPI.HealthCheck != nil {
		return
	}
	if check := checkOf(p.around.HealthChecks, want, p.Plan.Pool); check != nil {
		want.HealthCheck = nil
		p.find(Finding{
			Level: Lost, Object: objectName(kindHealthCheck, check), Field: "spec.selector",
			Text: "this MachineHealthCheck selects the machines of the pool, too: it goes on to decide about them, with its " +
				"own timeouts, and the pool gets none of its own",
		})
		return
	}
	if check := lookup(p.around.HealthChecks, want.HealthCheck.Name); check != nil {
		p.taken(kindHealthCheck, check)
	}
}

// taken says that somebody else has a name on the Cluster API door.
func (p *planner) taken(kind string, o metav1.Object) {
	p.find(Finding{
		Level: Blocked, Object: objectName(kind, o),
		Text:   "it exists on the Cluster API door, and was not made from the native object of this name",
		Remedy: "delete or rename it",
	})
}
