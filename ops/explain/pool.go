package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// pool adds the steps of a MachineSet or MachineDeployment of either API.
func (c *chain) pool(o *Object) {
	text := count(o.Desired, "machine")
	if o.Class != "" {
		text += " from MachineClass " + o.Class
	}
	c.done(stepAsked, o, text, o.Created)
	if cluster := c.facts.named(KindCluster, o.Namespace, o.Cluster); cluster != nil && o.API == ClusterAPI {
		c.mustNot(cluster, conditionPaused)
	}
	c.mustNot(o, conditionHeld)
	if cond := o.condition(machinev1.ConditionSpecValid); cond != nil && cond.Status == metav1.ConditionFalse {
		c.lacks(stepSpec, o, *cond)
	}
	c.machines(o)
	c.stopped(o)
	if o.Kind == KindDeployment {
		c.rollout(o)
	}
}

// machines adds the step of the machines. What the worst of them lacks is what the pool
// lacks: a pool's own conditions only sum up.
func (c *chain) machines(o *Object) {
	if cond := o.condition(machinev1.ConditionReplicasReady); cond != nil && ofPoolItself(cond) {
		c.lacks(stepCount, o, *cond)
		return
	}
	found, waiting, healthy := c.facts.worst(o)
	ready := max(o.Ready, healthy) // the pool's own status may be behind that of its machines
	switch {
	case found != nil && (!found.beside || ready >= o.Desired):
		f := *found
		f.Message = fmt.Sprintf("%s; %s: %s", availableOf(ready, o.Desired, waiting), f.Object, cmp.Or(f.Message, f.Meaning))
		c.lacksFinding(stepCount, &f)
	case ready < o.Desired:
		c.short(o)
	default:
		c.done(stepCount, o, available(ready, o.Desired), time.Time{})
	}
}

func available(ready, desired int32) string {
	return fmt.Sprintf("%d of %s available", ready, count(desired, "machine"))
}

// availableOf counts the machines that lack something, too.
func availableOf(ready, desired int32, waiting int) string {
	if waiting == 0 {
		return available(ready, desired)
	}
	return fmt.Sprintf("%s, %d not", available(ready, desired), waiting)
}

func count(n int32, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ofPoolItself reports whether a condition is about the pool, not a sum of its machines'.
func ofPoolItself(c *Condition) bool {
	reasons := []string{machinev1.ReasonHeld, machinev1.ReasonFrozen, machinev1.ReasonOutage, machinev1.ReasonInvalidSpec}
	return c.Status == metav1.ConditionFalse && slices.Contains(reasons, c.Reason)
}

// short adds the step of a pool with too few machines, none of which lacks anything.
func (c *chain) short(o *Object) {
	for _, kind := range []string{string(machinev1.MachineSetReplicaFailure), machinev1.ConditionReplicasReady} {
		cond := o.condition(kind)
		failure := kind == string(machinev1.MachineSetReplicaFailure)
		if cond != nil && (cond.Status == metav1.ConditionTrue) == failure {
			c.lacks(stepCount, o, *cond)
			return
		}
	}
	c.lacks(stepCount, o, Condition{
		Type: machinev1.ConditionReplicasReady, Reason: machinev1.ReasonScalingUp,
		Message: available(o.Ready, o.Desired),
	})
}

// stopped adds a step where the pool makes nothing any more: it is frozen or paused.
func (c *chain) stopped(o *Object) {
	c.mustNot(o, conditionFrozen)
	paused := o.condition(conditionPaused)
	if paused != nil && paused.Status == metav1.ConditionTrue {
		c.lacks(stepHold, o, c.facts.pauseOf(o, *paused))
	}
}

// rollout adds the step of machines with the newest template.
func (c *chain) rollout(o *Object) {
	stuck := o.condition(string(machinev1.MachineDeploymentProgressing))
	switch {
	case o.Updated >= o.Desired:
		c.done(stepRollout, o, "all machines have the newest template", time.Time{})
	case stuck != nil && stuck.Reason == machinev1.ReasonProgressDeadlineExceeded:
		c.lacks(stepRollout, o, *stuck)
	default:
		c.lacks(stepRollout, o, Condition{
			Type: stepRollout, Reason: reasonNotRolledOut,
			Message: fmt.Sprintf("%d of %s with the newest template", o.Updated, count(o.Desired, "machine")),
		})
	}
}

// worst is the finding about the machines of a pool that needs attention most, nil if there is
// none, how many machines wait for something, and how many do not.
func (f *Facts) worst(o *Object) (worst *Finding, waiting int, healthy int32) {
	for _, m := range f.machinesOf(o) {
		found := f.Why(m).Missing
		if found == nil || found.beside {
			healthy++
		} else {
			waiting++
		}
		if found == nil {
			continue
		}
		if worst == nil || rank(found) < rank(worst) {
			worst = found
		}
	}
	return worst, waiting, healthy
}

// rank orders findings: those that need a person, then those that wait for something outside.
func rank(f *Finding) int {
	switch {
	case f.beside:
		return 3
	case f.NeedsPerson:
		return 0
	case f.Concern == Progress || f.Concern == Order:
		return 2
	}
	return 1
}

// machinesOf are the Machines below a MachineSet or MachineDeployment.
func (f *Facts) machinesOf(o *Object) []*Object {
	var found []*Object
	for _, child := range f.children(o) {
		switch child.Kind {
		case KindMachine:
			found = append(found, child)
		case KindSet:
			found = append(found, f.machinesOf(child)...)
		}
	}
	return found
}

// cluster adds the steps of a Cluster: what comes before machines, then its pools.
func (c *chain) cluster(o *Object) {
	c.done(stepAsked, o, "Cluster "+o.Name, o.Created)
	c.mustNot(o, conditionPaused)
	c.clusterReady(o)
	for _, pool := range c.facts.Objects {
		if !c.facts.inCluster(pool, o) {
			continue
		}
		name, text := "pool "+pool.Name, available(pool.Ready, pool.Desired)
		if pool.Kind == KindMachine {
			name, text = "machine "+pool.Name, pool.Phase
		}
		if found := c.facts.Why(pool).Missing; found != nil {
			c.lacksFinding(name, found)
			continue
		}
		c.done(name, pool, text, time.Time{})
	}
}

// inCluster reports whether o is a MachineDeployment of a Cluster, or a Machine without a set.
func (f *Facts) inCluster(o, cluster *Object) bool {
	if o.API != ClusterAPI || o.Cluster != cluster.Name || o.Namespace != cluster.Namespace {
		return false
	}
	return o.Kind == KindDeployment || o.Kind == KindMachine && (f.owner(o) == nil || f.owner(o).Kind != KindSet)
}

// Version of what kubectl mcm prints as JSON or YAML. Fields are added, never renamed.
const Version = "cli." + machinev1.OurPrefix + "v1alpha1"

// Explanation is why an object is as it is.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	Object          Ref          `json:"object"`
	API             API          `json:"api"`
	Phase           string       `json:"phase,omitempty"`
	Created         *metav1.Time `json:"created,omitempty"`
	Steps           []Step       `json:"steps"`
	// Missing is the first thing that is missing; nil if nothing is.
	Missing *Finding `json:"missing,omitempty"`
	// Consoles are what the consoles of machines said that did not join, the newest first: of a
	// machine its own or those of its pool before it.
	Consoles []Console `json:"consoles,omitempty"`
	// Unread is what could not be read, so that it is not considered.
	Unread []string `json:"unread,omitempty"`
}

// Why explains an object of either API.
func (f *Facts) Why(o *Object) Explanation {
	c := &chain{facts: f}
	c.of(o)
	out := Explanation{
		TypeMeta: metav1.TypeMeta{APIVersion: Version, Kind: "Explanation"}, Object: o.Ref, API: o.API, Phase: f.status(o),
		Created: at(o.Created), Steps: c.steps, Unread: f.Unread,
	}
	if missing := cmp.Or(c.missing(), c.first(true)); missing != nil {
		out.Missing, out.Consoles = missing.finding, f.consoles(o)
	}
	return out
}

// of adds the steps of an object. An MCMMachine is explained as a part of its Machine.
func (c *chain) of(o *Object) {
	owner := c.facts.owner(o)
	switch o.Kind {
	case KindMachine:
		c.machine(o)
	case KindSet, KindDeployment:
		c.pool(o)
	case KindCluster:
		c.cluster(o)
	case KindMCMMachine:
		if owner != nil && owner.Kind == KindMachine {
			c.machine(owner)
			return
		}
		fallthrough
	default:
		c.done(stepAsked, o, o.Kind+" "+o.Name, o.Created)
		c.mustNot(o, conditionPaused)
		c.must("ready", o, clusterv1.ReadyCondition)
	}
}

// machine adds the steps of a Machine of either API.
func (c *chain) machine(o *Object) {
	if o.API == Native {
		c.nativeMachine(o)
		return
	}
	c.capiMachine(o)
}

// status is the phase of an object, for people.
func (f *Facts) status(o *Object) string {
	switch {
	case o.Deleting != nil:
		return "Terminating"
	case o.Phase != "":
		return o.Phase
	case o.Kind == KindMachine:
		return "Creating"
	}
	return ""
}
