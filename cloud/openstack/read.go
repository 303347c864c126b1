package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
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
	opList     = "list resources"
	opCapacity = "look up flavor"
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	c, err := driverkit.SpecOf[*config](opGet, r.Class)
	if err != nil {
		return cloud.VM{}, unclassed(err)
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
	vm, failed := a.vmOf(ctx, opGet, found[0])
	if failed != nil {
		return cloud.VM{}, failed
	}
	return vm, nil
}

// several is the error of a machine with more than one server: nobody knows
// which is the machine's.
func several(op string, r cloud.Ref, all []server) *cloud.Error {
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return cloud.Errorf(cloud.Unknown, op, "SeveralVMs", "machine %q has %d servers: %s; delete all but one", r.Name,
		len(ids), strings.Join(ids, ", "))
}

// List yields everything that carries the ownership keys of the class: servers,
// volumes, ports, floating IPs.
func (a *account) List(ctx context.Context, class cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		c, err := driverkit.SpecOf[*config](opList, class)
		if err != nil {
			yield(cloud.Resource{}, unclassed(err))
			return
		}
		for _, list := range []struct {
			kind cloud.Kind
			all  iter.Seq2[cloud.Resource, *cloud.Error]
		}{
			{cloud.KindVM, a.listServers(ctx, c)},
			{cloud.KindDisk, listParts(c, a.volumes(ctx, opList, url.Values{}))},
			{cloud.KindInterface, listParts(c, a.ports(ctx, opList, url.Values{}))},
			{cloud.KindAddress, listParts(c, a.addresses(ctx, opList, c, url.Values{}))},
		} {
			if !cloud.Wants(kinds, list.kind) {
				continue
			}
			for r, failed := range list.all {
				if failed != nil {
					yield(cloud.Resource{}, about(failed))
					return
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// listServers yields the servers of the class.
func (a *account) listServers(ctx context.Context, c *config) iter.Seq2[cloud.Resource, *cloud.Error] {
	return func(yield func(cloud.Resource, *cloud.Error) bool) {
		for s, failed := range a.servers(ctx, opList, url.Values{}) {
			if failed == nil && (!c.marks(s.Metadata) || s.Status == statusDeleted) {
				continue
			}
			var out cloud.Resource
			if failed == nil {
				out, failed = a.resourceOf(ctx, s)
			}
			if !yield(out, failed) || failed != nil {
				return
			}
		}
	}
}

// listParts yields those of the class.
func listParts(c *config, all iter.Seq2[part, *cloud.Error]) iter.Seq2[cloud.Resource, *cloud.Error] {
	return func(yield func(cloud.Resource, *cloud.Error) bool) {
		for p, failed := range all {
			if failed == nil && !c.listsPart(p) {
				continue
			}
			if !yield(p.resource(), failed) || failed != nil {
				return
			}
		}
	}
}

// Capacity returns what a node of the class will offer.
func (a *account) Capacity(ctx context.Context, class cloud.Class) (cloud.Capacity, error) {
	c, err := driverkit.SpecOf[*config](opCapacity, class)
	if err != nil {
		return cloud.Capacity{}, err
	}
	f, failed := a.flavorNamed(ctx, opCapacity, c.Spec.FlavorName)
	if failed != nil && failed.Code == cloud.NotFound {
		failed.Code = cloud.Invalid
		return cloud.Capacity{}, blame(failed, "spec.flavorName", "name a flavor that this project can use")
	}
	if failed != nil {
		return cloud.Capacity{}, about(failed)
	}
	gpus, failed := a.gpusOf(ctx, f)
	if failed != nil {
		return cloud.Capacity{}, about(failed)
	}
	architecture, failed := a.architectureOf(ctx, c)
	if failed != nil {
		return cloud.Capacity{}, failed
	}
	disk := f.DiskGiB
	if c.Spec.RootDiskSize > 0 {
		disk = int64(c.Spec.RootDiskSize)
	}
	return cloud.Capacity{Architecture: architecture, Resources: map[string]string{
		"cpu": strconv.FormatInt(f.CPUs, 10), "memory": memoryText(f.MemoryMiB), "gpu": strconv.Itoa(gpus),
		"ephemeral-storage": fmt.Sprintf("%dGi", disk), "pods": "110", // a kubelet's default
	}}, nil
}

// gpusOf returns how many graphics processors a flavor says that it has.
func (a *account) gpusOf(ctx context.Context, f flavor) (int, *cloud.Error) {
	var out struct {
		Specs map[string]string `json:"extra_specs"`
	}
	err := a.ask(ctx, opCapacity, call{
		method: http.MethodGet, of: nova, path: "flavors/" + f.ID + "/os-extra_specs",
		out: &out,
	})
	if err != nil && err.Code != cloud.NotFound && err.Code != cloud.Denied {
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
func (a *account) architectureOf(ctx context.Context, c *config) (string, *cloud.Error) {
	id, err := a.imageOf(ctx, opCapacity, &c.Spec)
	if err != nil {
		return "", err
	}
	key := "architecture " + id
	if known, there := a.ids.get(key, a.now(), idAge); there {
		return known, nil
	}
	var out map[string]json.RawMessage
	err = a.ask(ctx, opCapacity, call{method: http.MethodGet, of: glance, path: "images/" + id, out: &out})
	if err != nil {
		if err.Code == cloud.NotFound {
			err.Code = cloud.Invalid
			return "", c.invalid(blame(err, "spec.imageID", "name an image that this project can use"))
		}
		return "", about(err)
	}
	architecture := ""
	for _, property := range []string{"architecture", "hw_architecture"} {
		var text string
		if json.Unmarshal(out[property], &text) == nil && text != "" {
			architecture = kubernetesName(text)
		}
	}
	a.ids.put(key, architecture, a.now())
	return architecture, nil
}

// kubernetesName is how Kubernetes calls a processor that Glance knows.
func kubernetesName(architecture string) string {
	switch strings.ToLower(architecture) {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	}
	return ""
}

// memoryText returns a quantity as people write it.
func memoryText(mib int64) string {
	const gib = 1024
	if mib%gib == 0 {
		return fmt.Sprintf("%dGi", mib/gib)
	}
	return fmt.Sprintf("%dMi", mib)
}

// Nova's words that more than one place depends on.
const (
	statusBuild       = "BUILD"
	statusError       = "ERROR"
	statusDeleted     = "DELETED"
	statusSoftDeleted = "SOFT_DELETED"
)

// vmOf returns a server as the controllers see it.
func (a *account) vmOf(ctx context.Context, op string, s server) (cloud.VM, *cloud.Error) {
	instanceType, err := a.flavorName(ctx, op, s.Flavor.ID)
	if err != nil {
		return cloud.VM{}, err
	}
	vm := cloud.VM{
		ID: s.ID, ProviderID: providerID(a.region, s.ID), NodeProviderID: nodeProviderID(s.ID), Name: s.Name,
		NodeName: s.Name,
		OwnerID:  s.Metadata[ownerKey], State: stateOf(s), Reason: s.Status, Message: briefly(s.Fault.Message),
		Region: a.region, Zone: s.Zone, InstanceType: instanceType, Addresses: addressesOf(s), Created: s.Created,
	}
	if vm.State == cloud.StateDeleting {
		vm.Reason = statusDeleted
	}
	return vm, nil
}

// stateOf returns what a status of Nova means for a node.
func stateOf(s server) cloud.State {
	if s.going() {
		return cloud.StateDeleting
	}
	switch s.Status {
	case statusBuild:
		return cloud.StatePending
	case "ACTIVE", "REBOOT", "HARD_REBOOT", "PASSWORD", "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE", "MIGRATING", "REBUILD":
		return cloud.StateRunning
	case "SHUTOFF", "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE":
		return cloud.StateStopped
	case statusError:
		return cloud.StateFailed
	}
	return cloud.StateUnknown
}

// addressesOf returns how a server is reached: its own addresses network by
// network, then those that are translated to them.
func addressesOf(s server) []cloud.Address {
	var inside, outside []cloud.Address
	for _, name := range slices.Sorted(maps.Keys(s.Addresses)) {
		for _, at := range s.Addresses[name] {
			if at.Type == "floating" {
				outside = append(outside, cloud.Address{Kind: "ExternalIP", Value: at.Address})
			} else {
				inside = append(inside, cloud.Address{Kind: "InternalIP", Value: at.Address})
			}
		}
	}
	byValue := func(x, y cloud.Address) int { return strings.Compare(x.Value, y.Value) }
	slices.SortFunc(outside, byValue)
	return append(inside, outside...)
}

// resourceOf returns a server as the controllers see what is listed.
func (a *account) resourceOf(ctx context.Context, s server) (cloud.Resource, *cloud.Error) {
	vm, err := a.vmOf(ctx, opList, s)
	if err != nil {
		return cloud.Resource{}, err
	}
	return cloud.Resource{
		Kind: cloud.KindVM, ID: s.ID, MachineName: s.Name, OwnerID: vm.OwnerID, Created: s.Created,
		Tags: driverkit.DecodeTags(s.Metadata), VM: &vm,
	}, nil
}

// resource returns a port or a volume as the controllers see what is listed.
func (p part) resource() cloud.Resource {
	return cloud.Resource{
		Kind: p.kind, ID: p.id, MachineName: p.name, OwnerID: p.owner, Created: p.created, Attached: p.attachedTo != "",
		Tags: driverkit.DecodeTags(p.tags),
	}
}
