package azure

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opList = "list resources"

// List yields the VMs, disks and interfaces with the tags of the class. Azure does not select
// by tags here.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	s, err := driverkit.SpecOf[*spec](opList, c)
	if err != nil {
		return driverkit.Failed[cloud.Resource](driverkit.Restrict(err))
	}
	return driverkit.List(kinds,
		driverkit.KindList{Kind: cloud.KindVM, All: a.listVMs(ctx, s)},
		driverkit.KindList{
			Kind: cloud.KindInterface,
			All:  listOf(s, grouped[networkInterface](ctx, a, s, nicType, networkVersion), s.interfaceOf),
		},
		driverkit.KindList{
			Kind: cloud.KindDisk, All: listOf(s, grouped[disk](ctx, a, s, diskType, diskVersion), s.diskResource),
		})
}

// listOf yields those of the resources that carry the ownership tags.
func listOf[T interface{ tags() map[string]string }](s *spec, all iter.Seq2[T, error],
	convert func(T) cloud.Resource,
) iter.Seq2[cloud.Resource, error] {
	return driverkit.Select(all, func(t T) (cloud.Resource, bool, error) {
		if !driverkit.Carries(t.tags(), s.ownership) {
			return cloud.Resource{}, false, nil
		}
		return convert(t), true, nil
	})
}

// grouped yields all resources of one type in the class's group. There are none without the
// group.
func grouped[T any](ctx context.Context, a *account, s *spec, kind, version string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for t, err := range list[T](ctx, a.client, opList, request{path: a.client.path(s, kind, ""), version: version}) {
			if err != nil && cloud.CodeOf(err) == cloud.NotFound {
				return
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// listVMs yields the VMs of the class. Lists of a group do not say which of them run, and
// lists of a subscription say nothing else: both are read side by side.
func (a *account) listVMs(ctx context.Context, s *spec) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		running := a.views(ctx)
		defer running.stop()
		for v, err := range grouped[virtualMachine](ctx, a, s, vmType, computeVersion) {
			if err == nil && !driverkit.Carries(v.tags(), s.ownership) {
				continue
			}
			if err == nil && v.Properties.ProvisioningState != stateCreating {
				v.Properties.InstanceView, err = running.of(v.ID)
			}
			if err != nil {
				yield(cloud.Resource{}, err)
				return
			}
			if !yield(driverkit.VMResource(s.vmOf(v), v.userTags()), nil) {
				return
			}
		}
	}
}

// views are the instance views of all VMs of the subscription, read as far as needed.
type views struct {
	next func() (virtualMachine, error, bool)
	stop func()
	seen map[string]*instanceView // by id in small letters
	done bool
}

func (a *account) views(ctx context.Context) *views {
	w := &views{seen: map[string]*instanceView{}}
	w.next, w.stop = iter.Pull2(list[virtualMachine](ctx, a.client, opList, request{
		path: "/subscriptions/" + url.PathEscape(a.client.subscription) + "/providers/" + vmType, version: computeVersion,
		query: url.Values{"statusOnly": {"true"}},
	}))
	return w
}

// of returns the view of a VM; nil if the cloud does not show it. Credentials that may not
// look at the whole subscription see none.
func (w *views) of(id string) (*instanceView, error) {
	id = strings.ToLower(id)
	for w.seen[id] == nil && !w.done {
		v, err, more := w.next()
		switch {
		case !more || cloud.CodeOf(err) == cloud.Denied:
			w.done = true
		case err != nil:
			return nil, err
		default:
			w.seen[strings.ToLower(v.ID)] = v.Properties.InstanceView
		}
	}
	return w.seen[id], nil
}

// userTags are the tags of a resource as they were given, in the case that the cloud shows.
func (r resource) userTags() map[string]string { return codec.Decode(r.Tags) }

func (s *spec) interfaceOf(n networkInterface) cloud.Resource {
	n.Type = nicType
	out := s.partOf(cloud.KindInterface, n.resource)
	out.Attached = n.Properties.VM != nil && n.Properties.VM.ID != ""
	out.Created, _ = time.Parse(time.RFC3339, n.tags()[createdTag])
	return out
}

func (s *spec) diskResource(d disk) cloud.Resource {
	d.Type = diskType
	out := s.partOf(cloud.KindDisk, d.resource)
	out.Attached = d.ManagedBy != ""
	if d.Properties.TimeCreated != nil {
		out.Created = *d.Properties.TimeCreated
	}
	return out
}

func (s *spec) partOf(kind cloud.Kind, t resource) cloud.Resource {
	return cloud.Resource{
		Kind: kind, ID: t.Name, MachineName: s.machineOf(t), OwnerID: t.tags()[ownerTag], Tags: t.userTags(),
	}
}
