package openstack

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opGet  = "get server"
	opList = "list resources"
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
// volumes, ports.
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
		for s, failed := range a.servers(ctx, opList, nil) {
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
