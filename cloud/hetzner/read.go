package hetzner

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Operations that are not urgent.
const (
	opList     = "list resources"
	opCapacity = "get server type"
	opLabels   = "set labels"
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	const op = "get server"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err)
	}
	found, err := a.find(ctx, op, s, r)
	if err != nil {
		return cloud.VM{}, err
	}
	return driverkit.One(op, r, vms(found))
}

// lostID is the end of a providerID of MCM's whose driver has lost the id.
const lostID = "/0"

// recorded reports whether r has the id of its server. MCM's driver writes hcloud:///<zone>/0 where it has
// lost it; such a server is found by name.
func recorded(r cloud.Ref) bool {
	lost := strings.HasPrefix(r.ProviderID, providerIDPrefix+"/") && strings.HasSuffix(r.ProviderID, lostID)
	return r.ProviderID != "" && !lost
}

// vms returns servers as the controllers see them.
func vms(found []server) []cloud.VM {
	var all []cloud.VM
	for _, t := range found {
		all = append(all, t.vm())
	}
	return all
}

// find returns the servers that are provably of r: that of its providerID, those with the labels
// of the class and the machine, or else that of the machine's name, which MCM made.
func (a *account) find(ctx context.Context, op string, s *spec, r cloud.Ref) ([]server, error) {
	found, err := a.labelled(ctx, op, s, r)
	if err != nil || len(found) > 0 || recorded(r) || r.Name == "" {
		return found, err
	}
	named, err := a.byName(ctx, op, r.Name)
	if err != nil || named == nil || !s.owns(*named, r) {
		return nil, err
	}
	return []server{*named}, nil
}

// labelled returns the server of the providerID of r, or those with the labels of the class and
// the machine, as far as they are provably of r.
func (a *account) labelled(ctx context.Context, op string, s *spec, r cloud.Ref) ([]server, error) {
	all, err := a.candidates(ctx, op, s, r)
	if err != nil {
		return nil, driverkit.Restrict(err)
	}
	return slices.DeleteFunc(all, func(t server) bool { return !s.owns(t, r) }), nil
}

func (a *account) candidates(ctx context.Context, op string, s *spec, r cloud.Ref) ([]server, error) {
	switch {
	case !recorded(r) && r.Name == "":
		return nil, nil // it names no machine
	case !recorded(r):
		selector := s.selector(equals(roleLabel, roleNode), equals(machineLabel, r.Name))
		return driverkit.Collect(list(ctx, &a.client, op, servers(), selecting(selector)))
	}
	id, ours := judge{}.DecodeProviderID(r.ProviderID)
	if !ours {
		return nil, nil
	}
	var answer serverAnswer
	e := a.get(ctx, op, "/servers/"+id, &answer)
	switch {
	case e == nil:
		return []server{answer.Server}, nil
	case e.Code == cloud.NotFound:
		return nil, nil
	}
	return nil, e
}

// byName returns the server of that name, which is the only one; nil if there is none.
func (a *account) byName(ctx context.Context, op, name string) (*server, error) {
	var answer serverList
	if e := a.get(ctx, op, "/servers?"+url.Values{"name": {name}}.Encode(), &answer); e != nil {
		return nil, driverkit.Restrict(e)
	}
	for _, t := range answer.Servers {
		if t.Name == name {
			return &t, nil
		}
	}
	return nil, nil //nolint:nilnil // that there is none is an answer
}

// owns reports whether a server is provably of r.
func (s *spec) owns(t server, r cloud.Ref) bool {
	return t.Labels[clusterLabel] == s.Cluster && t.Labels[roleLabel] == roleNode &&
		driverkit.IsOf(r, t.Labels[ownerLabel], t.machine())
}

// List yields the servers and floating IPs with the labels of the class.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	const op = opList
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	return driverkit.List(kinds,
		driverkit.KindList{Kind: cloud.KindVM, All: driverkit.Select(
			list(ctx, &a.client, op, servers(), selecting(s.selector(equals(roleLabel, roleNode)))),
			func(t server) (cloud.Resource, bool, error) {
				return driverkit.VMResource(t.vm(), codec.Decode(t.Labels)), true, nil
			})},
		driverkit.KindList{Kind: cloud.KindAddress, All: driverkit.Select(
			list(ctx, &a.client, op, floatingIPs(), selecting(s.selector(poolLabel))),
			func(t floatingIP) (cloud.Resource, bool, error) { return t.resource(), true, nil })},
	)
}

// resource returns a floating IP as an entry of a listing.
func (t floatingIP) resource() cloud.Resource {
	return cloud.Resource{
		Kind: cloud.KindAddress, ID: strconv.FormatInt(t.ID, 10), MachineName: t.machine(), OwnerID: t.Labels[ownerLabel],
		Created: t.Created, Attached: t.Server != nil, Tags: codec.Decode(t.Labels),
	}
}

// Capacity returns what Hetzner says of the class's server type.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	const op = opCapacity
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	t, err := a.serverType(ctx, op, s.ServerType)
	if err != nil {
		return cloud.Capacity{}, driverkit.Restrict(err, cloud.Invalid)
	}
	const mib = 1024
	return cloud.Capacity{Architecture: driverkit.Architecture(t.Architecture), Resources: map[string]string{
		"cpu": strconv.Itoa(t.Cores), "memory": driverkit.MiB(int64(t.Memory * mib)),
		"ephemeral-storage": fmt.Sprintf("%dG", t.Disk), "pods": "110", // a kubelet's default
	}}, nil
}
