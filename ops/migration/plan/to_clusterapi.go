package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// toClusterAPI plans a move away from the native API.
func (p *planner) toClusterAPI() {
	if p.Native.Empty() {
		p.absent(migration.Native, machinev1.GroupVersion.Group)
		return
	}
	want, findings := fields.ToClusterAPI(p.PoolState, p.options)
	p.Findings = append(p.Findings, findings...)
	p.nativeHead()
	p.notPaused(migration.Native)
	versions := p.nativeMachines(&want)
	p.versions(versions, &want)
	p.names(&want)
	p.healthChecks(&want)
	p.clusterState()
	p.createsOfClusterAPI(&want)
	p.finalizersToClusterAPI()
}

// deletedSets is about MachineSets that are being deleted.
func (p *planner) deletedSets() {
	for i := range p.Native.Sets {
		if s := &p.Native.Sets[i]; !s.DeletionTimestamp.IsZero() {
			p.find(migration.Finding{
				Level: migration.Blocked, Object: objects.Name(machinev1.MachineSetKind, s), Text: "it is being deleted",
				Remedy: "wait until it is gone",
			})
		}
	}
}

// nativeHead is about the state of the pool as a whole.
func (p *planner) nativeHead() {
	d := p.Native.Deployment
	p.deletedSets()
	switch p.Plan.Pool.Kind {
	case migration.KindSet:
		p.nativeSet(&p.Native.Sets[0])
		return
	case migration.KindMachine:
		p.Replicas = 1
		p.partOf(machinev1.MachineKind, &p.Native.Machines[0])
		return
	case migration.KindDeployment:
	}
	if p.Replicas = int32(len(p.Native.Machines)); d == nil { // #nosec G115 -- objects in memory
		return
	}
	p.Replicas = d.Spec.Replicas
	object := objects.Name(machinev1.MachineDeploymentKind, d)
	block := func(field, text, remedy string) {
		p.find(migration.Finding{Level: migration.Blocked, Object: object, Field: field, Text: text, Remedy: remedy})
	}
	switch {
	case !d.DeletionTimestamp.IsZero():
		block("", "it is being deleted", "wait until it is gone")
	case d.Spec.RollbackTo != nil:
		block("spec.rollbackTo", "a rollback to an earlier revision has been asked for", "wait until it is done")
	case d.Status.ObservedGeneration < d.Generation && p.Phase == "":
		block("", fmt.Sprintf("its last change, generation %d, has not been seen by its controller, which has seen %d",
			d.Generation, d.Status.ObservedGeneration), "wait, or start the native API")
	}
	p.selectsAll(object, d.Spec.Selector)
	if names := d.Annotations[machinev1.TriggerDeletionAnnotation]; names != "" {
		block("metadata.annotations["+machinev1.TriggerDeletionAnnotation+"]", "an autoscaler has asked for the deletion of "+
			names, "wait until they are gone")
	}
	p.frozen(object, d)
	p.rollout(object)
}

// rollout refuses a pool that is between two templates.
func (p *planner) rollout(object string) {
	current := p.Native.CurrentSet()
	if current < 0 {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: "spec.template",
			Text: "no MachineSet has this template yet: a rollout begins", Remedy: "wait until it is over, or undo the change " +
				"of the template",
		})
		return
	}
	old := map[string]int{}
	for i := range p.Native.Machines {
		if set := p.Native.SetOf(&p.Native.Machines[i]); set >= 0 && set != current {
			old[p.Native.Sets[set].Name]++
		}
	}
	for _, name := range objects.Keys(old) {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Field: "spec.template",
			Text: fmt.Sprintf("it is in the middle of a rollout: MachineSet %s, of another template, still has machines (%d)",
				name, old[name]), Remedy: "wait until the rollout is over, or undo the change of the template",
		})
	}
	p.scales(object, len(p.Native.Machines))
}

// createsOfClusterAPI notes what would be made.
func (p *planner) createsOfClusterAPI(want *migration.ClusterAPIObjects) {
	if p.PoolState.Cluster.Cluster == nil && p.options.Cluster != "" {
		for _, kind := range []string{objects.KindCluster, "MCMCluster", "MCMExternalControlPlane"} {
			p.Creates = append(p.Creates, Objects{Kind: kind, Names: []string{p.options.Cluster}})
		}
	}
	have := &p.ClusterAPI
	creates(p, objects.KindMCMMachineTemplate, want.MachineTemplates, objects.Names(have.MachineTemplates))
	creates(p, objects.KindMCMConfigTemplate, want.ConfigTemplates, objects.Names(have.ConfigTemplates))
	if want.Deployment != nil && have.Deployment == nil {
		creates(p, machinev1.MachineDeploymentKind, []clusterv1.MachineDeployment{*want.Deployment}, nil)
	}
	creates(p, machinev1.MachineSetKind, want.Sets, objects.Names(have.Sets))
	creates(p, machinev1.MachineKind, want.Machines, objects.Names(have.Machines))
	creates(p, objects.KindMCMMachine, want.MCMMachines, objects.Names(have.MCMMachines))
	creates[corev1.Secret](p, "Secret", want.BootstrapSecrets, objects.Names(have.BootstrapSecrets))
	if want.HealthCheck != nil && have.HealthCheck == nil {
		creates(p, objects.KindHealthCheck, []clusterv1.MachineHealthCheck{*want.HealthCheck}, nil)
	}
}

// finalizersToClusterAPI says what becomes of what keeps objects.
func (p *planner) finalizersToClusterAPI() {
	p.Finalizers = []Finalizer{
		{clusterv1.MachineFinalizer, "Machine (Cluster API)", "added by Cluster API before the native Machine may go"},
		{machinev1.MCMMachineFinalizer, objects.KindMCMMachine, "added before the native Machine may go"},
		{machinev1.Finalizer, "Machine, MachineSet, MachineDeployment (native)", "stays until finish"},
		{machinev1.NodeFinalizer, "Node", "removed once the new Machines have theirs: Cluster API deletes Nodes itself"},
		{
			machinev1.InUseFinalizer, "MachineClass and its Secrets",
			"added; that of the native API stays while it has users there",
		},
	}
}
