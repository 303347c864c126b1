package cloudtest

import (
	"slices"
	"time"
)

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
