package kubevirt

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"strconv"

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

// find returns the VMs that are provably of r, with their addresses.
func (a *account) find(ctx context.Context, op string, s *spec, r cloud.Ref) ([]cloud.VM, error) {
	all, err := a.machines(ctx, op, s, r)
	if err != nil {
		return nil, driverkit.Restrict(err)
	}
	var found []cloud.VM
	for _, m := range all {
		var i *instance
		if m.Status.Created && m.Metadata.Deleted == nil {
			if i, err = a.instance(ctx, op, m); err != nil {
				return nil, driverkit.Restrict(err)
			}
		}
		vm, err := a.explained(ctx, op, s, s.vmOf(m, i))
		if err != nil {
			return nil, driverkit.Restrict(err)
		}
		found = append(found, vm)
	}
	return found, nil
}

// explained returns a VM with what CDI says of its volumes, if they have an error. It has failed only if a volume has:
// otherwise CDI tries again.
func (a *account) explained(ctx context.Context, op string, s *spec, vm cloud.VM) (cloud.VM, error) {
	if vm.Reason != dataVolumeError {
		return vm, nil
	}
	of := cloud.Ref{Name: vm.Name, OwnerID: vm.OwnerID}
	for v, err := range driverkit.Select(list[filled](ctx, a.client, op, dataVolumes, s.filter(of)),
		func(v filled) (filled, bool, error) { return v, s.ours(v.Metadata, of), nil }) {
		if err != nil {
			return cloud.VM{}, err
		}
		said := conditionOf(v.Status.Conditions, "Running")
		failed := v.Status.Phase == "Failed"
		if failed || said.Status == "False" && said.Message != "" {
			vm.Message = fmt.Sprintf("DataVolume %s: %s", v.Metadata.Name, cmp.Or(said.Message, v.Status.Phase))
		}
		if failed {
			vm.State = cloud.StateFailed
			return vm, nil
		}
	}
	return vm, nil
}

// machines returns the VMs that are provably of r: that of its providerID, or those with the
// labels of the class and the machine.
func (a *account) machines(ctx context.Context, op string, s *spec, r cloud.Ref) ([]machine, error) {
	if r.ProviderID == "" {
		if r.Name == "" {
			return nil, nil // it names no machine
		}
		return mine(s, r, list[machine](ctx, a.client, op, machines, s.filter(r)))
	}
	name, ours := driverkit.DecodeProviderID(r.ProviderID, providerIDScheme, vmName)
	if !ours {
		return nil, nil
	}
	var m machine
	found, err := a.client.get(ctx, op, machines, name, &m)
	if err != nil || !found || !s.ours(m.Metadata, r) {
		return nil, err
	}
	return []machine{m}, nil
}

// mine returns the objects that are provably of r.
func mine[T interface{ metadata() meta }](s *spec, r cloud.Ref, all iter.Seq2[T, error]) ([]T, error) {
	return driverkit.Collect(driverkit.Select(all, func(o T) (T, bool, error) {
		return o, s.ours(o.metadata(), r), nil
	}))
}

func (o object) metadata() meta { return o.Metadata }

// instance returns what a VM runs as; nil if it does not run.
func (a *account) instance(ctx context.Context, op string, m machine) (*instance, error) {
	var i instance
	found, err := a.client.get(ctx, op, instances, m.Metadata.Name, &i)
	if err != nil || !found {
		return nil, err
	}
	return &i, nil
}

// filter returns the labels by which the API server finds what is of r, or of the class if r has
// no name.
func (s *spec) filter(r cloud.Ref) map[string]string {
	labels := maps.Clone(s.owns)
	if r.Name != "" {
		labels[machineLabel] = r.Name
	}
	return labels
}

// List yields the VMs, volumes and Secrets with the labels of the class. VMs have no addresses
// here: they would cost a second listing.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	const op = "list resources"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	labels := s.filter(cloud.Ref{})
	vms := driverkit.Select(list[machine](ctx, a.client, op, machines, labels),
		func(m machine) (cloud.Resource, bool, error) {
			vm, err := a.explained(ctx, op, s, s.vmOf(m, nil))
			return driverkit.VMResource(vm, m.Metadata.tags()), true, driverkit.Restrict(err)
		})
	rest := func(kind cloud.Kind, of collection) driverkit.KindList {
		return driverkit.KindList{Kind: kind, All: driverkit.Select(list[object](ctx, a.client, op, of, labels),
			func(o object) (cloud.Resource, bool, error) { return o.resource(kind), true, nil })}
	}
	return driverkit.List(kinds, driverkit.KindList{Kind: cloud.KindVM, All: vms},
		rest(cloud.KindDisk, dataVolumes), rest(cloud.KindKey, secrets))
}

// resource returns a volume or a Secret as an entry of a listing.
func (o object) resource(kind cloud.Kind) cloud.Resource {
	return cloud.Resource{
		Kind: kind, ID: o.Metadata.Name, MachineName: o.Metadata.machine(), OwnerID: o.Metadata.Labels[ownerLabel],
		Created: o.Metadata.created(), Attached: o.Metadata.owned(), Tags: o.Metadata.tags(),
	}
}

// owned reports whether an object goes with another one.
func (m meta) owned() bool { return len(m.Owners) > 0 }

// Capacity returns what a node of c will offer: what the instance type says, or the class.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	const op = "get instance type"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	all := map[string]string{
		"cpu": s.processors(), "memory": s.Resources.Requests["memory"], "ephemeral-storage": s.RootVolume.size(),
		"pods": "110", // a kubelet's default
	}
	if s.Memory != nil && s.Memory.Guest != "" {
		all["memory"] = s.Memory.Guest
	}
	gpus := len(s.Devices.GPUs)
	if s.InstanceType != nil {
		t, err := a.typeOf(ctx, op, *s.InstanceType)
		if err != nil {
			return cloud.Capacity{}, err
		}
		all["cpu"], all["memory"], gpus = strconv.Itoa(t.Spec.CPU.Guest), t.Spec.Memory.Guest, gpus+len(t.Spec.GPUs)
	}
	if gpus > 0 {
		all["gpu"] = strconv.Itoa(gpus)
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return cloud.Capacity{Resources: all, Architecture: cmp.Or(s.Architecture, "amd64")}, nil
}

// instanceType is an instance type as the driver reads it.
type instanceType struct {
	Spec struct {
		CPU struct {
			Guest int `json:"guest"`
		} `json:"cpu"`
		Memory struct {
			Guest string `json:"guest"`
		} `json:"memory"`
		GPUs []gpu `json:"gpus"`
	} `json:"spec"`
}

// typeOf reads an instance type.
func (a *account) typeOf(ctx context.Context, op string, m matcher) (instanceType, error) {
	var t instanceType
	path := a.client.path(collection{instancetypeAPI, "virtualmachineinstancetypes"}, m.Name)
	if m.Kind == clusterTypeKind {
		path = instancetypeAPI + "/virtualmachineclusterinstancetypes/" + m.Name
	}
	e := a.client.do(ctx, op, driverkit.Call{Method: "GET", URL: path, Out: &t})
	switch {
	case e == nil:
		return t, nil
	case e.Code == cloud.NotFound:
		e.Code = cloud.Invalid
		e = driverkit.WithField(e, "instancetype.name", "name an instance type of the cluster")
	}
	return t, driverkit.Restrict(e, cloud.Invalid)
}

// processors are those of a VM: its topology, or what it asks for.
func (s *spec) processors() string {
	if c := s.CPU; c != nil && c.Cores+c.Sockets+c.Threads > 0 {
		return strconv.Itoa(int(max(c.Cores, 1) * max(c.Sockets, 1) * max(c.Threads, 1)))
	}
	return s.Resources.Requests["cpu"]
}

// size is how large a volume is asked to be.
func (v dataVolume) size() string {
	switch {
	case v.PVC != nil:
		return v.PVC.Resources.Requests["storage"]
	case v.Storage != nil:
		return v.Storage.Resources.Requests["storage"]
	}
	return ""
}
