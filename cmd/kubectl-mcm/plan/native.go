package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/forecast"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machinedeployment"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machineset"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// nativeDeployment plays the change of a MachineDeployment through.
func (v *verdict) nativeDeployment(ctx context.Context, before, after *machinev1.MachineDeployment) error {
	v.Rule = ruleTemplate
	if v.wrong(machinedeployment.Check(after)) {
		return nil
	}
	seen := forecast.Observed{Sets: v.Sets, Machines: v.space.Machines}
	out, err := forecast.OfDeployment(after, seen, v.now)
	if err != nil {
		v.refuse(ruleController, "Spec", err.Error())
		return nil
	}
	v.takes(&out, string(after.Spec.Strategy.Type))
	v.settle()
	if before != nil {
		v.alreadyUnderWay(before, seen)
	}
	if after.Spec.Paused {
		v.whenResumed(after, seen)
	}
	if v.makes() {
		first := after.Spec.Template.Spec.Class.Name
		v.usable(ctx, first)
		v.capacity(append([]string{first}, machinev1.FallbackClasses(after, first)...))
	}
	v.estimate(explain.Native)
	v.drain(ctx)
	return nil
}

// wrong refuses the change if the controller does, and notes what it ignores.
func (v *verdict) wrong(problems []cloud.Problem) (refused bool) {
	for _, p := range problems {
		if p.Severity == cloud.Warning {
			v.Notes = append(v.Notes, p.Field+" "+p.Message)
			continue
		}
		v.refuse(ruleController, "Spec", p.Field+" "+p.Message)
		refused = true
	}
	return refused
}

// takes takes over what a forecast says.
func (v *verdict) takes(out *forecast.Outcome, strategy string) {
	v.Machines = &Machines{
		Present: out.Present, Created: out.Created, Deleted: len(out.Deleted) + out.Discarded, Replaced: out.Replaced(),
		Updated: len(out.Updated), Synced: len(out.Synced), Drained: append(slices.Clone(out.Deleted), out.Updated...),
	}
	v.Rollout = &Rollout{
		Strategy: strategy, MaxSurge: out.Surge, MaxUnavailable: out.Unavailable, Rounds: out.Rounds, Waits: out.Waits,
	}
}

// alreadyUnderWay notes what happens without the change, too.
func (v *verdict) alreadyUnderWay(before *machinev1.MachineDeployment, seen forecast.Observed) {
	now, err := forecast.OfDeployment(before, seen, v.now)
	if err != nil || now.Created == 0 && len(now.Deleted) == 0 && len(now.Updated) == 0 {
		return
	}
	v.Notes = append(v.Notes, fmt.Sprintf("without the change, too, the controllers create %s and delete %s: the "+
		"pool is not at rest", count(now.Created, "machine"), count(len(now.Deleted), "machine")))
}

// whenResumed notes what a paused pool waits with.
func (v *verdict) whenResumed(after *machinev1.MachineDeployment, seen forecast.Observed) {
	resumed := after.DeepCopy()
	resumed.Spec.Paused = false
	out, err := forecast.OfDeployment(resumed, seen, v.now)
	if err != nil || out.Replaced() == 0 && len(out.Updated) == 0 {
		return
	}
	n := out.Replaced()
	later := &Machines{Created: n, Deleted: n, Replaced: n, Updated: len(out.Updated)}
	v.Notes = append(v.Notes, fmt.Sprintf("once spec.paused is false: %s", later))
}

// nativeSet judges a MachineSet.
func (v *verdict) nativeSet(ctx context.Context, after *machinev1.MachineSet) error {
	v.Rule = ruleSet
	if v.wrong(machineset.Check(after)) {
		return nil
	}
	var d *machinev1.MachineDeployment
	for i := range v.Deployments {
		if metav1.IsControlledBy(after, &v.Deployments[i]) {
			d = &v.Deployments[i]
		}
	}
	out := forecast.OfSet(after, d, forecast.Observed{Machines: v.space.Machines}, v.now)
	v.takes(&out, "")
	v.settle()
	if d != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("MachineDeployment %s controls the set and decides its replicas: change "+
			"that one", d.Name))
	}
	if v.makes() {
		first := after.Spec.Template.Spec.Class.Name
		v.usable(ctx, first)
		v.capacity([]string{first})
	}
	v.estimate(explain.Native)
	v.drain(ctx)
	return nil
}

// nativeMachine judges a Machine.
func (v *verdict) nativeMachine(ctx context.Context, before, after *machinev1.Machine) error {
	v.Rule = ruleMachine
	v.Machines = &Machines{Present: 1}
	if before == nil {
		v.Machines = &Machines{Created: 1}
		v.usable(ctx, after.Spec.Class.Name)
		v.capacity([]string{after.Spec.Class.Name})
	} else if before.Spec.ProviderID == "" && before.Spec.Class != after.Spec.Class {
		v.usable(ctx, after.Spec.Class.Name)
	}
	v.settle()
	return nil
}

// class judges a MachineClass: who uses it, and whether it is valid.
func (v *verdict) class(ctx context.Context, after *machinev1.MachineClass) error {
	v.Rule = ruleClass
	v.settle()
	v.usable(ctx, after.Name)
	users, machines := v.usersOf(after.Name), 0
	for i := range v.space.Machines {
		if v.space.Machines[i].Spec.Class.Name == after.Name {
			machines++
		}
	}
	if len(users) > 0 {
		v.Notes = append(v.Notes, "used by "+strings.Join(users, ", "))
	}
	if machines > 0 && v.Action != Nothing {
		v.Notes = append(v.Notes, fmt.Sprintf("%s of it keep what they were made with: to replace them, copy the "+
			"class under another name, and name that one in the pool", count(machines, "machine")))
	}
	return nil
}

// usersOf returns the native pools that name a class.
func (s *space) usersOf(class string) []string {
	var users []string
	for i := range s.Deployments {
		d := &s.Deployments[i]
		first := d.Spec.Template.Spec.Class.Name
		if slices.Contains(append([]string{first}, machinev1.FallbackClasses(d, first)...), class) {
			users = append(users, "MachineDeployment/"+d.Name)
		}
	}
	for i := range s.Sets {
		if set := &s.Sets[i]; metav1.GetControllerOf(set) == nil && set.Spec.Template.Spec.Class.Name == class {
			users = append(users, "MachineSet/"+set.Name)
		}
	}
	slices.Sort(users)
	return users
}

// count is a number with its word.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
