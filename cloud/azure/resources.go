package azure

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"path"
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
	return func(yield func(cloud.Resource, error) bool) {
		interfaces := newLookup(ctx, func(ctx context.Context) iter.Seq2[networkInterface, error] {
			return grouped[networkInterface](ctx, a, s, nicType, networkVersion)
		})
		if !cloud.Wants(kinds, cloud.KindInterface) { // else the listing is read to its end anyway
			interfaces.one = func(id string) (n networkInterface, err error) {
				if e := a.client.do(ctx, opList, request{
					method: http.MethodGet, path: id, version: networkVersion, out: &n,
				}); e != nil {
					return n, e
				}
				return n, nil
			}
		}
		defer interfaces.stop()
		driverkit.List(kinds,
			driverkit.KindList{Kind: cloud.KindVM, All: a.listVMs(ctx, s, interfaces)},
			driverkit.KindList{Kind: cloud.KindInterface, All: listOf(s, interfaces.all(), s.interfaceOf)},
			driverkit.KindList{
				Kind: cloud.KindDisk, All: listOf(s, grouped[disk](ctx, a, s, diskType, diskVersion), s.diskResource),
			})(yield)
	}
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

// listVMs yields the VMs of the class. Lists of a group say neither which of them run nor
// their addresses, so the lists that do are read beside it, as far as needed.
func (a *account) listVMs(ctx context.Context, s *spec, interfaces *lookup[networkInterface],
) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		states := a.states(ctx, s)
		defer states.stop()
		for v, err := range grouped[virtualMachine](ctx, a, s, vmType, computeVersion) {
			if err == nil && !driverkit.Carries(v.tags(), s.ownership) {
				continue
			}
			var vm cloud.VM
			if err == nil {
				vm, err = a.listed(s, v, states, interfaces)
			}
			if err != nil {
				yield(cloud.Resource{}, err)
				return
			}
			if !yield(driverkit.VMResource(vm, v.userTags()), nil) {
				return
			}
		}
	}
}

// listed completes a VM of a list.
func (a *account) listed(s *spec, v virtualMachine, states *lookup[virtualMachine],
	interfaces *lookup[networkInterface],
) (cloud.VM, error) {
	if v.Properties.ProvisioningState == stateCreating || v.Properties.ProvisioningState == stateDeleting {
		return s.vmOf(v), nil
	}
	shown, _, err := states.of(v.ID)
	if err != nil {
		return cloud.VM{}, err
	}
	v.Properties.InstanceView = shown.Properties.InstanceView
	vm := s.vmOf(v)
	for _, id := range a.interfaces(s, v) {
		n, found, err := interfaces.of(id)
		if err != nil {
			return cloud.VM{}, err
		}
		if found {
			vm.Addresses = append(vm.Addresses, n.addresses()...)
		}
	}
	return vm, nil
}

// lookup finds resources of a listing by their ids, and reads no more of it than it has to. The listing may be full of
// what is somebody else's: when it has read more pages than it was asked for ids that they did not have, it asks for
// one resource. So a look-up costs at most about twice as much as the cheaper of the two ways.
type lookup[T interface{ id() string }] struct {
	one    func(id string) (T, error) // asks for one resource; nil reads the listing on
	pages  int                        // of the listing that were asked for
	missed int                        // ids that were asked for and were not in the pages that had been read

	next   func() (T, error, bool)
	stop   func()
	seen   map[string]T // by id in small letters
	read   []T          // in the order of the listing
	done   bool
	denied error // why there is no more; nil if that was all
}

func newLookup[T interface{ id() string }](ctx context.Context, all func(context.Context) iter.Seq2[T, error],
) *lookup[T] {
	l := &lookup[T]{seen: map[string]T{}}
	l.next, l.stop = iter.Pull2(all(cloud.CountPages(ctx, func() {
		l.pages++
		cloud.PageAsked(ctx)
	})))
	return l
}

// of returns the resource with this id, if the listing has it. A listing that is denied is
// empty.
func (l *lookup[T]) of(id string) (item T, found bool, err error) {
	wanted := id
	id = strings.ToLower(id)
	for first := true; !l.done; first = false {
		if item, found = l.seen[id]; found {
			return item, true, nil
		}
		if first {
			l.missed++
		}
		if l.one != nil && l.pages > l.missed {
			return l.ask(wanted)
		}
		if err := l.advance(); err != nil {
			return item, false, err
		}
	}
	item, found = l.seen[id]
	return item, found, nil
}

// ask asks for one resource. One that is denied or has gone is not found.
func (l *lookup[T]) ask(id string) (item T, found bool, err error) {
	item, err = l.one(id)
	switch cloud.CodeOf(err) {
	case cloud.Denied, cloud.NotFound:
		return item, false, nil
	case cloud.Unknown, cloud.Invalid, cloud.Exhausted, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return item, err == nil, err
}

// advance reads one more resource of the listing.
func (l *lookup[T]) advance() error {
	next, err, more := l.next()
	switch {
	case !more:
		l.done = true
	case cloud.CodeOf(err) == cloud.Denied:
		l.done, l.denied = true, err
	case err != nil:
		return err
	default:
		l.seen[strings.ToLower(next.id())], l.read = next, append(l.read, next)
	}
	return nil
}

// all yields the whole listing, without reading again what has been read. One that is denied is an error.
func (l *lookup[T]) all() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for at := 0; ; at++ {
			for at == len(l.read) && !l.done {
				if err := l.advance(); err != nil {
					yield(none, err)
					return
				}
			}
			switch {
			case at < len(l.read):
				if !yield(l.read[at], nil) {
					return
				}
			case l.denied != nil:
				yield(none, l.denied)
				return
			default:
				return
			}
		}
	}
}

func (r resource) id() string { return r.ID }

// states are the instance views of VMs of the subscription: the API lists those of all groups together only.
func (a *account) states(ctx context.Context, s *spec) *lookup[virtualMachine] {
	l := newLookup(ctx, func(ctx context.Context) iter.Seq2[virtualMachine, error] {
		return list[virtualMachine](ctx, a.client, opList, request{
			path: "/subscriptions/" + url.PathEscape(a.client.subscription) + "/providers/" + vmType, version: computeVersion,
			query: url.Values{"statusOnly": {"true"}},
		})
	})
	l.one = func(id string) (virtualMachine, error) {
		v, _, err := a.named(ctx, opList, s, path.Base(id))
		return v, err
	}
	return l
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
