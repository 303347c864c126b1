package openstack

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
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
	wait, failed := a.finish(ctx, c, r, &s)
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
	problems := slices.Concat(c.Problems, r.Problems(nameMax, userDataMax))
	if n := len(c.addressMark(r.Ref).String()); c.Spec.FloatingIPPool != "" && n > descriptionMax {
		problems = append(problems, cloud.Problem{
			Severity: cloud.BlocksCreate, Field: "metadata.name",
			Message: fmt.Sprintf("is %d characters too long for the description of a floating IP; take a shorter name",
				n-descriptionMax),
		})
	}
	return cloud.Worst(opCreate, problems, cloud.BlocksCreate)
}

// expected is the VM while its root volume is made.
func (c *config) expected(r cloud.CreateRequest, why *cloud.Error) cloud.VM {
	return cloud.VM{
		Name: r.Name, OwnerID: r.OwnerID, NodeName: r.Name, State: cloud.StatePending, Reason: why.Reason,
		Message: why.Err.Error(), Region: c.Spec.Region, Zone: c.zone(r),
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
	group, err := a.serverGroup(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, err := a.pool(ctx, s); err != nil { // before anything is made
		return nil, err
	}
	in := map[string]any{
		"name": r.Name, "flavorRef": f.ID, "metadata": c.metadata(r),
	}
	setText(in, "key_name", s.KeyName)
	setText(in, "availability_zone", c.zone(r))
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
	if group != "" {
		out["os:scheduler_hints"] = map[string]string{"group": group}
	}
	return out, nil
}

// setText sets a property unless its value is empty.
func setText(properties map[string]any, name, value string) {
	if value != "" {
		properties[name] = value
	}
}

// attach adds what the server is attached to: networks, or the port that is made
// here.
func (a *account) attach(ctx context.Context, c *config, r cloud.CreateRequest, networks []map[string]string,
	in map[string]any,
) *cloud.Error {
	if c.Spec.ownPort() {
		id, err := a.ensurePort(ctx, c, r, networks[0]["uuid"])
		if err != nil {
			return err
		}
		networks[0]["port"] = id
	}
	in["networks"] = networks
	if c.Spec.ownPort() && len(networks) == 1 {
		return nil // the port has its groups
	}
	groups := c.Spec.groups()
	if c.Spec.DefaultSecurityGroup != "" {
		id, err := a.defaultGroup(ctx, c.Spec.DefaultSecurityGroup)
		if err != nil {
			return err
		}
		groups = []string{id}
	}
	if len(groups) > 0 {
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

// When it is worth looking again at a server or a volume that is being made.
const (
	waitForHost   = time.Second // while Nova looks for a host, at first
	waitForBuild  = 3 * time.Second
	waitForVolume = 2 * time.Second
)
