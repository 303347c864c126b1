package plan

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// names refuses names that Cluster API cannot have, or that somebody else has.
func (p *planner) names(want *migration.ClusterAPIObjects) {
	p.labelName(want.Deployment)
	if p.Phase != "" || p.Around == nil {
		return
	}
	p.takenDeployment(want.Deployment)
	p.takenMachines()
	for i := range want.BootstrapSecrets {
		o := &want.BootstrapSecrets[i]
		if have := p.Around.Secrets[client.ObjectKeyFromObject(o)]; have != nil &&
			objects.CopiedFrom(have, machinev1.MachineKind) == "" {
			p.taken("Secret", have)
		}
	}
}

// labelName refuses a name that is no value of a label.
func (p *planner) labelName(d *clusterv1.MachineDeployment) {
	if d != nil {
		if problems := validation.IsValidLabelValue(d.Name); len(problems) > 0 {
			p.find(migration.Finding{
				Level: migration.Blocked, Object: objects.Name(machinev1.MachineDeploymentKind, d), Field: "metadata.name",
				Text: "Cluster API puts it into a label: " +
					strings.Join(problems, "; "), Remedy: "make a pool with a shorter name, and move the load there",
			})
		}
	}
}

// takenDeployment refuses the name of another MachineDeployment of Cluster API.
func (p *planner) takenDeployment(d *clusterv1.MachineDeployment) {
	for i := range p.Around.ClusterDeployments {
		if o := &p.Around.ClusterDeployments[i]; d != nil && o.Name == d.Name &&
			!objects.Related(o, p.Native.Deployment, machinev1.MachineDeploymentKind) {
			p.taken(machinev1.MachineDeploymentKind, o)
		}
	}
}

// takenMachines refuses names of other MachineSets, Machines and MCMMachines.
func (p *planner) takenMachines() {
	sets, machines := objects.ByName(p.Native.Sets), objects.ByName(p.Native.Machines)
	for i := range p.Around.ClusterSets {
		if o := &p.Around.ClusterSets[i]; sets[o.Name] != nil && !objects.Related(o, sets[o.Name], machinev1.MachineSetKind) {
			p.taken(machinev1.MachineSetKind, o)
		}
	}
	for i := range p.Around.ClusterMachines {
		if o := &p.Around.ClusterMachines[i]; machines[o.Name] != nil &&
			!objects.Related(o, machines[o.Name], machinev1.MachineKind) {
			p.taken(machinev1.MachineKind, o)
		}
	}
	for i := range p.Around.MCMMachines {
		if o := &p.Around.MCMMachines[i]; machines[o.Name] != nil &&
			!objects.Related(o, machines[o.Name], machinev1.MachineKind) {
			p.taken(objects.KindMCMMachine, o)
		}
	}
}

// nativeNames refuses names that somebody else has on the native API.
func (p *planner) nativeNames(want *migration.NativeObjects) {
	if p.Phase != "" || p.Around == nil {
		return
	}
	if o := objects.Find(p.Around.Deployments, p.Plan.Pool.Name); o != nil && want.Deployment != nil &&
		!objects.Related(p.ClusterAPI.Deployment, o, machinev1.MachineDeploymentKind) {
		p.takenNatively(machinev1.MachineDeploymentKind, o.Name)
	}
	p.takenNativeMachines()
}

// takenNativeMachines refuses names of other MachineSets and Machines.
func (p *planner) takenNativeMachines() {
	sets, machines := objects.ByName(p.ClusterAPI.Sets), objects.ByName(p.ClusterAPI.Machines)
	for i := range p.Around.Sets {
		if o := &p.Around.Sets[i]; sets[o.Name] != nil && !objects.Related(sets[o.Name], o, machinev1.MachineSetKind) {
			p.takenNatively(machinev1.MachineSetKind, o.Name)
		}
	}
	for i := range p.Around.Machines {
		if o := &p.Around.Machines[i]; machines[o.Name] != nil && !objects.Related(machines[o.Name], o,
			machinev1.MachineKind) {
			p.takenNatively(machinev1.MachineKind, o.Name)
		}
	}
}

// takenNatively adds a finding: another object has the name on the native API.
func (p *planner) takenNatively(kind, name string) {
	p.find(migration.Finding{
		Level: migration.Blocked, Object: kind + " " + p.Plan.Pool.Namespace + "/" + name,
		Text:   "it exists on the native API, and is no copy of that of Cluster API with this name",
		Remedy: "delete or rename it",
	})
}

// healthChecks is about MachineHealthChecks that are there before the pool's own is
// made: two that look at the same machines would both replace them.
func (p *planner) healthChecks(want *migration.ClusterAPIObjects) {
	if want.HealthCheck == nil || p.Around == nil || p.Phase != "" || p.ClusterAPI.HealthCheck != nil {
		return
	}
	if check := migration.CheckOf(p.Around.HealthChecks, want, p.Plan.Pool); check != nil {
		want.HealthCheck = nil
		p.find(migration.Finding{
			Level: migration.Lost, Object: objects.Name(objects.KindHealthCheck, check), Field: "spec.selector",
			Text: "this MachineHealthCheck selects the machines of the pool, too: it goes on to decide about them, with its " +
				"own timeouts, and the pool gets none of its own",
		})
		return
	}
	if check := objects.Find(p.Around.HealthChecks, want.HealthCheck.Name); check != nil {
		p.taken(objects.KindHealthCheck, check)
	}
}

// taken adds the finding that an object that this move did not create has a name
// that it needs on Cluster API.
func (p *planner) taken(kind string, o metav1.Object) {
	p.find(migration.Finding{
		Level: migration.Blocked, Object: objects.Name(kind, o),
		Text:   "it exists on Cluster API, and was not made from the native object of this name",
		Remedy: "delete or rename it",
	})
}
