package openstack

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
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
	done, err := a.turns.Take(ctx, opCreate, cmp.Or(r.OwnerID, r.Name))
	if err != nil {
		return cloud.VM{}, err
	}
	defer done()
	s, alone, err := a.ensure(ctx, c, r)
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason == reasonVolumeNotReady {
		return c.expected(r, e), nil
	}
	if err != nil {
		return cloud.VM{}, err
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
	vm, failed := a.vmOf(ctx, opCreate, c, s)
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
	_, tags := tagCodec.Encode(r.Tags)
	problems := slices.Concat(c.Problems, r.Problems(nameLimits, userDataMax), tags)
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
	failed error,
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
		id, wait := a.attempts.Pending(r, looked)
		switch {
		case wait > 0 && id != "":
			return a.accepted(c, r, id), true, nil
		case wait > 0:
			return server{}, false, a.attempts.Wait(opCreate, wait)
		}
		return a.make(ctx, c, r)
	}
	a.attempts.Shown(r)
	if len(staying) == 1 {
		return staying[0], true, nil
	}
	s, failed = a.settle(ctx, r, staying, "")
	return s, false, failed
}

// settle leaves one of several servers of one attempt, which processes made that
// did not know of each other: the oldest that has not failed. A process that has
// just made one takes back only that; others may have been written down already.
func (a *account) settle(ctx context.Context, r cloud.CreateRequest, all []server, mine string) (server, error) {
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
	failed error,
) {
	body, err := a.body(ctx, c, r)
	if err != nil {
		return server{}, false, err
	}
	id, err := a.attempts.Send(ctx, opCreate, r, func(ctx context.Context) (string, error) { return a.post(ctx, body) })
	if err != nil {
		return server{}, false, c.refusedServer(r, err)
	}
	found, err := a.find(ctx, opCreate, c, r.Ref)
	if err != nil {
		return server{}, false, err
	}
	staying := slices.DeleteFunc(found, server.going)
	i := slices.IndexFunc(staying, func(s server) bool { return s.ID == id })
	if i < 0 { // not shown yet, so that the next look would make another
		a.attempts.Accepted(ctx, opCreate, r, id)
		return a.accepted(c, r, id), true, nil
	}
	a.attempts.Shown(r)
	if len(staying) == 1 {
		return staying[0], true, nil
	}
	s, failed = a.settle(ctx, r, staying, id)
	return s, false, failed
}

// post asks Nova for a server and returns its id.
func (a *account) post(ctx context.Context, body map[string]any) (string, error) {
	var out struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
	}
	err := a.ask(ctx, opCreate, call{method: http.MethodPost, of: nova, path: "servers", body: body, out: &out})
	if err == nil && out.Server.ID == "" {
		return "", driverkit.BrokenAnswer(opCreate, "the cloud's answer names no server")
	}
	return out.Server.ID, err
}

// accepted is a server that Nova has accepted and does not show yet.
func (a *account) accepted(c *config, r cloud.CreateRequest, id string) server {
	return server{ID: id, Name: r.Name, Status: statusBuild, Created: a.now().UTC(), Metadata: c.metadata(r)}
}

// references are the ids of what a class names.
type references struct {
	flavor, image, group string // an empty group is none
	networks             []map[string]string
}

// resolve looks up what the class names, before anything is made.
func (a *account) resolve(ctx context.Context, c *config, r cloud.CreateRequest) (ids references, err error) {
	s := &c.Spec
	f, err := a.flavorNamed(ctx, opCreate, s.FlavorName)
	if err != nil {
		return ids, c.refusedFlavor(r, err)
	}
	ids.flavor = f.ID
	if ids.networks, err = a.networks(ctx, c); err != nil {
		return ids, err
	}
	if ids.image, err = a.imageOf(ctx, opCreate, s); err != nil {
		return ids, err
	}
	if _, err := a.pool(ctx, s); err != nil {
		return ids, err
	}
	ids.group, err = a.serverGroup(ctx, s)
	return ids, err
}

// body is what Nova is asked for.
func (a *account) body(ctx context.Context, c *config, r cloud.CreateRequest) (map[string]any, error) {
	ids, err := a.resolve(ctx, c, r)
	if err != nil {
		return nil, err
	}
	in := map[string]any{"name": r.Name, "flavorRef": ids.flavor, "metadata": c.metadata(r)}
	setText(in, "key_name", c.Spec.KeyName)
	setText(in, "availability_zone", c.zone(r))
	if len(r.UserData) > 0 {
		in["user_data"] = base64.StdEncoding.EncodeToString(r.UserData)
	}
	if c.Spec.UseConfigDrive != nil {
		in["config_drive"] = *c.Spec.UseConfigDrive
	}
	if err := a.attach(ctx, c, r, ids.networks, in); err != nil {
		return nil, err
	}
	if err := a.disk(ctx, c, r, ids.image, in); err != nil {
		return nil, err
	}
	out := map[string]any{"server": in}
	if ids.group != "" {
		out["os:scheduler_hints"] = map[string]string{"group": ids.group}
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
) error {
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
// it, or one that is made here. The image is named in each case, so that the server shows it.
func (a *account) disk(ctx context.Context, c *config, r cloud.CreateRequest, imageID string,
	in map[string]any,
) error {
	s := &c.Spec
	in["imageRef"] = imageID
	if s.RootDiskSize <= 0 {
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
	tags, _ := tagCodec.Encode(r.Tags)
	return driverkit.MergeTags(tags, c.Spec.Tags, map[string]string{ownerKey: r.OwnerID, attemptKey: r.Token})
}

// When it is worth looking again at a server or a volume that is being made.
const (
	waitForHost   = time.Second // while Nova looks for a host, at first
	waitForBuild  = 3 * time.Second
	waitForVolume = 2 * time.Second
)
