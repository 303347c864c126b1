package apiserver

import (
	"cmp"
	"time"
)

// shortestWait is the wait where the options have 0, with which MCM never waits.
const shortestWait = time.Second

// State is what the checks have shown so far. The zero State is that of a manager
// before its first check.
type State struct {
	// DownSince is the start of the first failed check since the last one that
	// succeeded; zero while the API servers answer.
	DownSince time.Time
	// Frozen is true from when they have not answered for longer than the timeout until
	// the machines have been reset.
	Frozen bool
}

// next returns the state after a check at that time. A success resets the time of the
// first failure, so that single failures never add up. It does not reset Frozen; thaw
// does.
func (s State) next(down bool, at time.Time, timeout time.Duration) State {
	switch {
	case !down:
		s.DownSince = time.Time{}
	case s.DownSince.IsZero():
		s.DownSince = at
		s.Frozen = s.Frozen || timeout == 0
	case at.Sub(s.DownSince) > timeout:
		s.Frozen = true
	}
	return s
}

// thaws reports whether the outage is over and the machines have to be reset.
func (s State) thaws() bool { return s.Frozen && s.DownSince.IsZero() }

// wait returns the time until the next check: short while an API server is unreachable
// or the manager is frozen. Source: MCM machine_safety.go.
func (s State) wait(o Options) time.Duration {
	next := o.Period
	if s.Frozen || !s.DownSince.IsZero() {
		next = o.Timeout / 5
	}
	return cmp.Or(next, shortestWait)
}
