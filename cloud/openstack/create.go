package openstack

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opCreate = "create server"

// Create makes the VM of r unless there is one, and finishes its ports.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	c, err := driverkit.SpecOf[*config](opCreate, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	if err := checkRequest(c, r); err != nil {
		return cloud.VM{}, err
	}
	done, failed := a.turns.take(ctx, opCreate, cmp.Or(r.OwnerID, r.Name))
	if failed != nil {
		return cloud.VM{}, failed
	}
	defer done()
	s, alone, failed := a.ensure(ctx, c, r)
	switch {
	case failed != nil && failed.Reason == reasonVolumeNotReady:
		return c.expected(r, failed), nil
	case failed != nil:
		return cloud.VM{}, failed
	}
	return a.finished(ctx, c, r, s, alone)
}

// finished returns the VM of a server after what is left to do about it.
func (a *account) finished(ctx context.Context, c *config, r cloud.CreateRequest, s server, alone bool) (cloud.VM,
	error,
) {
	s, failed := a.explained(ctx, s)
	if failed != nil {
		return cloud.VM{}, failed
	}
	wait, failed := a.finish(ctx, c, r, s)
	if failed != nil {
		return cloud.VM{}, failed
	}
	if !alone {
		wait = waitForBuild // and then look whether the others have gone
	}
	vm, failed := a.vmOf(ctx, opCreate, s)
	if failed != nil {
		return cloud.VM{}, failed
	}
	if r.ProviderID == "" && s.undecided(a.now()) {
		vm.ProviderID, vm.NodeProviderID = "", "" // a shortage is reported before the server is recorded
	}
	vm.RetryAfter = wait
	return vm, nil
}

// checkRequest refuses what Nova would refuse, before anything is made.
func checkRequest(c *config, r cloud.CreateRequest) error {
	return cloud.Worst(opCreate, slices.Concat(c.Problems, r.Problems(nameMax, userDataMax)), cloud.BlocksCreate)
}

// expected is the VM while its root volume is made.
func (c *config) expected(r cloud.CreateRequest, why *cloud.Error) cloud.VM {
	return cloud.VM{
		Name: r.Name, OwnerID: r.OwnerID, NodeName: r.Name, State: cloud.StatePending, Reason: why.Reason,
		Message: why.Err.Error(), Region: c.Spec.Region, Zone: cmp.Or(r.Zone, c.Spec.AvailabilityZone),
		InstanceType: c.Spec.FlavorName, RetryAfter: why.RetryAfter,
	}
}

// ensure returns the server of r, and whether it is the only one. It makes one
// only where there is none, and no providerID says that there was.
func (a *account) ensure(ctx context.Context, c *config, r cloud.CreateRequest) (s server, alone bool,
	failed *cloud.Error,
) {
	looked := a.now()
	found, err := a.find(ctx, opCreate, c, r.Ref)
	if err != nil {
		return server{}, false, err
	}
	if r.ProviderID != "" {
		if len(found) == 0 {
			return server{}, false, cloud.Errorf(cloud.NotFound, opCreate, reasonServerMissing,
				"Nova does not show the server of %s", r.ProviderID)
		}
		return found[0], true, nil
	}
	staying := slices.DeleteFunc(found, server.going)
	switch len(staying) {
	case 0:
		wait := a.unsettled(r, looked)
		switch n := noteOf(r); {
		case wait > 0 && n.Server != "":
			return n.server(c, r), true, nil
		case wait > 0:
			return server{}, false, answerLost(wait)
		}
		return a.make(ctx, c, r)
	}
	a.shown(r)
	if len(staying) == 1 {
		return staying[0], true, nil
	}
	s, failed = a.settle(ctx, r, staying, "")
	return s, false, failed
}

// settle leaves one of several servers of one attempt, which processes made that
// did not know of each other: the oldest that has not failed. A process that has
// just made one takes back only that; others may have been written down already.
func (a *account) settle(ctx context.Context, r cloud.CreateRequest, all []server, mine string) (server, *cloud.Error) {
	if slices.ContainsFunc(all, func(s server) bool {
		return s.Metadata[ownerKey] != r.OwnerID || s.Metadata[attemptKey] != r.Token || r.Token == ""
	}) {
		return server{}, several(opCreate, r.Ref, all)
	}
	slices.SortFunc(all, func(x, y server) int {
		rank := func(s server) int {
			if s.Status == statusError {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(rank(x), rank(y)), x.Created.Compare(y.Created), cmp.Compare(x.ID, y.ID))
	})
	for _, s := range all[1:] {
		if mine != "" && s.ID != mine {
			continue
		}
		if err := a.end(ctx, opCreate, s); err != nil {
			return server{}, err
		}
	}
	return all[0], nil
}

// make asks for a server, and for the port and the volume that it needs before.
func (a *account) make(ctx context.Context, c *config, r cloud.CreateRequest) (s server, alone bool,
	failed *cloud.Error,
) {
	body, err := a.body(ctx, c, r)
	if err != nil {
		return server{}, false, err
	}
	id, err := a.post(ctx, c, r, body)
	if err != nil {
		return server{}, false, err
	}
	found, err := a.find(ctx, opCreate, c, r.Ref)
	if err != nil {
		return server{}, false, err
	}
	staying := slices.DeleteFunc(found, server.going)
	i := slices.IndexFunc(staying, func(s server) bool { return s.ID == id })
	if i < 0 { // not shown yet, so that the next look would make another
		n := note{Token: r.Token, At: a.now().UTC(), Server: id}
		_ = n.write(ctx, r) // the answer says the same, and is written down as well
		return n.server(c, r), true, nil
	}
	a.shown(r)
	if len(staying) == 1 {
		return staying[0], true, nil
	}
	s, failed = a.settle(ctx, r, staying, id)
	return s, false, failed
}

// body is what Nova is asked for.
func (a *account) body(ctx context.Context, c *config, r cloud.CreateRequest) (map[string]any, *cloud.Error) {
	s := &c.Spec
	f, err := a.flavorNamed(ctx, opCreate, s.FlavorName)
	if err != nil {
		return nil, a.refusedFlavor(c, r, err)
	}
	networks, err := a.networks(ctx, c)
	if err != nil {
		return nil, err
	}
	imageID, err := a.imageOf(ctx, opCreate, s)
	if err != nil {
		return nil, err
	}
	in := map[string]any{
		"name": r.Name, "flavorRef": f.ID, "availability_zone": cmp.Or(r.Zone, s.AvailabilityZone), "key_name": s.KeyName,
		"metadata": c.metadata(r),
	}
	if len(r.UserData) > 0 {
		in["user_data"] = base64.StdEncoding.EncodeToString(r.UserData)
	}
	if s.UseConfigDrive != nil {
		in["config_drive"] = *s.UseConfigDrive
	}
	if err := a.attach(ctx, c, r, networks, in); err != nil {
		return nil, err
	}
	if err := a.disk(ctx, c, r, imageID, in); err != nil {
		return nil, err
	}
	out := map[string]any{"server": in}
	if s.ServerGroupID != nil {
		out["os:scheduler_hints"] = map[string]string{"group": *s.ServerGroupID}
	}
	return out, nil
}

// attach adds what the server is attached to: networks, or the port that is made
// here.
func (a *account) attach(ctx context.Context, c *config, r cloud.CreateRequest, networks []map[string]string,
	in map[string]any,
) *cloud.Error {
	in["networks"] = networks
	if c.Spec.ownPort() {
		id, err := a.ensurePort(ctx, c, r)
		in["networks"] = []map[string]string{{"uuid": c.Spec.NetworkID, "port": id}}
		return err
	}
	if groups := c.Spec.groups(); len(groups) > 0 {
		in["security_groups"] = nameEach(groups)
	}
	return nil
}

func nameEach(names []string) []map[string]string {
	var all []map[string]string
	for _, name := range names {
		all = append(all, map[string]string{"name": name})
	}
	return all
}

// disk adds what the server boots from: the image, a volume that Nova makes of
// it, or one that is made here.
func (a *account) disk(ctx context.Context, c *config, r cloud.CreateRequest, imageID string,
	in map[string]any,
) *cloud.Error {
	s := &c.Spec
	if s.RootDiskSize <= 0 {
		in["imageRef"] = imageID
		return nil
	}
	device := map[string]any{
		"boot_index": 0, "uuid": imageID, "volume_size": s.RootDiskSize,
		"source_type": "image", "destination_type": "volume", "delete_on_termination": true,
	}
	if s.ownVolume() {
		id, err := a.ensureVolume(ctx, c, r, imageID)
		if err != nil {
			return err
		}
		device = map[string]any{
			"boot_index": 0, "uuid": id, "volume_size": s.RootDiskSize,
			"source_type": "volume", "destination_type": "volume", "delete_on_termination": false,
		}
	}
	in["block_device_mapping_v2"] = []map[string]any{device}
	return nil
}

// metadata is put on the server and its volume: the tags of the request, those
// of the class, which win, and those by which it is found again.
func (c *config) metadata(r cloud.CreateRequest) map[string]string {
	all := driverkit.EncodeTags(r.Tags)
	maps.Copy(all, c.Spec.Tags)
	delete(all, ownerKey)
	delete(all, attemptKey)
	if r.OwnerID != "" {
		all[ownerKey] = r.OwnerID
	}
	if r.Token != "" {
		all[attemptKey] = r.Token
	}
	return all
}

// blames returns which field is wrong, judging by the cloud's error.
var blames = []struct{ text, field, remedy string }{
	{"key_name", "spec.keyName", "name a key pair of this user"},
	{"key pair", "spec.keyName", "name a key pair of this user"},
	{"availability zone", "spec.availabilityZone", "name a zone that Nova offers"},
	{"security_group", "spec.securityGroups", "name groups of this project"},
	{"security group", "spec.securityGroups", "name groups of this project"},
	{"securitygroup", "spec.securityGroups", "name groups of this project"},
	{"subnet", "spec.subnetIDs", "name subnets of the network"},
	{"network", "spec.networkID", "name a network that this project can use"},
	{"instance group", "spec.serverGroupID", "name a server group of this project"},
	{"server group", "spec.serverGroupID", "name a server group of this project"},
	{"scheduler_hints", "spec.serverGroupID", "give the id of a server group"},
	{"metadata", "spec.tags", "use keys and values that Nova takes"},
	{"volume type", "spec.rootDiskType", "name a volume type that Cinder offers"},
	{"image", "spec.imageName", "name an image that this project can use"},
	{"flavor's disk", "spec.rootDiskSize", "boot from a volume or take a larger flavor"},
	{"address pair", "spec.podNetworkCIDRs", "list address ranges"},
	{"valid ip", "spec.podNetworkCIDRs", "list address ranges"},
}

// invalid makes an error of a creation one that names the field.
func (c *config) invalid(e *cloud.Error) *cloud.Error {
	if e.Code == cloud.NotFound { // something that the class names
		e.Code = cloud.Invalid
	}
	if e.Code != cloud.Invalid {
		return e
	}
	text := strings.ToLower(e.Reason + " " + e.Err.Error())
	for _, b := range blames {
		if !strings.Contains(text, b.text) {
			continue
		}
		field := b.field
		switch {
		case field == "spec.networkID" && c.Spec.NetworkID == "":
			field = "spec.networks"
		case field == "spec.imageName" && c.Spec.ImageID != "":
			field = "spec.imageID"
		}
		return blame(e, field, b.remedy)
	}
	return e
}

// refusedServer is the error of a creation, with what is exhausted.
func (a *account) refusedServer(c *config, r cloud.CreateRequest, e *cloud.Error) *cloud.Error {
	if why, ok := errors.AsType[scoped](e.Err); ok && e.Code == cloud.Exhausted {
		e.Offering = c.offering(r, why.of)
	}
	return c.invalid(e)
}

// refusedFlavor is the error of a flavor that does not exist. MCM's driver calls
// it exhausted, and whoever scales relies on that.
func (a *account) refusedFlavor(c *config, r cloud.CreateRequest, e *cloud.Error) *cloud.Error {
	if e.Code == cloud.NotFound {
		e.Code, e.Offering = cloud.Exhausted, c.offering(r, scopeZone)
		return e
	}
	return about(e)
}

// offering is what of the class is exhausted.
func (c *config) offering(r cloud.CreateRequest, of scope) *cloud.Offering {
	switch of {
	case scopeZone:
		return &cloud.Offering{
			Region: c.Spec.Region, Zone: cmp.Or(r.Zone, c.Spec.AvailabilityZone),
			InstanceType: c.Spec.FlavorName,
		}
	case scopeRegion:
		return &cloud.Offering{Region: c.Spec.Region, InstanceType: c.Spec.FlavorName}
	case scopeNone:
	}
	return nil
}

// When it is worth looking again at a server or a volume that is being made.
const (
	waitForHost   = time.Second // while Nova looks for a host, at first
	waitForBuild  = 3 * time.Second
	waitForVolume = 2 * time.Second
)
