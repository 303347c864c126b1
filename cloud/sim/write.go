package sim

import (
	"maps"
	"math"
	"slices"
	"time"
)

// DeleteVM asks for a VM, and the disks and interfaces that go with it, to go.
// It returns the VM, deleting or gone; one that is deleting stays so.
func (c *Cloud) DeleteVM(who Login, region, id string) (Resource, error) {
	return call(c, who, OpDeleteVM, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r, err := c.lookup(a, KindVM, region, id)
		if err != nil {
			return Resource{}, err
		}
		if r.Deleting.IsZero() {
			r.VM.DeletedRegistered = slices.ContainsFunc(r.VM.Memberships, Membership.active)
		}
		c.end(r, a.ID, now, time.Duration(c.settings.DeleteTime))
		c.sweep(now)
		return c.view(r, now), nil
	})
}

// RebootVM makes a VM boot again, also one that is stopped. One that has failed cannot.
func (c *Cloud) RebootVM(who Login, region, id string) (Resource, error) {
	return call(c, who, OpRebootVM, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r, err := c.lookup(a, KindVM, region, id)
		if err != nil {
			return Resource{}, err
		}
		if state := r.stateAt(now); state != StateRunning && state != StateStopped && state != StatePending {
			return Resource{}, refuse(CodeIncorrectState, "VM %s is %s and cannot be rebooted", id, state)
		}
		r.VM.Stopped, r.VM.Reason = false, ""
		r.VM.Boots, r.VM.Running = r.VM.Boots+1, now.Add(time.Duration(c.settings.BootTime))
		c.changed(r, now)
		return c.view(r, now), nil
	})
}

// RegisterVM makes a load balancer send requests to a port of a VM, which has to run. A VM that
// is registered stays so.
func (c *Cloud) RegisterVM(who Login, region, id string, m Membership) (Resource, error) {
	return call(c, who, OpRegisterVM, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r, err := c.lookup(a, KindVM, region, id)
		if err == nil {
			err = c.mayJoin(r, m, now)
		}
		if err != nil {
			return Resource{}, err
		}
		at := slices.IndexFunc(r.VM.Memberships, m.same)
		if at >= 0 && r.VM.Memberships[at].active() {
			return c.view(r, now), nil
		}
		r.VM.Memberships = append(slices.DeleteFunc(r.VM.Memberships, m.same), Membership{
			LoadBalancer: m.LoadBalancer, Port: m.Port,
		})
		c.changed(r, now)
		return c.view(r, now), nil
	})
}

// mayJoin refuses a membership that a VM cannot have now.
func (c *Cloud) mayJoin(r *Resource, m Membership, now time.Time) *APIError {
	balancer, ok := c.settings.loadBalancer(r.Region, m.LoadBalancer)
	switch state := r.stateAt(now); {
	case !ok:
		return refuse(CodeInvalidLoadBalancer, "there is no load balancer %q", m.LoadBalancer)
	case m.Port < 1 || m.Port > math.MaxUint16:
		return refuse(CodeInvalidParameter, "port %d is not from 1 to 65535", m.Port)
	case state != StateRunning:
		return refuse(CodeIncorrectState, "VM %s is %s and has to be running", r.ID, state)
	case balancer.Members > 0 && !slices.ContainsFunc(r.VM.Memberships, m.same) &&
		c.members(m.LoadBalancer, now) >= balancer.Members:
		return refuse(CodeQuotaExceeded, "load balancer %s has %d VMs and takes no more", m.LoadBalancer, balancer.Members)
	}
	return nil
}

// DeregisterVM makes a load balancer send no new requests to a port of a VM. Until the
// load balancer's DrainTime has passed it keeps connections that are open.
func (c *Cloud) DeregisterVM(who Login, region, id string, m Membership) (Resource, error) {
	return call(c, who, OpDeregisterVM, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r, err := c.lookup(a, KindVM, region, id)
		if err != nil {
			return Resource{}, err
		}
		balancer, ok := c.settings.loadBalancer(region, m.LoadBalancer)
		if !ok {
			return Resource{}, refuse(CodeInvalidLoadBalancer, "there is no load balancer %q", m.LoadBalancer)
		}
		if at := slices.IndexFunc(r.VM.Memberships, m.same); at >= 0 && r.VM.Memberships[at].active() {
			r.VM.Memberships[at].Draining = now.Add(time.Duration(balancer.DrainTime))
			c.changed(r, now)
		}
		return c.view(r, now), nil
	})
}

// members is how many VMs a load balancer has.
func (c *Cloud) members(balancer string, now time.Time) int {
	count := 0
	for _, r := range c.live {
		if r.VM != nil && slices.ContainsFunc(r.VM.Memberships, func(m Membership) bool {
			return m.LoadBalancer == balancer && !m.drainedAt(now)
		}) {
			count++
		}
	}
	return count
}

// active reports whether the VM gets new requests.
func (m Membership) active() bool { return m.Draining.IsZero() }

// same reports whether both are the same place.
func (m Membership) same(other Membership) bool {
	return m.LoadBalancer == other.LoadBalancer && m.Port == other.Port
}

// drainedAt reports whether the VM has no connections of the load balancer any more.
func (m Membership) drainedAt(now time.Time) bool {
	return !m.Draining.IsZero() && !now.Before(m.Draining)
}

// SetForwarding lets a VM forward packets that are not addressed to it, or no
// longer. The VM has to run.
func (c *Cloud) SetForwarding(who Login, region, id string, on bool) (Resource, error) { //nolint:revive // what is set
	return call(c, who, OpSetForwarding, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r, err := c.lookup(a, KindVM, region, id)
		if err != nil {
			return Resource{}, err
		}
		if state := r.stateAt(now); state != StateRunning {
			return Resource{}, refuse(CodeIncorrectState, "VM %s is %s and has to be running", id, state)
		}
		if r.VM.Forwarding != on {
			r.VM.Forwarding = on
			c.changed(r, now)
		}
		return c.view(r, now), nil
	})
}

// SetTags adds tags to a resource of any kind, replaces those that it has under the same
// keys, and removes those whose value is nil.
func (c *Cloud) SetTags(who Login, region, id string, tags map[string]*string) (Resource, error) {
	return call(c, who, OpSetTags, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r := c.all[id]
		if r == nil || r.Account != a.ID || r.Region != region || r.goneAt(now) {
			return Resource{}, refuse(CodeNotFound, "there is no resource %s in region %s", id, region)
		}
		merged := maps.Clone(r.Tags)
		if merged == nil {
			merged = map[string]string{}
		}
		for key, value := range tags {
			if delete(merged, key); value != nil {
				merged[key] = *value
			}
		}
		c.retag(r, merged, now)
		return c.view(r, now), nil
	})
}

// retag replaces the tags of r.
func (c *Cloud) retag(r *Resource, tags map[string]string, now time.Time) {
	c.unname(r)
	r.Tags = tags
	c.byName[r.Name()] = sortedBySeq(append(c.byName[r.Name()], r))
	c.changed(r, now)
}

// AttachDisk attaches a loose disk to a VM; it does not go with the VM.
func (c *Cloud) AttachDisk(who Login, region, id, vm string) (Resource, error) {
	return call(c, who, OpAttachDisk, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		disk, err := c.lookup(a, KindDisk, region, id)
		if err != nil {
			return Resource{}, err
		}
		to, err := c.lookup(a, KindVM, region, vm)
		if err != nil {
			return Resource{}, err
		}
		if disk.Disk.VM == vm {
			return c.view(disk, now), nil
		}
		if disk.Disk.VM != "" || !disk.Deleting.IsZero() || !to.Deleting.IsZero() {
			return Resource{}, refuse(CodeIncorrectState, "disk %s or VM %s is in use", id, vm)
		}
		disk.Disk.VM, disk.Disk.DeleteWithVM = vm, false
		to.VM.Disks = append(to.VM.Disks, id)
		c.changed(disk, now)
		c.changed(to, now)
		return c.view(disk, now), nil
	})
}

// DetachDisk makes a disk loose.
func (c *Cloud) DetachDisk(who Login, region, id string) (Resource, error) {
	return call(c, who, OpDetachDisk, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		disk, err := c.lookup(a, KindDisk, region, id)
		if err != nil {
			return Resource{}, err
		}
		if vm := c.all[disk.Disk.VM]; vm != nil {
			vm.VM.Disks = slices.DeleteFunc(vm.VM.Disks, func(d string) bool { return d == id })
			disk.Disk.VM = ""
			c.changed(disk, now)
			c.changed(vm, now)
		}
		return c.view(disk, now), nil
	})
}

// DeleteDisk makes a loose disk go at once.
func (c *Cloud) DeleteDisk(who Login, region, id string) (Resource, error) {
	return call(c, who, OpDeleteDisk, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		return c.drop(a, KindDisk, region, id, now)
	})
}

// DeleteNIC makes an interface go at once, unless a VM has it.
func (c *Cloud) DeleteNIC(who Login, region, id string) (Resource, error) {
	return call(c, who, OpDeleteNIC, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		return c.drop(a, KindNIC, region, id, now)
	})
}

// drop makes a part go that no VM has.
func (c *Cloud) drop(a Tenant, kind, region, id string, now time.Time) (Resource, *APIError) {
	r, err := c.lookup(a, kind, region, id)
	if err != nil {
		return Resource{}, err
	}
	if vm := r.attachedTo(); vm != "" {
		return Resource{}, refuse(CodeIncorrectState, "%s %s is attached to VM %s", kind, id, vm)
	}
	c.end(r, a.ID, now, 0)
	c.sweep(now)
	return c.view(r, now), nil
}
