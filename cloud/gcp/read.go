package gcp

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	return a.get(ctx, "get VM", r)
}

func (a *account) get(ctx context.Context, op string, r cloud.Ref) (cloud.VM, error) {
	i, err := a.find(ctx, op, r)
	if err != nil {
		return cloud.VM{}, err
	}
	if i == nil {
		return driverkit.One(op, r, nil)
	}
	return a.client.vmOf(*i), nil
}

// find returns the instance that is provably of r, or nil if there is none. It has a name that is
// unique in its zone, so that one look into a zone tells.
func (a *account) find(ctx context.Context, op string, r cloud.Ref) (*instance, error) {
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return nil, driverkit.Restrict(err)
	}
	places, err := a.places(op, s, r)
	if err != nil {
		return nil, err
	}
	for _, at := range places {
		i, err := a.client.get(ctx, op, at)
		if err != nil {
			return nil, driverkit.Restrict(err)
		}
		if i != nil && s.owns(*i, r) {
			return i, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// Scope is the project: the names of instances in their zones are those of a project.
func (a *account) Scope(context.Context, cloud.Class) (string, error) {
	return scopeOf(a.client.who.project), nil
}

func scopeOf(project string) string { return "project " + project }

// places returns where the instance of r can be; none if r names no machine. A providerID of another
// project is Denied: here it would not exist.
func (a *account) places(op string, s *spec, r cloud.Ref) ([]place, error) {
	var all []place
	if r.ProviderID != "" {
		project, at, ok := decodeProviderID(r.ProviderID)
		switch {
		case !ok:
			return nil, nil
		case project != a.client.who.project:
			return nil, cloud.WrongScope(op, scopeOf(project), scopeOf(a.client.who.project))
		}
		return []place{at}, nil
	}
	for _, zone := range s.allZones() {
		if r.Name != "" {
			all = append(all, place{zone, r.Name})
		}
	}
	return all, nil
}

// zonesOf returns the zones that parts of r can be in.
func (*account) zonesOf(s *spec, r cloud.Ref) []string {
	if _, at, ok := decodeProviderID(r.ProviderID); ok {
		return []string{at.zone}
	}
	return s.allZones()
}

// wanted is find for calls that need the instance.
func (a *account) wanted(ctx context.Context, op string, r cloud.Ref) (instance, error) {
	i, err := a.find(ctx, op, r)
	if err != nil {
		return instance{}, err
	}
	if i == nil || stateOf(i.Status) == cloud.StateDeleting || a.isGoing(*i) {
		_, err := driverkit.One(op, r, nil)
		return instance{}, err
	}
	return *i, nil
}

// isGoing reports whether the deletion of an instance was accepted a moment ago: the API shows it as
// one that stops.
func (a *account) isGoing(i instance) bool {
	_, going := a.going.Known(i.place())
	return going && stateOf(i.Status) == cloud.StateStopped
}

// List yields the instances of the class's region with its network tags, and the disks with its
// labels.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	const op = "list resources"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	vms := driverkit.Select(a.client.instances(ctx, op, c.Region), func(i instance) (cloud.Resource, bool, error) {
		if !s.has(i) || regionOf(i.place().zone) != c.Region {
			return cloud.Resource{}, false, nil
		}
		return a.whole(ctx, op, i)
	})
	disks := driverkit.Select(a.client.disks(ctx, op, c.Region, "labels."+s.ownership[0]+":*"),
		func(d disk) (cloud.Resource, bool, error) {
			ours := driverkit.Carries(d.Labels, s.ownership) && regionOf(d.place().zone) == c.Region
			return d.resource(), ours, nil
		})
	return driverkit.List(kinds, driverkit.KindList{Kind: cloud.KindVM, All: vms},
		driverkit.KindList{Kind: cloud.KindDisk, All: disks})
}

// whole returns an instance of a listing with all of its tags. Few have one that is in the
// metadata, which listings leave out.
func (a *account) whole(ctx context.Context, op string, i instance) (cloud.Resource, bool, error) {
	for _, value := range i.Labels {
		if value != elsewhere {
			continue
		}
		full, err := a.client.get(ctx, op, i.place())
		if err != nil || full == nil {
			return cloud.Resource{}, false, err
		}
		return a.client.resource(*full), true, nil
	}
	return a.client.resource(i), true, nil
}

// Capacity returns what Compute Engine says of the class's machine type.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	const op = "get machine type"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	var out struct {
		CPUs         int    `json:"guestCpus"`
		MemoryMiB    int64  `json:"memoryMb"`
		Architecture string `json:"architecture"`
		Accelerators []struct {
			Count int64 `json:"guestAcceleratorCount"`
		} `json:"accelerators"`
	}
	call := driverkit.Call{Method: http.MethodGet, URL: in(s.Zone, "machineTypes", s.MachineType), Out: &out}
	if e := a.client.do(ctx, op, call); e != nil {
		return cloud.Capacity{}, driverkit.Restrict(s.refused(e, s.Zone), cloud.Invalid)
	}
	gpus := int64(0)
	for _, g := range out.Accelerators {
		gpus += g.Count
	}
	if s.GPU != nil {
		gpus = max(gpus, s.GPU.Count) // a type that has accelerators of its own takes no others
	}
	all := map[string]string{
		"cpu": strconv.Itoa(out.CPUs), "memory": driverkit.MiB(out.MemoryMiB), "gpu": strconv.FormatInt(gpus, 10),
		"pods": "110", // a kubelet's default
	}
	for _, d := range s.Disks {
		if d.Boot && d.SizeGB > 0 { // else it is as large as the image, whose size is not known here
			all["ephemeral-storage"] = fmt.Sprintf("%dGi", d.SizeGB)
		}
	}
	return cloud.Capacity{Resources: all, Architecture: driverkit.Architecture(out.Architecture)}, nil
}

// Console returns the end of the first serial console.
func (a *account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	const op = "read console"
	i, err := a.wanted(ctx, op, r)
	if err != nil {
		return "", err
	}
	const enough = 4 * cloud.ConsoleMax // a part of it controls a terminal
	var out struct {
		Contents string `json:"contents"`
	}
	e := a.client.do(ctx, op, driverkit.Call{
		Method: http.MethodGet, Out: &out,
		URL: in(i.place().zone, "instances", i.Name, "serialPort") + "?port=1&start=-" + strconv.Itoa(enough),
	})
	if e != nil {
		return "", driverkit.Restrict(e, cloud.NotFound, cloud.Invalid)
	}
	if text := out.Contents; len(text) >= enough { // a line may begin before it
		_, out.Contents, _ = strings.Cut(text, "\n")
	}
	return cloud.ConsoleTail(out.Contents), nil
}
