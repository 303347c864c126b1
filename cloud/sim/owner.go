package sim

import (
	"maps"
	"slices"
	"time"
)

// What follows is what the cloud's owner can do and see; it is neither counted
// nor checked, and no fault strikes it.

// byCloud is who ended what no account did.
const byCloud = "cloud"

// ConsoleLine is one line on a VM's console.
type ConsoleLine struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// consoleLines is how many lines of a console are kept.
const consoleLines = 100

// Ledger returns every resource that was ever made, in the order of making.
func (c *Cloud) Ledger() []Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewAll(c.ledger)
}

// Live returns every resource that is not gone, in the order of making.
func (c *Cloud) Live() []Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.clock.Now())
	return c.viewAll(c.live)
}

// VMs returns every VM that is not gone, in the order of making.
func (c *Cloud) VMs() []Resource {
	return slices.DeleteFunc(c.Live(), func(r Resource) bool { return r.VM == nil })
}

func (c *Cloud) viewAll(all []*Resource) []Resource {
	now := c.clock.Now()
	out := []Resource{}
	for _, r := range all {
		out = append(out, c.view(r, now))
	}
	return out
}

// Look returns a resource, also when it is gone, and a VM's user data.
func (c *Cloud) Look(id string) (r Resource, userData []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.sweep(now)
	found := c.all[id]
	if found == nil {
		return Resource{}, nil, false
	}
	return c.view(found, now), slices.Clone(found.userData), true
}

// Terminate makes a VM go as if its user had deleted it; reason is the cloud's
// word for why. It returns false if there is no such VM, or it is going.
func (c *Cloud) Terminate(id, reason string) bool {
	return c.act(id, func(r *Resource, now time.Time) {
		r.VM.Reason, r.VM.Message = reason, ""
		c.end(r, byCloud, now, time.Duration(c.settings.DeleteTime))
		c.sweep(now)
	})
}

// Reclaim makes a spot VM go because the cloud wants it back.
func (c *Cloud) Reclaim(id string) bool { return c.Terminate(id, "SpotReclaimed") }

// Stop makes a VM stop; it stays stopped until Start.
func (c *Cloud) Stop(id string) bool {
	return c.act(id, func(r *Resource, now time.Time) {
		r.VM.Stopped, r.VM.Reason = true, "Stopped"
		c.changed(r, now)
	})
}

// Start makes a stopped VM boot again.
func (c *Cloud) Start(id string) bool {
	return c.act(id, func(r *Resource, now time.Time) {
		if !r.VM.Stopped {
			return
		}
		r.VM.Stopped, r.VM.Reason, r.VM.Running = false, "", now.Add(time.Duration(c.settings.BootTime))
		c.changed(r, now)
	})
}

// Fail makes a VM unable to run for good.
func (c *Cloud) Fail(id, reason, message string) bool {
	return c.act(id, func(r *Resource, now time.Time) {
		r.VM.Failed, r.VM.Reason, r.VM.Message = true, reason, message
		c.changed(r, now)
	})
}

// act does something to a VM that is neither gone nor going.
func (c *Cloud) act(id string, do func(r *Resource, now time.Time)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.sweep(now)
	r := c.all[id]
	if r == nil || r.VM == nil || !r.Deleting.IsZero() {
		return false
	}
	do(r, now)
	return true
}

// Backdate makes a resource look as if it had been made that much earlier.
func (c *Cloud) Backdate(id string, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.all[id]; r != nil {
		r.Made = r.Made.Add(-by)
		c.changed(r, c.clock.Now())
	}
}

// Print writes a line onto a VM's console.
func (c *Cloud) Print(id, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[id] == nil {
		return
	}
	lines := append(c.lines[id], ConsoleLine{c.clock.Now(), text})
	if len(lines) > consoleLines {
		lines = slices.Clone(lines[len(lines)-consoleLines:])
	}
	c.lines[id] = lines
}

// Console returns what a VM, gone or not, has written to its console.
func (c *Cloud) Console(id string) []ConsoleLine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]ConsoleLine{}, c.lines[id]...)
}

// Tick lets go what is gone by now. It is only needed to learn of it through
// OnChange at the time; every other call does the same.
func (c *Cloud) Tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.clock.Now())
}

// clone returns a copy that shares nothing with s.
func (s *Settings) clone() Settings {
	out := *s
	out.Latency = maps.Clone(s.Latency)
	out.Zones = slices.Clone(s.Zones)
	for i := range out.Zones {
		out.Zones[i].Capacity = maps.Clone(out.Zones[i].Capacity)
	}
	out.InstanceTypes, out.Images, out.Networks = slices.Clone(
		s.InstanceTypes), slices.Clone(s.Images), slices.Clone(s.Networks)
	out.Accounts = slices.Clone(s.Accounts)
	for i := range out.Accounts {
		out.Accounts[i].SecretKeys = slices.Clone(out.Accounts[i].SecretKeys)
	}
	return out
}
