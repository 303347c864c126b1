package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment/mdutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// capiDeployment judges a MachineDeployment of Cluster API, by its controller's own comparison of
// templates. What its machines come to is known; the steps between are Cluster API's.
func (v *verdict) capiDeployment(ctx context.Context, before, after *clusterv1.MachineDeployment) error {
	v.Rule = ruleCAPI
	current, old, results, _ := mdutil.FindNewAndOldMachineSets(after, v.capiSetsOf(before), metav1.NewTime(v.now))
	wanted, have := int(replicasOf(after.Spec.Replicas)), 0
	if current != nil {
		have = int(replicasOf(current.Spec.Replicas))
	}
	leaving := int(mdutil.GetReplicaCountForMachineSets(old))
	v.Rollout = &Rollout{
		Strategy: string(after.Spec.Rollout.Strategy.Type),
		MaxSurge: int(mdutil.MaxSurge(*after)), MaxUnavailable: int(mdutil.MaxUnavailable(*after)),
	}
	v.Machines = &Machines{Present: have + leaving}
	all, rolls := v.pausedBy(ctx, after)
	switch v.Rollout.Waits = all + rolls; {
	case all != "":
	case rolls != "": // what is left as it is counts for what is wanted
		v.moves(wanted, have+leaving, 0)
	default:
		v.moves(wanted, have, leaving)
		v.leave(old)
	}
	v.settle()
	v.capiNotes(after, results, leaving)
	if v.makes() {
		v.capiClass(ctx, after)
	}
	v.estimate(explain.ClusterAPI)
	v.drain(ctx)
	return nil
}

// capiSetsOf returns the MachineSets that a MachineDeployment controls; none for nil.
func (s *space) capiSetsOf(d *clusterv1.MachineDeployment) []*clusterv1.MachineSet {
	var sets []*clusterv1.MachineSet
	for i := range s.ClusterSets {
		if d != nil && metav1.IsControlledBy(&s.ClusterSets[i], d) {
			sets = append(sets, &s.ClusterSets[i])
		}
	}
	return sets
}

// moves counts the machines, and the rounds in which as many join as surge and unavailability allow.
func (v *verdict) moves(wanted, have, leaving int) {
	m, r := v.Machines, v.Rollout
	m.Created, m.Deleted = max(wanted-have, 0), leaving+max(have-wanted, 0)
	m.Replaced = min(m.Created, leaving)
	if m.Created == 0 {
		return
	}
	r.Rounds = 1
	if batch := r.MaxSurge + r.MaxUnavailable; m.Replaced > 0 && batch > 0 {
		r.Rounds = (m.Created + batch - 1) / batch
	}
}

// leave names the machines of old sets. Which ones a smaller set gives up, Cluster API decides then.
func (v *verdict) leave(old []*clusterv1.MachineSet) {
	for _, set := range old {
		for _, o := range v.facts.Objects {
			if o.Kind == explain.KindMachine && o.Owner == set.UID {
				v.Machines.Drained = append(v.Machines.Drained, o.Name)
			}
		}
	}
	slices.Sort(v.Machines.Drained)
	if more := v.Machines.Deleted - len(v.Machines.Drained); more > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("which %s are deleted is decided by Cluster API's deletion order "+
			"then, so that what keeps them from being drained is not known", count(more, "machine")))
	}
}

// pausedBy is what keeps Cluster API from doing anything, and what from replacing machines only; empty:
// nothing.
func (v *verdict) pausedBy(ctx context.Context, after *clusterv1.MachineDeployment) (all, rolls string) {
	cluster := &clusterv1.Cluster{}
	err := v.api.Get(ctx, client.ObjectKey{Namespace: after.Namespace, Name: after.Spec.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		v.unread("Cluster "+after.Spec.ClusterName, err)
	}
	_, annotated := after.Annotations[clusterv1.PausedAnnotation]
	switch {
	case cluster.Spec.Paused != nil && *cluster.Spec.Paused:
		return "spec.paused of Cluster " + cluster.Name + " is true", ""
	case annotated:
		return "annotation " + clusterv1.PausedAnnotation + " is set", ""
	case after.Spec.Paused != nil && *after.Spec.Paused:
		return "", "spec.paused is true"
	case after.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType:
		return "", "strategy OnDelete: a machine is replaced when a user deletes it"
	}
	return "", ""
}

func (v *verdict) capiNotes(after *clusterv1.MachineDeployment, results map[string]mdutil.UpToDateResult, leaving int) {
	if leaving > 0 {
		var because []string
		inPlace := false
		for _, r := range results {
			because = append(because, r.LogMessages...)
			inPlace = inPlace || r.EligibleForInPlaceUpdate
		}
		slices.Sort(because)
		v.Notes = append(v.Notes, slices.Compact(because)...)
		if inPlace {
			v.Notes = append(v.Notes, "a runtime extension for updates in place may keep the VMs: Cluster API asks it then, "+
				"which is not known before")
		}
	}
	if _, owned := after.Labels[clusterv1.ClusterTopologyOwnedLabel]; owned {
		v.Notes = append(v.Notes, fmt.Sprintf("the topology of Cluster %s owns the object and may take the change "+
			"back: change the Cluster", after.Spec.ClusterName))
	}
	if v.Rollout.Strategy == "" {
		v.Rollout.Strategy = string(clusterv1.RollingUpdateMachineDeploymentStrategyType)
	}
}

// capiClass judges the class that the MCMMachineTemplate of new machines names.
func (v *verdict) capiClass(ctx context.Context, after *clusterv1.MachineDeployment) {
	ref := after.Spec.Template.Spec.InfrastructureRef
	if ref.Kind != "MCMMachineTemplate" {
		return
	}
	key := client.ObjectKey{Namespace: after.Namespace, Name: ref.Name}
	template := v.planner.machines[key]
	if template == nil {
		template = &infrav1.MCMMachineTemplate{}
		err := v.api.Get(ctx, key, template)
		if apierrors.IsNotFound(err) {
			v.block(ref.Kind, ref.Name, notThere)
			return
		}
		if err != nil {
			v.unread("MCMMachineTemplate "+ref.Name, err)
			return
		}
	}
	spec := template.Spec.Template.Spec
	classes := []string{spec.MachineClassRef.Name}
	for _, r := range spec.FallbackClassRefs {
		classes = append(classes, r.Name)
	}
	v.usable(ctx, classes[0])
	v.capacity(classes)
}

// mcmTemplate tells who names a template.
func (v *verdict) mcmTemplate() {
	v.Rule = ruleMCMTemplate
	v.settle()
	var users []string
	for i := range v.ClusterDeployments {
		if v.ClusterDeployments[i].Spec.Template.Spec.InfrastructureRef.Name == v.Object.Name {
			users = append(users, "MachineDeployment/"+v.ClusterDeployments[i].Name)
		}
	}
	if len(users) > 0 {
		v.Notes = append(v.Notes, "used by "+strings.Join(users, ", "))
	}
}

// replicasOf is 1 where nothing is said, as Cluster API defaults it.
func replicasOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
