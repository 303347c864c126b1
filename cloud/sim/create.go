package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"
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
	DataDisks    []string          `json:"dataDisks,omitempty"` // ids of loose disks, which then go with the VM
	Network      string            `json:"network,omitempty"`   // of the first interface; empty: the region's first
	Spot         bool              `json:"spot,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"` // of the VM, its root disk and its interface
	UserData     []byte            `json:"userData,omitempty"`
}

// DiskInput asks for a disk.
type DiskInput struct {
	ClientToken string            `json:"clientToken,omitempty"`
	SizeGiB     int               `json:"sizeGiB"`
	Type        string            `json:"type,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// NICInput asks for an interface.
type NICInput struct {
	ClientToken string            `json:"clientToken,omitempty"`
	VM          string            `json:"vm,omitempty"` // empty: a loose one
	Network     string            `json:"network"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// CreateVM makes a VM, its root disk and its first interface, and returns the
// VM, pending. For an equal token and equal input it returns the VM that it has
// made, also while reads miss it.
func (c *Cloud) CreateVM(who Login, region string, in VMInput) (Resource, error) {
	return call(c, who, OpCreateVM, subject{in.Tags[NameTag], in.Zone}, func(a Tenant, now time.Time) (Resource, *APIError) {
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
		root.SizeGiB, root.Type = in.RootDisk.SizeGiB, in.RootDisk.Type
	}
	for _, id := range in.DataDisks {
		disk := c.all[id]
		disk.Disk.VM, disk.Disk.DeleteWithVM = r.ID, true
		c.changed(disk, now)
	}
	disk := c.add(&Resource{Kind: KindDisk, Account: r.Account, Region: r.Region, Zone: r.Zone, Tags: maps.Clone(in.Tags), Disk: &root}, now)
	c.changed(disk, now)
	r.VM.Disks = slices.Insert(r.VM.Disks, 0, disk.ID)
	c.plug(r, network, &Resource{Tags: maps.Clone(in.Tags)}, now)
}

// plug gives a VM an interface; nic supplies the tags and the token.
func (c *Cloud) plug(r *Resource, network Network, nic *Resource, now time.Time) {
	nic.Account, nic.Region, nic.Zone = r.Account, r.Region, r.Zone
	c.enter(network, nic, r.ID, now)
	r.VM.NICs = append(r.VM.NICs, nic.ID)
}

// enter makes an interface exist, attached to vm unless that is empty.
func (c *Cloud) enter(network Network, nic *Resource, vm string, now time.Time) {
	nic.Kind, nic.NIC = KindNIC, &NIC{Network: network.ID, VM: vm, Addresses: c.addresses(network)}
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
	return call(c, who, OpCreateDisk, subject{in.Tags[NameTag], ""}, func(a Tenant, now time.Time) (Resource, *APIError) {
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
			Disk: &Disk{SizeGiB: in.SizeGiB, Type: in.Type}, token: token, tokenHash: hash,
		}, now)
		c.changed(r, now)
		return c.view(r, now), nil
	})
}

// CreateNIC makes an interface and attaches it to a VM, in any state but
// deleting.
func (c *Cloud) CreateNIC(who Login, region string, in NICInput) (Resource, error) {
	return call(c, who, OpCreateNIC, subject{in.Tags[NameTag], ""}, func(a Tenant, now time.Time) (Resource, *APIError) {
		token := in.ClientToken
		in.ClientToken = ""
		hash := hashOf(region, in)
		if made, err := c.made(tokenKey{a.ID, KindNIC, token}, hash, now); made != nil || err != nil {
			return c.answer(made, err, now)
		}
		nic := &Resource{Account: a.ID, Region: region, Tags: maps.Clone(in.Tags), token: token, tokenHash: hash}
		err := c.addNIC(a, nic, in, now)
		return c.answer(nic, err, now)
	})
}

// made returns what a token has made; nil if nothing.
func (c *Cloud) made(key tokenKey, hash string, now time.Time) (*Resource, *APIError) {
	r := c.tokens[key]
	switch {
	case key.token == "" || r == nil:
		return nil, nil //nolint:nilnil // nothing was made, which is no error
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
