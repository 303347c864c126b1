package plan

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// toNative plans a move away from Cluster API.
func (p *planner) toNative() {
	if p.ClusterAPI.Empty() {
		p.absent(migration.ClusterAPI, clusterv1.GroupVersion.Group)
		return
	}
	want, findings := fields.ToNative(p.PoolState, p.options)
	p.Findings = append(p.Findings, findings...)
	p.sameCluster()
	p.clusterHead()
	p.notPaused(migration.ClusterAPI)
	p.clusterMachines(&want)
	p.selectors(&want)
	p.nativeNames(&want)
	p.createsOfNative(&want)
	p.finalizersToNative()
}

// clusterHead is about the state of the pool as a whole.
func (p *planner) clusterHead() {
	d := p.ClusterAPI.Deployment
	p.Replicas = int32(len(p.ClusterAPI.Machines)) // #nosec G115 -- objects in memory
	switch p.Plan.Pool.Kind {
	case migration.KindSet:
		p.clusterSet(&p.ClusterAPI.Sets[0])
		return
	case migration.KindMachine:
		p.partOf(machinev1.MachineKind, &p.ClusterAPI.Machines[0])
		return
	case migration.KindDeployment:
	}
	if d == nil {
		return
	}
	p.Replicas = objects.Value(d.Spec.Replicas)
	object := objects.Name(machinev1.MachineDeploymentKind, d)
	block := func(field, text, remedy string) {
		p.find(migration.Finding{Level: migration.Blocked, Object: object, Field: field, Text: text, Remedy: remedy})
	}
	switch {
	case !d.DeletionTimestamp.IsZero():
		block("", "it is being deleted", "wait until it is gone")
	case d.Status.ObservedGeneration < d.Generation && p.Phase == "":
		block("", "its last change has not been seen by Cluster API", "wait, or start Cluster API's controllers")
	}
	if _, topology := d.Labels[clusterv1.ClusterTopologyOwnedLabel]; topology {
		block("metadata.labels["+clusterv1.ClusterTopologyOwnedLabel+"]",
			"a ClusterClass manages it, and would make it again", "take it out of spec.topology of its Cluster first")
	}
	p.clusterRollout(object, block)
}

// clusterRollout is about the MachineSets of a MachineDeployment of Cluster API: one of
// its template has all machines.
func (p *planner) clusterRollout(object string, block func(field, text, remedy string)) {
	current := p.ClusterAPI.CurrentSet()
	if current < 0 {
		block("spec.template", "no MachineSet has this template yet: a rollout begins",
			"wait until it is over, or undo the change of the template")
		return
	}
	old := map[string]int{}
	for i := range p.ClusterAPI.Machines {
		if set := p.ClusterAPI.SetOf(&p.ClusterAPI.Machines[i]); set >= 0 && set != current {
			old[p.ClusterAPI.Sets[set].Name]++
		}
	}
	for _, name := range objects.Keys(old) {
		block("spec.template", fmt.Sprintf("it is in the middle of a rollout: MachineSet %s, of another template, still "+
			"has machines (%d)", name, old[name]), "wait until the rollout is over, or undo the change of the template")
	}
	p.scales(object, len(p.ClusterAPI.Machines))
}

// clusterSet is about the state of a MachineSet of Cluster API that is a pool.
func (p *planner) clusterSet(s *clusterv1.MachineSet) {
	object := objects.Name(machinev1.MachineSetKind, s)
	p.Replicas = objects.Value(s.Spec.Replicas)
	p.partOf(machinev1.MachineSetKind, s)
	if !s.DeletionTimestamp.IsZero() {
		p.find(migration.Finding{
			Level: migration.Blocked, Object: object, Text: "it is being deleted",
			Remedy: "wait until it is gone",
		})
	}
	p.scales(object, len(p.ClusterAPI.Machines))
}

func (p *planner) createsOfNative(want *migration.NativeObjects) {
	if want.Deployment != nil && p.Native.Deployment == nil {
		creates(p, machinev1.MachineDeploymentKind, []machinev1.MachineDeployment{*want.Deployment}, nil)
	}
	creates(p, machinev1.MachineSetKind, want.Sets, objects.Names(p.Native.Sets))
	creates(p, machinev1.MachineKind, want.Machines, objects.Names(p.Native.Machines))
}

func (p *planner) finalizersToNative() {
	p.Finalizers = []Finalizer{
		{machinev1.Finalizer, "Machine, MachineSet, MachineDeployment (native)", "on each from the moment it is made"},
		{machinev1.NodeFinalizer, "Node", "added by the native API"},
		{clusterv1.MachineFinalizer, "Machine (Cluster API)", "stays until finish"},
		{machinev1.MCMMachineFinalizer, objects.KindMCMMachine, "stays until finish, with " + machinev1.RetainVMAnnotation},
		{
			machinev1.InUseFinalizer, "MachineClass and its Secrets",
			"goes once nothing of Cluster API uses them; the native API adds its own",
		},
	}
}
