package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// UserDataMax is how many bytes of user data a VM takes.
const UserDataMax = 16 << 10

// VMInput asks for a VM.
type VMInput struct {
	ClientToken  string            `json:"clientToken,omitempty"` // makes repeated calls make one VM
	Zone         string            `json:"zone,omitempty"`        // empty: the first with capacity
	InstanceType string            `json:"instanceType"`
	Image        string            `json:"image"`
	RootDisk     *DiskInput        `json:"rootDisk,omitempty"`  // nil: as the image has it
	DataDisks    []string          `json:"dataDisks,omitempty"` // ids of loose disks; they go with the VM unless kept
	Network      string            `json:"network,omitempty"`   // of the first interface; empty: the region's first
	Spot         bool              `json:"spot,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"` // of the VM, its root disk and its interface
	UserData     []byte            `json:"userData,omitempty"`
	Static       *Static           `json:"static,omitempty"` // addresses of the first interface; nil: the cloud's choice
}

// DiskInput asks for a disk.
type DiskInput struct {
	ClientToken string            `json:"clientToken,omitempty"`
	SizeGiB     int               `json:"sizeGiB"`
	Type        string            `json:"type,omitempty"`
	Keep        bool              `json:"keep,omitempty"` // it stays when the VM goes that it is made for
	Tags        map[string]string `json:"tags,omitempty"` // of a root disk, beside those of the VM
}

// NICInput asks for an interface.
type NICInput struct {
	ClientToken string            `json:"clientToken,omitempty"`
	VM          string            `json:"vm,omitempty"` // empty: a loose one
	Network     string            `json:"network"`
	Tags        map[string]string `json:"tags,omitempty"`
	Static      *Static           `json:"static,omitempty"` // nil: the cloud chooses the addresses
}

// Static is how the guest configures an interface, in place of DHCP. The cloud does not check
// that its addresses are free, nor that they belong to the network.
type Static struct {
	Addresses     []StaticAddress `json:"addresses"`
	Nameservers   []string        `json:"nameservers,omitempty"`
	SearchDomains []string        `json:"searchDomains,omitempty"`
}

// StaticAddress is an address with the length of its prefix, as 10.0.0.5/24.
type StaticAddress struct {
	Address string `json:"address"`
	Gateway string `json:"gateway,omitempty"`
}

// CreateVM makes a VM, its root disk and its first interface, and returns the
// VM, pending. For an equal token and equal input it returns the VM that it has
// made, also while reads miss it.
func (c *Cloud) CreateVM(who Login, region string, in VMInput) (Resource, error) {
	return call(c, who, OpCreateVM, subject{name: in.Tags[NameTag], zone: in.Zone},
		func(a Tenant, now time.Time) (Resource, *APIError) {
			token := in.ClientToken
			in.ClientToken = ""
			hash := hashOf(region, in)
			if made, err := c.made(tokenKey{a.ID, KindVM, token}, hash, now); made != nil || err != nil {
				return c.answer(made, err, now)
			}
			zone, network, err := c.check(a, region, in)
			if err != nil {
				return Resource{}, err
			}
			r := c.add(&Resource{
				Kind: KindVM, Account: a.ID, Region: region, Zone: zone, Tags: maps.Clone(in.Tags),
				VM: &VM{
					InstanceType: in.InstanceType, Image: in.Image, Spot: in.Spot,
					Running: now.Add(time.Duration(c.settings.BootTime)), Disks: slices.Clone(in.DataDisks),
				},
				token: token, tokenHash: hash, userData: slices.Clone(in.UserData),
			}, now)
			c.equip(r, in, network, now)
			c.changed(r, now)
			return c.view(r, now), nil
		})
}

// equip gives a new VM its disks and its interface.
func (c *Cloud) equip(r *Resource, in VMInput, network Network, now time.Time) {
	image, _ := c.settings.image(in.Image)
	root := Disk{SizeGiB: image.RootDiskGiB, VM: r.ID, DeleteWithVM: true}
	if in.RootDisk != nil {
		root.SizeGiB, root.Type, root.DeleteWithVM = in.RootDisk.SizeGiB, in.RootDisk.Type, !in.RootDisk.Keep
		root.Keep, root.Used = in.RootDisk.Keep, in.RootDisk.Keep
	}
	for _, id := range in.DataDisks {
		disk := c.all[id]
		disk.Disk.VM, disk.Disk.DeleteWithVM, disk.Disk.Used = r.ID, !disk.Disk.Keep, disk.Disk.Keep
		c.changed(disk, now)
	}
	tags := maps.Clone(in.Tags)
	if in.RootDisk != nil && len(in.RootDisk.Tags) > 0 {
		tags = driverkit.MergeTags(tags, in.RootDisk.Tags, nil)
	}
	disk := c.add(&Resource{
		Kind: KindDisk, Account: r.Account, Region: r.Region, Zone: r.Zone, Tags: tags, Disk: &root,
	}, now)
	c.changed(disk, now)
	r.VM.Disks = slices.Insert(r.VM.Disks, 0, disk.ID)
	c.plug(r, network, &Resource{Tags: maps.Clone(in.Tags), NIC: &NIC{Static: in.Static}}, now)
}

// plug gives a VM an interface; nic supplies tags, token and static addresses.
func (c *Cloud) plug(r *Resource, network Network, nic *Resource, now time.Time) {
	nic.Account, nic.Region, nic.Zone = r.Account, r.Region, r.Zone
	c.enter(network, nic, r.ID, now)
	r.VM.NICs = append(r.VM.NICs, nic.ID)
}

// enter makes an interface exist, attached to vm unless that is empty.
func (c *Cloud) enter(network Network, nic *Resource, vm string, now time.Time) {
	static := nic.NIC.Static
	nic.Kind, nic.NIC = KindNIC, &NIC{Network: network.ID, VM: vm, Addresses: c.addresses(network, static), Static: static}
	c.changed(c.add(nic, now), now)
}

// addNIC makes the interface that in asks for.
func (c *Cloud) addNIC(a Tenant, nic *Resource, in NICInput, now time.Time) *APIError {
	network, err := c.room(nic.Region, in.Network)
	if err != nil {
		return err
	}
	if in.VM == "" {
		c.enter(network, nic, "", now)
		return nil
	}
	vm, err := c.lookup(a, KindVM, nic.Region, in.VM)
	if err != nil {
		return err
	}
	if !vm.Deleting.IsZero() {
		return refuse(CodeIncorrectState, "VM %s is being deleted", vm.ID)
	}
	c.plug(vm, network, nic, now)
	c.changed(vm, now)
	return nil
}

// CreateDisk makes a loose disk.
func (c *Cloud) CreateDisk(who Login, region string, in DiskInput) (Resource, error) {
	return call(c, who, OpCreateDisk, subject{name: in.Tags[NameTag]},
		func(a Tenant, now time.Time) (Resource, *APIError) {
			token := in.ClientToken
			in.ClientToken = ""
			hash := hashOf(region, in)
			if made, err := c.made(tokenKey{a.ID, KindDisk, token}, hash, now); made != nil || err != nil {
				return c.answer(made, err, now)
			}
			if len(c.settings.zones(region)) == 0 {
				return Resource{}, refuse(CodeInvalidRegion, "there is no region %q", region)
			}
			if in.SizeGiB < 1 {
				return Resource{}, refuse(CodeInvalidParameter, "sizeGiB is %d and has to be at least 1", in.SizeGiB)
			}
			r := c.add(&Resource{
				Kind: KindDisk, Account: a.ID, Region: region, Tags: maps.Clone(in.Tags),
				Disk: &Disk{SizeGiB: in.SizeGiB, Type: in.Type, Keep: in.Keep}, token: token, tokenHash: hash,
			}, now)
			c.changed(r, now)
			return c.view(r, now), nil
		})
}

// CreateNIC makes an interface and attaches it to a VM, in any state but
// deleting.
func (c *Cloud) CreateNIC(who Login, region string, in NICInput) (Resource, error) {
	return call(c, who, OpCreateNIC, subject{name: in.Tags[NameTag]}, func(a Tenant, now time.Time) (Resource, *APIError) {
		token := in.ClientToken
		in.ClientToken = ""
		hash := hashOf(region, in)
		if made, err := c.made(tokenKey{a.ID, KindNIC, token}, hash, now); made != nil || err != nil {
			return c.answer(made, err, now)
		}
		nic := &Resource{
			Account: a.ID, Region: region, Tags: maps.Clone(in.Tags), token: token, tokenHash: hash,
			NIC: &NIC{Static: in.Static},
		}
		err := c.addNIC(a, nic, in, now)
		return c.answer(nic, err, now)
	})
}

// made returns what a token has made; nil if nothing.
func (c *Cloud) made(key tokenKey, hash string, now time.Time) (*Resource, *APIError) {
	r := c.tokens[key]
	switch {
	case key.token == "" || r == nil:
		return nil, nil
	case r.tokenHash != hash:
		return nil, refuse(CodeTokenMismatch, "the client token was used with other parameters, for %s", r.ID)
	case r.goneAt(now):
		return nil, refuse(CodeTokenExpired, "the client token was used for %s, which is gone", r.ID)
	}
	return r, nil
}

func (c *Cloud) answer(r *Resource, err *APIError, now time.Time) (Resource, *APIError) {
	if err != nil {
		return Resource{}, err
	}
	return c.view(r, now), nil
}

// hashOf is equal for equal input.
func hashOf(region string, in any) string {
	text, _ := json.Marshal(in) // cannot fail: inputs are plain values
	sum := sha256.Sum256(append([]byte(region+"\x00"), text...))
	return hex.EncodeToString(sum[:])
}

// check returns where a VM can be made, or why it cannot.
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
		return refuse(CodeInvalidParameter, "rootDisk.sizeGiB is %d and image %s needs %d", in.RootDisk.SizeGiB, image.ID,
			image.RootDiskGiB)
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
	e := refuse(CodeInsufficientCapacity, "%s has no capacity for another VM of type %s", where, in.InstanceType)
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

// addresses are those of an interface: the static ones, or the next of its network, none
// of which is used twice.
func (c *Cloud) addresses(n Network, static *Static) []Address {
	if static != nil {
		out := []Address{}
		for _, a := range static.Addresses {
			ip, _, _ := strings.Cut(a.Address, "/")
			out = append(out, Address{"InternalIP", ip})
		}
		return out
	}
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
		bytes[i] = byte(n & 0xff)
		n >>= 8
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a.String(), true
}
