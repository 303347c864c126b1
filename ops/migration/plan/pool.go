package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// toNative plans a move away from Cluster API.
func (p *planner) toNative() {
	if p.ClusterAPI.Empty() {
		p.absent(migration.ClusterAPI, clusterv1.GroupVersion.Group)
		return
	}
	want, findings := fields.ToNative(p.PoolState, p.options)
	p.Findings = append(p.Findings, findings...)
	if belongs := p.ClusterAPI.ClusterName(); p.options.Cluster != belongs {
		p.block(p.Plan.Pool.String(), "spec.clusterName",
			"it belongs to Cluster "+belongs+", not to "+p.options.Cluster, "leave --cluster out")
	}
	p.clusterHead()
	p.notPaused(migration.ClusterAPI)
	p.clusterMachines(&want)
	p.selectors(&want)
	p.nativeNames(&want)
	if want.Deployment != nil && p.Native.Deployment == nil {
		creates(p, machinev1.MachineDeploymentKind, []machinev1.MachineDeployment{*want.Deployment}, nil)
	}
	creates(p, machinev1.MachineSetKind, want.Sets, objects.Names(p.Native.Sets))
	creates(p, machinev1.MachineKind, want.Machines, objects.Names(p.Native.Machines))
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

// absent adds the finding that the pool is not on the API to move from. group is
// that API's group.
func (p *planner) absent(from migration.API, group string) {
	text := fmt.Sprintf("there is no such pool on %s", from.Title())
	remedy := fmt.Sprintf("name one that kubectl get %ss.%s shows", p.Plan.Pool.Kind, group)
	if p.On(from.Other()) {
		text = fmt.Sprintf("it is on %s already", from.Other().Title())
		remedy = fmt.Sprintf("nothing is to be done; --to %s is the way back", from)
	}
	p.block(p.Plan.Pool.String(), "", text, remedy)
}

// nativeHead is about the state of the pool as a whole.
func (p *planner) nativeHead() {
	d := p.Native.Deployment
	for i := range p.Native.Sets {
		p.deleted(machinev1.MachineSetKind, &p.Native.Sets[i])
	}
	p.Replicas = int32(len(p.Native.Machines)) // #nosec G115 -- objects in memory
	switch {
	case p.Plan.Pool.Kind == migration.KindSet:
		s := &p.Native.Sets[0]
		object := objects.Name(machinev1.MachineSetKind, s)
		p.Replicas = s.Spec.Replicas
		p.partOf(machinev1.MachineSetKind, s)
		p.selectsAll(object, s.Spec.Selector)
		p.frozen(object, s)
		p.scales(object, len(p.Native.Machines))
	case p.Plan.Pool.Kind == migration.KindMachine:
		p.Replicas = 1
		p.partOf(machinev1.MachineKind, &p.Native.Machines[0])
	case d != nil:
		p.Replicas = d.Spec.Replicas
		p.nativeDeployment(objects.Name(machinev1.MachineDeploymentKind, d), d)
	}
}

func (p *planner) nativeDeployment(object string, d *machinev1.MachineDeployment) {
	switch {
	case p.deleted(machinev1.MachineDeploymentKind, d):
	case d.Spec.RollbackTo != nil:
		p.block(object, "spec.rollbackTo", "a rollback to an earlier revision has been asked for", "wait until it is done")
	case d.Status.ObservedGeneration < d.Generation && p.Phase == "":
		p.block(object, "", fmt.Sprintf("its last change, generation %d, has not been seen by its controller, which has "+
			"seen %d", d.Generation, d.Status.ObservedGeneration), "wait, or start the native API")
	}
	p.selectsAll(object, d.Spec.Selector)
	if names := d.Annotations[machinev1.TriggerDeletionAnnotation]; names != "" {
		p.block(object, "metadata.annotations["+machinev1.TriggerDeletionAnnotation+"]",
			"an autoscaler has asked for the deletion of "+names, "wait until they are gone")
	}
	p.frozen(object, d)
	of := setsOf(p.Native.Machines, p.Native.Sets, p.Native.SetOf)
	p.rollout(object, nameAt(p.Native.Sets, p.Native.CurrentSet()), of)
}

// clusterHead is about the state of the pool as a whole.
func (p *planner) clusterHead() {
	d := p.ClusterAPI.Deployment
	p.Replicas = int32(len(p.ClusterAPI.Machines)) // #nosec G115 -- objects in memory
	switch {
	case p.Plan.Pool.Kind == migration.KindSet:
		s := &p.ClusterAPI.Sets[0]
		p.Replicas = objects.Value(s.Spec.Replicas)
		p.partOf(machinev1.MachineSetKind, s)
		p.deleted(machinev1.MachineSetKind, s)
		p.scales(objects.Name(machinev1.MachineSetKind, s), len(p.ClusterAPI.Machines))
	case p.Plan.Pool.Kind == migration.KindMachine:
		p.partOf(machinev1.MachineKind, &p.ClusterAPI.Machines[0])
	case d != nil:
		p.Replicas = objects.Value(d.Spec.Replicas)
		p.clusterDeployment(objects.Name(machinev1.MachineDeploymentKind, d), d)
	}
}

func (p *planner) clusterDeployment(object string, d *clusterv1.MachineDeployment) {
	if !p.deleted(machinev1.MachineDeploymentKind, d) && d.Status.ObservedGeneration < d.Generation && p.Phase == "" {
		p.block(object, "", "its last change has not been seen by Cluster API", "wait, or start Cluster API's controllers")
	}
	if _, topology := d.Labels[clusterv1.ClusterTopologyOwnedLabel]; topology {
		p.block(object, "metadata.labels["+clusterv1.ClusterTopologyOwnedLabel+"]",
			"a ClusterClass manages it, and would make it again", "take it out of spec.topology of its Cluster first")
	}
	of := setsOf(p.ClusterAPI.Machines, p.ClusterAPI.Sets, p.ClusterAPI.SetOf)
	p.rollout(object, nameAt(p.ClusterAPI.Sets, p.ClusterAPI.CurrentSet()), of)
}

// setsOf are the names of the sets of machines; empty for one without a set.
func setsOf[M, S any, P objects.Object[S]](machines []M, sets []S, setOf func(*M) int) (names []string) {
	for i := range machines {
		names = append(names, nameAt[S, P](sets, setOf(&machines[i])))
	}
	return names
}

// nameAt is the name of one of many; empty for -1.
func nameAt[T any, P objects.Object[T]](list []T, at int) string {
	if at < 0 {
		return ""
	}
	return P(&list[at]).GetName()
}

// rollout refuses a pool that is between two templates. current is the set of its template; sets has the
// set of each of its machines.
func (p *planner) rollout(object, current string, sets []string) {
	if current == "" {
		p.block(object, "spec.template", "no MachineSet has this template yet: a rollout begins",
			"wait until it is over, or undo the change of the template")
		return
	}
	old := map[string]int{}
	for _, set := range sets {
		if set != "" && set != current {
			old[set]++
		}
	}
	for _, name := range objects.Keys(old) {
		p.block(object, "spec.template", fmt.Sprintf("it is in the middle of a rollout: MachineSet %s, of another "+
			"template, still has machines (%d)", name, old[name]),
			"wait until the rollout is over, or undo the change of the template")
	}
	p.scales(object, len(sets))
}

// deleted refuses, and reports, what is being deleted.
func (p *planner) deleted(kind string, o client.Object) bool {
	going := !o.GetDeletionTimestamp().IsZero()
	if going {
		p.block(objects.Name(kind, o), "", "it is being deleted", "wait until it is gone")
	}
	return going
}

// partOf refuses what somebody makes again when it is gone: it moves with its owner only.
func (p *planner) partOf(kind string, o metav1.Object) {
	if owner := metav1.GetControllerOf(o); owner != nil {
		p.block(objects.Name(kind, o), "metadata.ownerReferences",
			fmt.Sprintf("it belongs to %s %s, which would make another in its place", owner.Kind, owner.Name),
			"move the pool that it is part of: "+kind+"s move alone only if nothing controls them")
	}
}

// selectsAll refuses a native selector that is none.
func (p *planner) selectsAll(object string, s *metav1.LabelSelector) {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		p.block(object, "spec.selector", "it selects everything; MCM does nothing for such an object",
			"give it a label of its own")
	}
}

// frozen refuses what the native API has stopped.
func (p *planner) frozen(object string, o metav1.Object) {
	if o.GetLabels()[machinev1.FreezeLabel] != "" {
		p.block(object, "metadata.labels["+machinev1.FreezeLabel+"]",
			"it is frozen: it has too many machines, or an API server is out of reach",
			"wait until the native API unfreezes it")
	}
}

// scales refuses a pool that has another number of machines than it is to have.
func (p *planner) scales(object string, have int) {
	if have != int(p.Replicas) {
		p.block(object, "spec.replicas", fmt.Sprintf("%d machines are wanted, and there are %d", p.Replicas, have),
			"wait until it has scaled")
	}
}

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
	for _, o := range slices.Concat(p.Tiers(d)...) {
		if _, rests := o.GetAnnotations()[key]; rests {
			p.block(objects.Name(objects.KindOf(o), o), "metadata.annotations["+key+"]",
				fmt.Sprintf("it is paused on %s, and no move of the pool is on record", d.Title()), remedy)
		}
	}
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

// creates notes objects that would be made.
func creates[T any, P objects.Object[T]](p *planner, kind string, want []T, have map[string]bool) {
	var names []string
	for i := range want {
		if name := P(&want[i]).GetName(); !have[name] {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		p.Creates = append(p.Creates, Objects{Kind: kind, Names: names})
	}
}
