package apiserver

import "time"

// State is what the checks have shown so far. The zero State is a manager that
// has not looked yet.
type State struct {
	// DownSince is the start of the first failed check since the last one that
	// succeeded; zero while the API servers answer.
	DownSince time.Time
	// Frozen is set once they have not answered for longer than the timeout, and
	// until what the outage did to machines has been undone.
	Frozen bool
}

// next is the state after a check at that time. Success forgets earlier
// failures, so that single ones, far apart, never add up. It leaves Frozen,
// which ends with thaw.
func (s State) next(down bool, at time.Time, timeout time.Duration) State {
	switch {
	case !down:
		s.DownSince = time.Time{}
	case s.DownSince.IsZero():
		s.DownSince = at
	case at.Sub(s.DownSince) > timeout:
		s.Frozen = true
	}
	return s
}

// thaws reports whether the outage is over and its traces have to go.
func (s State) thaws() bool { return s.Frozen && s.DownSince.IsZero() }

// wait is the time until the next check: seldom while all is well, often while
// something changes. Source: MCM machine_safety.go.
func (s State) wait(o Options) time.Duration {
	if s.Frozen || !s.DownSince.IsZero() {
		return o.Timeout / 5
	}
	return o.Period
}
