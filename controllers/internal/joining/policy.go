package joining

import "time"

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
