package cloudtest

import (
	"bytes"
	"net/http"
	"slices"
	"time"
)

// Call is one request that passed the Proxy.
type Call struct {
	Op      string // what is asked for, e.g. RunInstances or "POST /servers"
	Mutates bool   // it changes the cloud
	Login   bool   // it opens a session; it counts as not mutating

	Method, URL string
	Header      http.Header
	Body        []byte

	// Status and Reply are what the driver saw; 0 and nil when it saw nothing.
	Status int
	Reply  []byte
}

// Reply is an answer in place of the cloud's.
type Reply struct {
	Status int
	Header map[string]string
	Body   string
}

// FaultKind is what a Fault does to a call.
type FaultKind uint8

// The kinds of faults.
const (
	DropRequest  FaultKind = iota // the cloud never sees it; the connection breaks
	DropResponse                  // the cloud does it; the answer is lost
	Reset                         // the cloud never sees it; the connection is reset
	Truncate                      // the cloud does it; half of the answer arrives
	Answer                        // the cloud never sees it; Fault.Reply is the answer
	Delay                         // the call goes on after Fault.Delay
	Hang                          // the cloud never sees it; nothing comes until the caller gives up
	Rewrite                       // the cloud does it; Fault.Rewrite makes the answer
	Late                          // the connection breaks; the cloud gets it at Injected.Deliver
)

// String is the kind in lower case.
func (k FaultKind) String() string {
	names := []string{"drop request", "drop response", "reset", "truncate", "answer", "delay", "hang", "rewrite", "late"}
	if int(k) < len(names) {
		return names[k]
	}
	return "fault"
}

// Forever is a number of Times without end.
const Forever = -1

// Fault is something that goes wrong with calls.
type Fault struct {
	Kind    FaultKind
	Match   func(c Call) bool // which calls; nil is all
	Nth     int               // it starts with the Nth matching call; 0 is the first
	Times   int               // how many calls it hits; 0 is one
	Reply   Reply             // of Answer
	Delay   time.Duration     // of Delay
	Rewrite func(c Call, status int, body []byte) (int, []byte)
	// Met is called, once a hit, before anything else happens. Nil is allowed.
	Met func(c Call)
}

// Mutating matches the calls that change the cloud.
func Mutating(c Call) bool { return c.Mutates }

// Op matches the calls of these operations.
func Op(ops ...string) func(Call) bool {
	return func(c Call) bool { return slices.Contains(ops, c.Op) }
}

// Injected is a Fault at work.
type Injected struct {
	proxy *Proxy
	fault Fault
	seen  int   // matching calls
	fired int   // calls that were hit
	first *Call // of them
	late  []lateCall
}

// lateCall is a request that the cloud has not got yet.
type lateCall struct {
	call *Call
	out  *http.Request
}

// Undo takes the fault back.
func (i *Injected) Undo() {
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	i.proxy.faults = slices.DeleteFunc(i.proxy.faults, func(x *Injected) bool { return x == i })
}

// Deliver sends the cloud the requests that a fault of kind Late holds, and drops the
// answers. It returns how many there were.
func (i *Injected) Deliver() int { return i.deliver(func(Call) bool { return true }) }

// deliver sends the requests that match.
func (i *Injected) deliver(match func(Call) bool) int {
	i.proxy.mu.Lock()
	var due, rest []lateCall
	for _, l := range i.late {
		if match(*l.call) {
			due = append(due, l)
		} else {
			rest = append(rest, l)
		}
	}
	i.late = rest
	i.proxy.mu.Unlock()
	for _, l := range due {
		if resp, err := i.proxy.forward(l.call, l.out); err == nil {
			_ = resp.Body.Close() // the caller has gone
		}
	}
	return len(due)
}

// Fired returns how many calls were hit.
func (i *Injected) Fired() int {
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	return i.fired
}

// repeats returns how many calls since the first that was hit are equal to it.
func (i *Injected) repeats() (n int) {
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	for _, c := range i.proxy.calls[slices.Index(i.proxy.calls, i.first)+1:] {
		if i.first != nil && c.Method == i.first.Method && c.URL == i.first.URL && bytes.Equal(c.Body, i.first.Body) {
			n++
		}
	}
	return n
}

// hits reports whether c is hit. The proxy is locked.
func (i *Injected) hits(c *Call) bool {
	if i.fault.Match != nil && !i.fault.Match(*c) {
		return false
	}
	i.seen++
	if i.seen < max(i.fault.Nth, 1) {
		return false
	}
	if i.fault.Times != Forever && i.fired >= max(i.fault.Times, 1) {
		return false
	}
	if i.fired++; i.fired == 1 {
		i.first = c
	}
	return true
}

// A Hider knows how objects appear on the wire, so that a Proxy can keep fresh
// ones out of reads of a cloud that has no eventual consistency of its own.
type Hider struct {
	// Made returns the ids of what c made, as its Reply says.
	Made func(c Call) []string
	// Without returns the answer to the read c as if ids did not exist.
	Without func(c Call, ids []string, status int, body []byte) (int, []byte)
}

// hiding is a Hider at work.
type hiding struct {
	hider Hider
	now   func() time.Time
	d     time.Duration
	made  map[string]time.Time
}

// Hide keeps what is made from now on out of all answers to calls that do not
// mutate, until d after it was made. A d of 0 or less takes everything back.
func (p *Proxy) Hide(h Hider, now func() time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hidden = nil
	if d > 0 {
		p.hidden = []*hiding{{hider: h, now: now, d: d, made: map[string]time.Time{}}}
	}
}

// hide returns the answer to c without what is hidden.
func (p *Proxy) hide(c Call, status int, body []byte) (int, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hidden {
		if c.Mutates {
			c.Status, c.Reply = status, body
			for _, id := range h.hider.Made(c) {
				h.made[id] = h.now()
			}
			continue
		}
		var ids []string
		for id, at := range h.made {
			if h.now().Sub(at) < h.d {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		if len(ids) > 0 {
			status, body = h.hider.Without(c, ids, status, body)
		}
	}
	return status, body
}
