package apiserver

import (
	"cmp"
	"time"
)

// shortestWait is the wait where the options have 0, with which MCM never waits.
const shortestWait = time.Second

// outageState is what the checks have shown so far. The zero value is that of a manager
// before its first check.
type outageState struct {
	// downSince is the start of the first failed check since the last one that
	// succeeded; zero while the API servers answer.
	downSince time.Time
	// frozen is true from when they have not answered for longer than the timeout until
	// the machines have been reset.
	frozen bool
}

// next returns the state after a check at that time. A success resets the time of the
// first failure, so that single failures never add up. It does not reset frozen; thaw
// does.
func (s outageState) next(down bool, at time.Time, timeout time.Duration) outageState {
	switch {
	case !down:
		s.downSince = time.Time{}
	case s.downSince.IsZero():
		s.downSince = at
		s.frozen = s.frozen || timeout == 0
	case at.Sub(s.downSince) > timeout:
		s.frozen = true
	}
	return s
}

// thaws reports whether the outage is over and the machines have to be reset.
func (s outageState) thaws() bool { return s.frozen && s.downSince.IsZero() }

// wait returns the time until the next check: short while an API server is unreachable
// or the manager is frozen. Source: MCM machine_safety.go.
func (s outageState) wait(o Options) time.Duration {
	next := o.Period
	if s.frozen || !s.downSince.IsZero() {
		next = o.Timeout / 5
	}
	return cmp.Or(next, shortestWait)
}
