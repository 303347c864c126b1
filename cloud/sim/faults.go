package sim

import "slices"

// The ways in which a fault shows.
const (
	FaultBefore   = "before"   // an error, nothing has happened
	FaultAfter    = "after"    // an error, although it has happened
	FaultDrop     = "drop"     // no answer, nothing has happened
	FaultLost     = "lost"     // no answer, although it has happened
	FaultThrottle = "throttle" // too many calls, nothing has happened
	FaultHang     = "hang"     // no answer for as long as the caller waits, nothing has happened
	FaultBoot     = "boot"     // only with CreateVM: the VM is made and fails to boot
)

// Fault is something that goes wrong on purpose.
type Fault struct {
	ID      int    `json:"id"`                // given by the Cloud
	Op      string `json:"op"`                // operation; "*" is any
	Mode    string `json:"mode"`              // one of the Fault constants; empty is before
	Account string `json:"account,omitempty"` // whose calls; empty is everybody's
	Name    string `json:"name,omitempty"`    // only for resources of that name
	Zone    string `json:"zone,omitempty"`    // only in that zone

	Skip        int     `json:"skip,omitempty"`        // how many matching calls pass first
	Count       int     `json:"count,omitempty"`       // how many calls fail; 0 is all
	Probability float64 `json:"probability,omitempty"` // that a matching call fails; 0 is 1

	Code       string   `json:"code,omitempty"`       // of the error; empty is InternalError
	Message    string   `json:"message,omitempty"`    // of the error
	RetryAfter Duration `json:"retryAfter,omitempty"` // of the error
}

// subject is what a call is about, as far as faults look at it.
type subject struct {
	name, zone string
	names      []string // of a list of several; name is empty then
}

// isNamed reports whether a call is about a resource of that name.
func (s subject) isNamed(name string) bool { return s.name == name || slices.Contains(s.names, name) }

// AddFault makes calls fail from now on and returns what takes that back.
func (c *Cloud) AddFault(f Fault) (undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faultSeq++
	f.ID = c.faultSeq
	if f.Mode == "" {
		f.Mode = FaultBefore
	}
	c.faults = append(c.faults, &f)
	return func() { c.RemoveFault(f.ID) }
}

// RemoveFault takes a fault back; 0 takes all back. Without such a fault it
// does nothing.
func (c *Cloud) RemoveFault(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var kept []*Fault
	for _, f := range c.faults {
		if id != 0 && f.ID != id {
			kept = append(kept, f)
		}
	}
	c.faults = kept
}

// Faults returns the faults that are still to come.
func (c *Cloud) Faults() []Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []Fault{}
	for _, f := range c.faults {
		out = append(out, *f)
	}
	return out
}

// takeFault returns the first fault that strikes this call and counts it down;
// nil if there is none.
func (c *Cloud) takeFault(op, account string, about subject) *Fault {
	for i, f := range c.faults {
		if !f.matches(op, account, about) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Probability > 0 && c.rng.Float64() >= f.Probability {
			continue
		}
		struck := *f
		if f.Count > 0 {
			if f.Count--; f.Count == 0 {
				c.faults = append(c.faults[:i:i], c.faults[i+1:]...)
			}
		}
		return &struck
	}
	return nil
}

func (f *Fault) matches(op, account string, about subject) bool {
	return (f.Op == "*" || f.Op == op) && (f.Mode != FaultBoot || op == OpCreateVM) &&
		(f.Account == "" || f.Account == account) && (f.Name == "" || about.isNamed(f.Name)) &&
		(f.Zone == "" || f.Zone == about.zone)
}

// err is what the caller sees of the fault; nil while it does not show.
func (f *Fault) err() *APIError {
	switch f.Mode {
	case FaultBoot:
		return nil
	case FaultDrop, FaultLost:
		return &APIError{Code: "NoAnswer", Message: "the answer is lost"}
	case FaultHang:
		return &APIError{Code: "NoAnswer", Message: "no answer arrives", hang: true}
	}
	code, message := f.Code, f.Message
	if code == "" {
		code = CodeInternalError
		if f.Mode == FaultThrottle {
			code = CodeRequestLimitExceeded
		}
	}
	if message == "" {
		message = "injected"
	}
	e := refuse(code, "%s", message)
	e.RetryAfter, e.Zone = f.RetryAfter, f.Zone
	return e
}

// afterEffect reports whether the call has its effect all the same.
func (f *Fault) afterEffect() bool {
	return f.Mode == FaultAfter || f.Mode == FaultLost || f.Mode == FaultBoot
}
