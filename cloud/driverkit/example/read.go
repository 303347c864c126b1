package example

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	const op = "get VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err)
	}
	found, err := a.find(ctx, op, s, r)
	if err != nil {
		return cloud.VM{}, err
	}
	return driverkit.One(op, r, found)
}

// find returns the VMs that are provably of r: that of its providerID, or those with the
// labels of the class and the machine.
func (a *account) find(ctx context.Context, op string, s *spec, r cloud.Ref) ([]cloud.VM, error) {
	items, err := a.items(ctx, op, s, r)
	if err != nil {
		return nil, driverkit.Restrict(err)
	}
	var found []cloud.VM
	for _, t := range items {
		if s.owns(t, r) {
			found = append(found, vmOf(t))
		}
	}
	return found, nil
}

func (a *account) items(ctx context.Context, op string, s *spec, r cloud.Ref) ([]item, error) {
	switch {
	case r.ProviderID == "" && r.Name == "":
		return nil, nil // it names no machine
	case r.ProviderID == "":
		return driverkit.Collect(a.client.list(ctx, op, "vms", s.filter(r)))
	}
	id, ours := driverkit.DecodeProviderID(r.ProviderID, providerIDPrefix, vmID)
	if !ours {
		return nil, nil
	}
	var t item
	e := a.client.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: "/vms/" + id, Out: &t})
	switch {
	case e == nil:
		return []item{t}, nil
	case e.Code == cloud.NotFound:
		return nil, nil
	}
	return nil, e
}

// filter returns the labels of what is the class's, and has the name of r if r has one.
func (s *spec) filter(r cloud.Ref) map[string]string {
	labels := map[string]string{}
	for _, key := range s.ownership {
		labels[key] = ""
	}
	if r.Name != "" {
		encoded, _ := codec.Encode(map[string]string{machineTag: r.Name})
		labels = driverkit.MergeTags(labels, encoded, nil)
	}
	return labels
}

// owns reports whether a VM or a disk is provably of r.
func (s *spec) owns(t item, r cloud.Ref) bool {
	tags := codec.Decode(t.Labels)
	return driverkit.Carries(t.Labels, s.ownership) && driverkit.IsOf(r, tags[ownerTag], tags[machineTag])
}

// List yields the VMs and disks with the labels of the class.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	const op = "list resources"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	list := func(kind cloud.Kind, path string) driverkit.KindList {
		all := a.client.list(ctx, op, path, s.filter(cloud.Ref{}))
		return driverkit.KindList{Kind: kind, All: driverkit.Select(all, func(t item) (cloud.Resource, bool, error) {
			return t.resource(kind), true, nil
		})}
	}
	return driverkit.List(kinds, list(cloud.KindVM, "vms"), list(cloud.KindDisk, "disks"))
}

// Capacity returns what the cloud says of the class's type.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	const op = "get type"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	var out struct {
		CPUs         int    `json:"cpus"`
		MemoryMiB    int64  `json:"memory_mib"`
		Architecture string `json:"architecture"`
	}
	call := driverkit.Call{Method: http.MethodGet, URL: "/types/" + url.PathEscape(s.Type), Out: &out}
	if e := a.client.do(ctx, op, call); e != nil {
		return cloud.Capacity{}, driverkit.Restrict(e, cloud.Invalid)
	}
	return cloud.Capacity{Architecture: driverkit.Architecture(out.Architecture), Resources: map[string]string{
		"cpu": fmt.Sprint(out.CPUs), "memory": driverkit.MiB(out.MemoryMiB),
		"ephemeral-storage": fmt.Sprintf("%dGi", *s.DiskGiB), "pods": "110", // a kubelet's default
	}}, nil
}
