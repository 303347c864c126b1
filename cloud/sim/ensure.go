package sim

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opCreate = "create VM"

// Create makes the VM of r: first the further disks, then the VM with its root
// disk and first interface, then the further interfaces, and forwarding as soon
// as the VM runs. Each call has a token of its own that follows from r.Token,
// so all of them can be repeated.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opCreate, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	if err := checkRequest(s, r); err != nil {
		return cloud.VM{}, err
	}
	vm, err := a.launch(ctx, s, r)
	if err != nil {
		return cloud.VM{}, err
	}
	wait, err := a.finish(ctx, s, r, &vm)
	if err != nil {
		return cloud.VM{}, err
	}
	out := vmOf(vm)
	out.RetryAfter = wait
	return out, nil
}

// checkRequest refuses what the cloud would refuse, before anything is made.
func checkRequest(s *spec, r cloud.CreateRequest) error {
	if r.Token == "" && r.ProviderID == "" {
		return cloud.Errorf(cloud.Invalid, opCreate, "TokenMissing", "the idempotency token is missing")
	}
	return cloud.Worst(opCreate, slices.Concat(s.Problems, r.Problems(nameLimits, UserDataMax),
		r.NetworkProblems(max(1, len(s.Networks)))), cloud.BlocksCreate)
}

// launch returns the VM of r and makes it unless its id is known already.
func (a *account) launch(ctx context.Context, s *spec, r cloud.CreateRequest) (Resource, error) {
	if r.ProviderID != "" {
		return a.known(ctx, s, r)
	}
	in := VMInput{
		ClientToken: r.Token, Zone: s.Zone, InstanceType: s.InstanceType, Image: s.Image,
		Spot: s.Spot, Tags: s.tagsFor(r), UserData: r.UserData, Static: staticOf(r, 0),
	}
	if r.Zone != "" {
		in.Zone = r.Zone
	}
	if len(s.Networks) > 0 {
		in.Network = s.Networks[0].ID
	}
	for i, d := range s.Disks {
		disk := DiskInput{SizeGiB: d.SizeGiB, Type: d.Type, Keep: d.Keep, Tags: s.retentionTags(d)}
		if i == 0 {
			in.RootDisk = &disk
			continue
		}
		disk.ClientToken = fmt.Sprintf("%s-disk-%d", r.Token, i)
		disk.Tags = driverkit.MergeTags(in.Tags, disk.Tags, nil)
		var made Resource
		if err := a.create(ctx, s, "disks", disk, &made); err != nil {
			return Resource{}, err
		}
		in.DataDisks = append(in.DataDisks, made.ID)
	}
	var vm Resource
	err := a.create(ctx, s, "vms", in, &vm)
	return vm, err
}

// known returns the VM whose id stands in r. It never makes another.
func (a *account) known(ctx context.Context, s *spec, r cloud.CreateRequest) (Resource, error) {
	id, ok := judge{}.DecodeProviderID(r.ProviderID)
	if !ok {
		return Resource{}, cloud.Errorf(cloud.NotFound, opCreate, "ForeignProviderID",
			"%s is no providerID of a simulated cloud", r.ProviderID)
	}
	found, err := a.byID(ctx, opCreate, s, r.Ref, id)
	if err != nil {
		return Resource{}, err
	}
	if len(found) == 0 {
		return Resource{}, cloud.Errorf(cloud.NotFound, opCreate, CodeNotFound, "the cloud does not show VM %s", id)
	}
	return found[0], nil
}

// finish gives the VM what could not be made with it. It returns how long to
// wait while that is not possible yet.
func (a *account) finish(ctx context.Context, s *spec, r cloud.CreateRequest, vm *Resource) (time.Duration, error) {
	for i := 1; i < len(s.Networks) && vm.Deleting.IsZero(); i++ {
		if i < len(vm.VM.Networks) {
			continue
		}
		in := NICInput{VM: vm.ID, Network: s.Networks[i].ID, Tags: s.tagsFor(r), Static: staticOf(r, i)}
		// A class that changes meanwhile asks for something else, which is no reason to refuse.
		in.ClientToken = fmt.Sprintf("%s-nic-%d-%.8s", vm.ID, i, hashOf(s.Region, in))
		var nic Resource
		if err := a.create(ctx, s, "nics", in, &nic); err != nil {
			return 0, err
		}
		vm.VM.Networks = append(vm.VM.Networks, nic.NIC.Network)
		vm.VM.Addresses = append(vm.VM.Addresses, nic.NIC.Addresses...)
	}
	if !s.Forwarding || vm.VM.Forwarding {
		return 0, nil
	}
	switch vm.VM.State {
	case StatePending:
		return within(vm.VM.Running.Sub(vm.Made)), nil
	case StateRunning:
		return 0, a.client.call(ctx, s.Region, request{
			op: opCreate, method: http.MethodPut, path: []string{"vms", vm.ID, "forwarding"},
			in: map[string]bool{"enabled": true},
		}, vm)
	}
	return 0, nil // it will not run: whoever looks at its state decides
}

// staticOf is what the request says about the i-th interface; nil: the cloud chooses its
// addresses.
func staticOf(r cloud.CreateRequest, i int) *Static {
	if i >= len(r.Network) || len(r.Network[i].Addresses) == 0 {
		return nil
	}
	out := &Static{SearchDomains: slices.Clone(r.Network[i].SearchDomains)}
	for _, a := range r.Network[i].Addresses {
		static := StaticAddress{Address: a.Prefix.String()}
		if a.Gateway.IsValid() {
			static.Gateway = a.Gateway.String()
		}
		out.Addresses = append(out.Addresses, static)
	}
	for _, server := range r.Network[i].Nameservers {
		out.Nameservers = append(out.Nameservers, server.String())
	}
	return out
}

// create makes one resource. The cloud's "not found" is then about something
// that the VM needs, which is not this VM.
func (a *account) create(ctx context.Context, s *spec, collection string, in, out any) error {
	err := a.client.call(ctx, s.Region, request{op: opCreate, method: http.MethodPost, path: []string{collection}, in: in},
		out)
	if e, ok := err.(*cloud.Error); ok && e.Code == cloud.NotFound { //nolint:errorlint // call returns nothing else
		e.Code, e.Reason = cloud.Unavailable, "DependencyNotFound"
	}
	return err
}

// tagsFor returns the tags of all that is made for r: its own, those of the
// class, which win, and those by which it is found again.
func (s *spec) tagsFor(r cloud.CreateRequest) map[string]string {
	tags := maps.Clone(r.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, s.Tags)
	tags[NameTag] = r.Name
	delete(tags, ownerTag)
	delete(tags, cloud.OnTerminationTag) // each disk has its own
	if r.OwnerID != "" {
		tags[ownerTag] = r.OwnerID
	}
	return tags
}

// fixedTags are the keys of a class's tags that tell whose a resource is.
func (s *spec) fixedTags() []string { return append(slices.Clone(s.ownership), NameTag) }

// UserTags returns the tags of c that SetTags sets.
func (d *Driver) UserTags(c cloud.Class) map[string]string {
	s, ok := c.Spec.(*spec)
	if !ok {
		return map[string]string{}
	}
	return driverkit.TagCodec{}.UserTags(s.Tags, s.fixedTags()...)
}

// SetTags changes the tags of the VM of r, and of its disks and interfaces that carry the
// ownership tags. What has the right tags is left alone.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	const op = "set tags"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return err
	}
	found, err := a.find(ctx, op, s, r)
	if err != nil {
		return err
	}
	vms := slices.DeleteFunc(slices.Clone(found), func(f Resource) bool { return f.VM == nil })
	vm, err := one(op, r, vms)
	if err != nil {
		return err
	}
	codec := driverkit.TagCodec{}
	want, gone := codec.UserTags(s.Tags, s.fixedTags()...), codec.Obsolete(obsolete, s.Tags, s.fixedTags()...)
	for _, item := range found {
		if item.ID != vm.ID && item.attachedTo() != vm.ID {
			continue
		}
		if change := item.lacks(want, gone); len(change) > 0 {
			err := a.client.call(ctx, s.Region, request{
				op: op, method: http.MethodPatch, path: []string{"resources", item.ID, "tags"}, in: change,
			}, &Resource{})
			if err != nil {
				return driverkit.Restrict(err, cloud.NotFound, cloud.Invalid)
			}
		}
	}
	return nil
}

// lacks returns what has to change about the tags of a resource, so that it has all of want
// and none of gone; nil removes a tag.
func (r Resource) lacks(want map[string]string, gone []string) map[string]*string {
	change := map[string]*string{}
	for key, value := range want {
		if has, there := r.Tags[key]; !there || has != value {
			change[key] = &value
		}
	}
	for _, key := range gone {
		if _, there := r.Tags[key]; there {
			change[key] = nil
		}
	}
	return change
}
