package sim

import "net/netip"

// check says why a VM cannot be made, and otherwise where.
func (c *Cloud) check(a Tenant, region string, in VMInput) (zone string, network Network, err *APIError) {
	zones := c.settings.zones(region)
	if len(zones) == 0 {
		return "", Network{}, refuse(CodeInvalidRegion, "there is no region %q", region)
	}
	if err := c.checkInput(a, region, in); err != nil {
		return "", Network{}, err
	}
	if network, err = c.room(region, in.Network); err != nil {
		return "", Network{}, err
	}
	if a.VMQuota > 0 && c.counts[a.ID] >= a.VMQuota {
		e := refuse(CodeQuotaExceeded, "the account has %d VMs and may have no more", c.counts[a.ID])
		e.Region = region
		return "", Network{}, e
	}
	zone, err = c.choose(zones, region, in)
	return zone, network, err
}

// checkInput checks what does not depend on other VMs.
func (c *Cloud) checkInput(a Tenant, region string, in VMInput) *APIError {
	if _, ok := c.settings.instanceType(in.InstanceType); !ok {
		return refuse(CodeInvalidInstanceType, "there is no instance type %q", in.InstanceType)
	}
	image, ok := c.settings.image(in.Image)
	if !ok {
		return refuse(CodeInvalidImage, "there is no image %q", in.Image)
	}
	if in.RootDisk != nil && in.RootDisk.SizeGiB < image.RootDiskGiB {
		return refuse(CodeInvalidParameter, "rootDisk.sizeGiB is %d and image %s needs %d", in.RootDisk.SizeGiB, image.ID, image.RootDiskGiB)
	}
	if len(in.UserData) > UserDataMax {
		return refuse(CodeUserDataTooLarge, "userData has %d bytes and may have %d", len(in.UserData), UserDataMax)
	}
	for _, id := range in.DataDisks {
		disk, err := c.lookup(a, KindDisk, region, id)
		if err != nil {
			return err
		}
		if disk.Disk.VM != "" || !disk.Deleting.IsZero() {
			return refuse(CodeIncorrectState, "disk %s is in use", id)
		}
	}
	return nil
}

// choose returns the zone that the VM goes to.
func (c *Cloud) choose(zones []Zone, region string, in VMInput) (string, *APIError) {
	known := false
	for _, z := range zones {
		if in.Zone != "" && in.Zone != z.Name {
			continue
		}
		known = true
		limit, limited := z.Capacity[in.InstanceType]
		if !limited || c.places[place{z.Name, in.InstanceType}] < limit {
			return z.Name, nil
		}
	}
	if !known {
		return "", refuse(CodeInvalidZone, "there is no zone %q in region %s", in.Zone, region)
	}
	where := in.Zone
	if where == "" {
		where = region
	}
	e := refuse(CodeInsufficientCapacity, "%s has no room for another VM of type %s", where, in.InstanceType)
	e.Region, e.Zone, e.InstanceType, e.CapacityType = region, in.Zone, in.InstanceType, capacityType(in.Spot)
	return "", e
}

func capacityType(spot bool) string {
	if spot {
		return "spot"
	}
	return "on-demand"
}

// room returns the network if there is room for another interface.
func (c *Cloud) room(region, id string) (Network, *APIError) {
	network, ok := c.settings.network(region, id)
	if !ok {
		return Network{}, refuse(CodeInvalidNetwork, "there is no network %q in region %s", id, region)
	}
	if network.Addresses > 0 && c.counts[network.ID] >= network.Addresses {
		e := refuse(CodeAddressesExhausted, "network %s has no free address", network.ID)
		e.Region = region
		return Network{}, e
	}
	return network, nil
}

// addresses gives out the next addresses of a network. None is used twice.
func (c *Cloud) addresses(n Network) []Address {
	c.ips[n.ID]++
	next := c.ips[n.ID]
	out := []Address{}
	if a, ok := nth(n.CIDR, next); ok {
		out = append(out, Address{"InternalIP", a})
	}
	if a, ok := nth(n.IPv6CIDR, next); ok {
		out = append(out, Address{"InternalIP", a})
	}
	if n.Public {
		a, _ := nth("100.64.0.0/10", next)
		out = append(out, Address{"ExternalIP", a})
	}
	return out
}

// nth returns the n-th address of a prefix; ok is false if cidr is none.
func nth(cidr string, n uint32) (address string, ok bool) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", false
	}
	bytes := prefix.Masked().Addr().AsSlice()
	for i := len(bytes) - 1; i >= 0 && n > 0; i-- {
		n += uint32(bytes[i])
		bytes[i] = byte(n)
		n >>= 8
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a.String(), true
}
