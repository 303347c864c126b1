package joining

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A Rollout is how the machines of a MachineDeployment's new MachineSet have failed to join
// while it still has old ones. The zero Rollout has had no failure.
type Rollout struct {
	// Set is the name of the new MachineSet.
	Set string
	// Cycles is how often machines of the set failed to join, while none has joined.
	Cycles int
	// Counted is when the first machine of the last such cycle failed; zero for never.
	Counted time.Time
	// Paused is true once the rollout is paused, until a user resumes it, the template
	// changes or a machine of the set joins.
	Paused bool
}

// RolloutOf reads the record from the annotations of a MachineDeployment; one that cannot be
// read is zero.
func RolloutOf(d *machinev1.MachineDeployment) Rollout {
	fields := strings.Fields(d.Annotations[machinev1.FailedRolloutAnnotation])
	if len(fields) != 3 {
		return Rollout{}
	}
	cycles, err := strconv.Atoi(fields[1])
	counted, invalid := time.Parse(time.RFC3339, fields[2])
	if err != nil || invalid != nil || cycles < 0 {
		return Rollout{}
	}
	return Rollout{
		Set: fields[0], Cycles: cycles, Counted: counted,
		Paused: d.Annotations[machinev1.RolloutPausedAnnotation] == fields[0],
	}
}

// Annotate writes the record into the annotations of a MachineDeployment.
func (r Rollout) Annotate(d *machinev1.MachineDeployment) {
	delete(d.Annotations, machinev1.FailedRolloutAnnotation)
	delete(d.Annotations, machinev1.RolloutPausedAnnotation)
	if !r.Counted.IsZero() {
		machinev1.SetAnnotation(d, machinev1.FailedRolloutAnnotation,
			fmt.Sprintf("%s %d %s", r.Set, r.Cycles, r.Counted.UTC().Format(time.RFC3339)))
	}
	if r.Paused {
		machinev1.SetAnnotation(d, machinev1.RolloutPausedAnnotation, r.Set)
	}
}

// Next is the record after what happened to machines, those of the set of that name. What
// fails within one timeout of a counted failure belongs to its cycle. The rollout pauses
// after that many cycles without a machine that has joined. If a user has removed the pause,
// counting starts over with the machines that fail from now on.
func (r Rollout) Next(set string, timeout time.Duration, cycles int, machines []*machinev1.Machine) Rollout {
	if r.Set != set {
		r = Rollout{Set: set}
	}
	failed, joined := outcomes(machines, r.Counted.Add(timeout))
	if joined {
		return Rollout{}
	}
	if r.Cycles >= cycles && !r.Paused {
		r.Cycles = 0 // a user has resumed the rollout
	}
	if failed.Failed > 0 && !r.Paused {
		r.Cycles, r.Counted = r.Cycles+1, failed.First.Truncate(time.Second)
		r.Paused = r.Cycles >= cycles
	}
	return r
}

// outcomes returns which machines failed to join since then, and whether one has ever joined.
func outcomes(machines []*machinev1.Machine, since time.Time) (failed Joins, joined bool) {
	for _, m := range machines {
		c := Recorded(m)
		switch {
		case c == nil:
		case c.Status == corev1.ConditionTrue:
			joined = true
		case c.Reason == machinev1.ReasonFailedJoin && !c.LastTransitionTime.Time.Before(since):
			failed.failed(m.Name, c.LastTransitionTime.Time)
		}
	}
	return failed, joined
}
