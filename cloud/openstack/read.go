package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opGet      = "get server"
	opReboot   = "reboot server"
	opConsole  = "get console output"
	opList     = "list resources"
	opCapacity = "look up flavor"
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	c, err := driverkit.SpecOf[*config](opGet, r.Class)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err)
	}
	found, failed := a.find(ctx, opGet, c, r)
	if failed != nil {
		return cloud.VM{}, failed
	}
	staying := slices.DeleteFunc(slices.Clone(found), server.going)
	switch {
	case len(found) == 0:
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, opGet, reasonServerMissing, "Nova shows no server of machine %q",
			r.Name)
	case len(staying) > 1:
		return cloud.VM{}, several(opGet, r, staying)
	case len(staying) == 1:
		found = staying
	}
	vm, failed := a.vmOf(ctx, opGet, c, found[0])
	if failed != nil {
		return cloud.VM{}, failed
	}
	return vm, nil
}

// Reboot resets the server of r, or starts it if it is shut off.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	c, err := driverkit.SpecOf[*config](opReboot, r.Class)
	if err != nil {
		return err
	}
	s, err := a.stayingServer(ctx, opReboot, c, r)
	if err != nil {
		return err
	}
	action := map[string]any{"reboot": map[string]string{"type": "HARD"}}
	if s.Status == statusShutOff {
		action = map[string]any{"os-start": nil}
	}
	err = a.ask(ctx, opReboot, call{method: http.MethodPost, of: nova, path: "servers/" + s.ID + "/action", body: action})
	return driverkit.Busy(driverkit.Restrict(err, cloud.NotFound, cloud.Invalid, cloud.Exhausted), reasonConflict)
}

// consoleLines is how many lines of a console Nova is asked for. Without a number it answers with
// all that the hypervisor keeps.
const consoleLines = 2000

// Console returns the console of the server of r. Nova answers 404 too where the hypervisor has no
// console of it.
func (a *account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	c, err := driverkit.SpecOf[*config](opConsole, r.Class)
	if err != nil {
		return "", err
	}
	s, err := a.stayingServer(ctx, opConsole, c, r)
	if err != nil {
		return "", err
	}
	var out struct {
		Output string `json:"output"`
	}
	err = a.ask(ctx, opConsole, call{
		method: http.MethodPost, of: nova, path: "servers/" + s.ID + "/action", out: &out,
		body: map[string]any{"os-getConsoleOutput": map[string]int{"length": consoleLines}},
	})
	if reasonOf(err) == reasonNotImplemented {
		return "", cloud.Errorf(cloud.Invalid, opConsole, cloud.ReasonConsoleUnsupported,
			"the hypervisor cannot read consoles")
	}
	if err != nil {
		return "", driverkit.Busy(driverkit.Restrict(err, cloud.NotFound, cloud.Invalid), reasonConflict)
	}
	return cloud.ConsoleTail(out.Output), nil
}

// several returns the error of a machine with more than one server, any of which may be
// the one in use.
func several(op string, r cloud.Ref, all []server) error {
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return driverkit.SeveralVMs(op, r, ids)
}

// List yields everything that carries the ownership keys of the class: servers,
// volumes, ports, floating IPs.
func (a *account) List(ctx context.Context, class cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	c, err := driverkit.SpecOf[*config](opList, class)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	servers := driverkit.Select(a.servers(ctx, opList, url.Values{}), func(s server) (cloud.Resource, bool, error) {
		if !c.marks(s.Metadata) || s.Status == statusDeleted {
			return cloud.Resource{}, false, nil
		}
		vm, err := a.vmOf(ctx, opList, c, s)
		return driverkit.VMResource(vm, tagCodec.Decode(s.Metadata)), true, err
	})
	parts := func(all iter.Seq2[part, error]) iter.Seq2[cloud.Resource, error] {
		return driverkit.Select(all, func(p part) (cloud.Resource, bool, error) {
			return p.resource(), c.listsPart(p), nil
		})
	}
	return driverkit.List(kinds,
		driverkit.KindList{Kind: cloud.KindVM, All: servers},
		driverkit.KindList{Kind: cloud.KindDisk, All: parts(a.volumes(ctx, opList, url.Values{}))},
		driverkit.KindList{Kind: cloud.KindInterface, All: parts(a.ports(ctx, opList, url.Values{}))},
		driverkit.KindList{Kind: cloud.KindAddress, All: parts(a.addresses(ctx, opList, c, url.Values{}))},
	)
}

// Capacity returns what a node of the class will offer.
func (a *account) Capacity(ctx context.Context, class cloud.Class) (cloud.Capacity, error) {
	c, err := driverkit.SpecOf[*config](opCapacity, class)
	if err != nil {
		return cloud.Capacity{}, err
	}
	f, err := a.flavorNamed(ctx, opCapacity, c.Spec.FlavorName)
	if isGone(err) {
		return cloud.Capacity{}, wrong(c.invalid(err), "spec.flavorName", "name a flavor that this project can use")
	}
	if err != nil {
		return cloud.Capacity{}, driverkit.Restrict(err)
	}
	gpus, err := a.gpusOf(ctx, f)
	if err != nil {
		return cloud.Capacity{}, driverkit.Restrict(err)
	}
	architecture, err := a.architectureOf(ctx, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	disk := f.DiskGiB
	if c.Spec.RootDiskSize > 0 {
		disk = int64(c.Spec.RootDiskSize)
	}
	return cloud.Capacity{Architecture: architecture, Resources: map[string]string{
		"cpu": strconv.FormatInt(f.CPUs, 10), "memory": driverkit.MiB(f.MemoryMiB), "gpu": strconv.Itoa(gpus),
		"ephemeral-storage": fmt.Sprintf("%dGi", disk), "pods": "110", // a kubelet's default
	}}, nil
}

// gpusOf returns how many graphics processors a flavor says that it has.
func (a *account) gpusOf(ctx context.Context, f flavor) (int, error) {
	var out struct {
		Specs map[string]string `json:"extra_specs"`
	}
	err := a.ask(ctx, opCapacity, call{
		method: http.MethodGet, of: nova, path: "flavors/" + f.ID + "/os-extra_specs",
		out: &out,
	})
	if err != nil && !isGone(err) && cloud.CodeOf(err) != cloud.Denied {
		return 0, err
	}
	return gpus(out.Specs), nil
}

// gpus counts virtual ones, and devices whose alias says what they are.
func gpus(specs map[string]string) int {
	n, _ := strconv.Atoi(specs["resources:VGPU"])
	for alias := range strings.SplitSeq(specs["pci_passthrough:alias"], ",") {
		name, count, _ := strings.Cut(strings.TrimSpace(alias), ":")
		if number, err := strconv.Atoi(count); err == nil && strings.Contains(strings.ToLower(name), "gpu") {
			n += number
		}
	}
	return n
}

// architectureOf returns what the image says; empty if it says nothing.
func (a *account) architectureOf(ctx context.Context, c *config) (string, error) {
	id, err := a.imageOf(ctx, opCapacity, &c.Spec)
	if err != nil {
		return "", err
	}
	return a.ids.Get(ctx, opCapacity, "architecture "+id, func(ctx context.Context) (string, error) {
		var out map[string]json.RawMessage
		err := a.ask(ctx, opCapacity, call{method: http.MethodGet, of: glance, path: "images/" + id, out: &out})
		if isGone(err) {
			return "", c.invalid(err)
		}
		architecture := ""
		for _, property := range []string{"architecture", "hw_architecture"} {
			var text string
			if json.Unmarshal(out[property], &text) == nil && text != "" {
				architecture = driverkit.Architecture(text)
			}
		}
		return architecture, driverkit.Restrict(err)
	})
}
