package sim

import (
	"maps"
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
		c.end(r, a.ID, now, time.Duration(c.settings.DeleteTime))
		c.sweep(now)
		return c.view(r, now), nil
	})
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

// SetTags adds tags to a resource of any kind, and replaces those that it has
// under the same keys.
func (c *Cloud) SetTags(who Login, region, id string, tags map[string]string) (Resource, error) {
	return call(c, who, OpSetTags, c.subject(id), func(a Tenant, now time.Time) (Resource, *APIError) {
		r := c.all[id]
		if r == nil || r.Account != a.ID || r.Region != region || r.goneAt(now) {
			return Resource{}, refuse(CodeNotFound, "there is no resource %s in region %s", id, region)
		}
		merged := maps.Clone(r.Tags)
		if merged == nil {
			merged = map[string]string{}
		}
		maps.Copy(merged, tags)
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
