package joining

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A State is what a MachineDeployment knows of how its machines have joined. The zero
// State is that of one whose machines always have.
type State struct {
	// Timeout is the one of new machines; 0 for that of the policy.
	Timeout time.Duration
	// Adapted is when Timeout was last adapted; zero if it never was.
	Adapted time.Time
	// Cycles is how often machines were replaced since, because they did not join.
	Cycles int
	// Counted is when the first machine of the last such cycle failed; zero for never.
	Counted time.Time
}

// StateOf reads the state from the annotations of a MachineDeployment; what cannot be
// read is zero.
func StateOf(d *machinev1.MachineDeployment) State {
	var s State
	timeout, _ := time.ParseDuration(d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation])
	cycles, _ := strconv.Atoi(d.Annotations[machinev1.ReplaceCycleCountAnnotation])
	s.Timeout, s.Cycles = max(timeout, 0), max(cycles, 0)
	s.Adapted, _ = time.Parse(time.RFC3339, d.Annotations[machinev1.EffectiveCreationTimeoutAppliedAnnotation])
	s.Counted, _ = time.Parse(time.RFC3339, d.Annotations[machinev1.ReplaceCycleCountAppliedAnnotation])
	return s
}

// Annotate writes the state into the annotations of a MachineDeployment.
func (s State) Annotate(d *machinev1.MachineDeployment) {
	set := func(key, value string, zero bool) {
		if zero {
			delete(d.Annotations, key)
		} else {
			machinev1.SetAnnotation(d, key, value)
		}
	}
	set(machinev1.EffectiveCreationTimeoutAnnotation, s.Timeout.String(), s.Timeout == 0)
	set(machinev1.EffectiveCreationTimeoutAppliedAnnotation, s.Adapted.UTC().Format(time.RFC3339), s.Adapted.IsZero())
	set(machinev1.AppliedCreationTimeoutAnnotation, s.applied(), s.Timeout == 0 || s.Adapted.IsZero())
	set(machinev1.ReplaceCycleCountAnnotation, strconv.Itoa(s.Cycles), s.Cycles == 0)
	set(machinev1.ReplaceCycleCountAppliedAnnotation, s.Counted.UTC().Format(time.RFC3339), s.Counted.IsZero())
}

// applied is the timeout and when it was adapted, by which a user's is recognized.
func (s State) applied() string {
	return s.Timeout.String() + " " + s.Adapted.UTC().Format(time.RFC3339)
}

// Foreign reports whether a user set the timeout of d, so that it stays as it is: it has
// no time of adaptation, or is not what this manager adapted it to. If MCM has adapted it
// since, that time is another one.
func Foreign(d *machinev1.MachineDeployment) bool {
	timeout, set := d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation]
	if !set || StateOf(d).Adapted.IsZero() {
		return set
	}
	at := d.Annotations[machinev1.EffectiveCreationTimeoutAppliedAnnotation]
	applied, ours := strings.CutSuffix(d.Annotations[machinev1.AppliedCreationTimeoutAnnotation], " "+at)
	return ours && applied != timeout
}

// Forget removes all annotations of the state but the timeout, which is a user's. It
// reports whether there were any.
func Forget(d *machinev1.MachineDeployment) bool {
	before := len(d.Annotations)
	for _, key := range []string{
		machinev1.EffectiveCreationTimeoutAppliedAnnotation, machinev1.AppliedCreationTimeoutAnnotation,
		machinev1.ReplaceCycleCountAnnotation, machinev1.ReplaceCycleCountAppliedAnnotation,
	} {
		delete(d.Annotations, key)
	}
	return len(d.Annotations) < before
}

// Grown reports whether new machines get more time than the policy gives them.
func (s State) Grown() bool { return s.Timeout != 0 }

// Effective is the creation timeout of new machines.
func (s State) Effective(p Policy) time.Duration { return cmp.Or(s.Timeout, p.Timeout) }

// Next is the state that follows from what happened to machines since s.Counted. A timeout
// that is not longer than the policy's has not grown: a user has raised that meanwhile.
func (s State) Next(p Policy, j Joins, now time.Time) State {
	now = now.Truncate(time.Second) // annotations have no fractions
	switch {
	case p.Off(), s.Grown() && s.Timeout <= p.Timeout, s.Grown() && j.Failed == 0 && s.over(p, now):
		return State{Counted: s.Counted}
	case j.Failed > 0:
		return s.counted(p, j, now)
	case j.Failed == 0 && j.Joined >= enoughJoined && s.reducible(now):
		return s.reduced(p, j, now)
	}
	return s
}

// counted is the state after one more cycle in which machines failed to join.
func (s State) counted(p Policy, j Joins, now time.Time) State {
	if s.over(p, j.First) {
		s.Cycles = 0 // so long ago that this failure is the first one
	}
	s.Cycles, s.Counted = s.Cycles+1, j.First.Truncate(time.Second)
	if s.Cycles >= p.Cycles {
		timeout := s.Effective(p)
		s.Cycles, s.Timeout, s.Adapted = 0, max(timeout, min(p.grow(timeout), p.Longest())), now
	}
	return s
}

// Wait is how long it takes until the policy's timeout is restored, or reduced, although
// nothing happens; 0 if it is not grown.
func (s State) Wait(p Policy, j Joins, now time.Time) time.Duration {
	switch {
	case p.Off() || !s.Grown():
		return 0
	case j.Failed == 0 && j.Joined >= enoughJoined && !s.reducible(now):
		return s.Adapted.Add(s.Timeout).Sub(now)
	}
	return max(s.end(p).Sub(now), 0)
}

// end is when what has been counted does not matter any more. It is twice the time that
// a machine has at most: the failure of one that is being created is not known before.
func (s State) end(p Policy) time.Time {
	last := s.Adapted
	if s.Counted.After(last) {
		last = s.Counted
	}
	return last.Add(2 * p.Longest())
}

func (s State) over(p Policy, now time.Time) bool { return !now.Before(s.end(p)) }

// reducible reports whether the timeout is in use for as long as a machine may take.
func (s State) reducible(now time.Time) bool {
	return s.Grown() && !now.Before(s.Adapted.Add(s.Timeout))
}

// reduced is the state with the time that machines took to join, and never less than the
// policy's timeout.
func (s State) reduced(p Policy, j Joins, now time.Time) State {
	timeout := max(j.Longest.Round(time.Second), p.Timeout)
	switch {
	case timeout == p.Timeout:
		return State{Counted: s.Counted}
	case timeout < s.Timeout:
		s.Timeout, s.Adapted = timeout, now
	}
	return s
}

// Record returns the conditions of a Machine with c as its condition MachineJoined, which
// goes last. The given slice is not changed.
func Record(conditions []corev1.NodeCondition, c corev1.NodeCondition) []corev1.NodeCondition {
	c.Type = machinev1.MachineJoined
	return append(OfNode(conditions), c)
}

// Recorded returns the condition MachineJoined of a Machine; nil if it has none yet.
func Recorded(m *machinev1.Machine) *corev1.NodeCondition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == machinev1.MachineJoined {
			return &m.Status.Conditions[i]
		}
	}
	return nil
}

// FailedToJoin reports whether a Machine was given up because it did not join in time.
func FailedToJoin(m *machinev1.Machine) bool {
	c := Recorded(m)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == machinev1.ReasonFailedJoin
}

// OfNode returns a copy of the conditions of a Machine without MachineJoined: those of its
// node, which are none until it is first seen.
func OfNode(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c corev1.NodeCondition) bool {
		return c.Type == machinev1.MachineJoined
	})
}

// Joins are the machines that joined, or failed to, since some time.
type Joins struct {
	Failed, Joined int
	// First is when the first one failed; zero if none did.
	First time.Time
	// Longest is how long those that joined took at most.
	Longest time.Duration
	// Example is the name of that one; "" if none failed.
	Example string
}

// Joins counts the machines that joined since a failure was last counted, and those that
// failed to in a later cycle. What fails within one timeout of a counted failure belongs to
// its cycle and is never counted, even if it stays.
func (s State) Joins(p Policy, machines []*machinev1.Machine) Joins {
	var j Joins
	next := s.Counted.Add(s.Effective(p))
	for _, m := range machines {
		c := Recorded(m)
		if c == nil {
			continue
		}
		at := c.LastTransitionTime.Time
		switch {
		case c.Status == corev1.ConditionTrue && at.After(s.Counted):
			j.Joined++
			j.Longest = max(j.Longest, at.Sub(m.CreationTimestamp.Time))
		case c.Status == corev1.ConditionFalse && c.Reason == machinev1.ReasonFailedJoin && !at.Before(next):
			j.failed(m.Name, at)
		}
	}
	return j
}

func (j *Joins) failed(name string, at time.Time) {
	if j.Failed == 0 || at.Before(j.First) {
		j.First, j.Example = at, name
	}
	j.Failed++
}

const (
	// steps is how often a timeout grows at most.
	steps = 4
	// enoughJoined is how many machines have to join until a timeout is reduced.
	enoughJoined = 2
	// limit bounds timeouts, however large the percentage is.
	limit = 30 * 24 * time.Hour
)

// A Policy is how the creation timeout of a pool grows. The zero Policy is off.
type Policy struct {
	// Timeout is the one that the pool has while its machines join.
	Timeout time.Duration
	// GrowthPercent is by how much it grows in a step; 0 or less: it does not.
	GrowthPercent int
	// Cycles is in how many cycles machines have to fail to join until it grows; 0 or
	// less: it does not.
	Cycles int
}

// Off reports whether the timeout never grows.
func (p Policy) Off() bool { return p.GrowthPercent <= 0 || p.Cycles <= 0 || p.Timeout <= 0 }

// Longest is the timeout after the last step.
func (p Policy) Longest() time.Duration {
	longest := p.Timeout
	for range steps {
		longest = p.grow(longest)
	}
	return longest
}

// grow returns a timeout after one step, in whole seconds.
func (p Policy) grow(timeout time.Duration) time.Duration {
	grown := float64(timeout) * (1 + float64(p.GrowthPercent)/100)
	return max(timeout, time.Duration(min(grown, float64(limit))).Round(time.Second))
}
