package sim

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// drainWait is when it is worth looking again whether connections are closed.
const drainWait = time.Second

// Memberships returns the load balancers of c, each as <id>/<port>.
func (d *Driver) Memberships(c cloud.Class) []string {
	s, ok := c.Spec.(*spec)
	if !ok {
		return nil
	}
	var places []string
	for _, b := range s.LoadBalancers {
		if b.ID != "" && b.Port > 0 {
			places = append(places, b.ID+"/"+strconv.Itoa(int(b.Port)))
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// Register registers the VM of r with load balancers.
func (a *account) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	const op = "register VM"
	vm, err := a.staying(ctx, op, r)
	if err != nil {
		return cloud.Registration{}, err
	}
	if vm.VM.State != StateRunning {
		return cloud.Registration{
			RetryAfter: within(vm.VM.Running.Sub(vm.Made)), Waiting: []string{KindVM + " " + vm.ID + ": " + vm.VM.State},
		}, nil
	}
	for _, place := range places {
		if m, ok := vm.membership(place); ok && m.Draining.IsZero() {
			continue
		}
		err := a.client.call(ctx, r.Class.Region, memberRequest(op, http.MethodPut, vm.ID, place), &Resource{})
		if err != nil {
			return cloud.Registration{}, driverkit.Restrict(err, cloud.NotFound, cloud.Invalid, cloud.Exhausted)
		}
	}
	return cloud.Registration{Done: true}, nil
}

// Deregister takes the VM of r out of load balancers, and reports whether they have closed
// their connections to it.
func (a *account) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	const op = "deregister VM"
	vm, err := a.staying(ctx, op, r)
	if cloud.CodeOf(err) == cloud.NotFound {
		return cloud.Registration{Done: true}, nil
	}
	if err != nil {
		return cloud.Registration{}, err
	}
	out := cloud.Registration{}
	for _, place := range places {
		left, err := a.leave(ctx, vm, place)
		if err != nil {
			return cloud.Registration{}, err
		}
		if !left {
			out.Waiting, out.RetryAfter = append(out.Waiting, place+": draining"), drainWait
		}
	}
	slices.Sort(out.Waiting)
	out.Done = len(out.Waiting) == 0
	return out, nil
}

// leave takes a VM out of a load balancer, and reports whether that has closed its connections.
func (a *account) leave(ctx context.Context, vm Resource, place string) (bool, error) {
	m, ok := vm.membership(place)
	if !ok || !m.active() {
		return !ok, nil
	}
	var after Resource
	err := a.client.call(ctx, vm.Region, memberRequest("deregister VM", http.MethodDelete, vm.ID, place), &after)
	if e, refused := errors.AsType[*cloud.Error](err); refused {
		if e.Reason == CodeInvalidLoadBalancer || e.Code == cloud.NotFound {
			return true, nil // load balancer or VM have gone meanwhile
		}
		return false, driverkit.Restrict(err)
	}
	_, ok = after.membership(place)
	return !ok, nil
}

// staying returns the VM of r, unless it is being deleted.
func (a *account) staying(ctx context.Context, op string, r cloud.Ref) (Resource, error) {
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return Resource{}, err
	}
	found, err := a.find(ctx, op, s, r)
	if err != nil {
		return Resource{}, err
	}
	found = slices.DeleteFunc(slices.Clone(found), func(f Resource) bool { return f.VM == nil || !f.Deleting.IsZero() })
	if len(found) == 0 {
		return Resource{}, cloud.Errorf(cloud.NotFound, op, CodeNotFound, "the cloud shows no VM of machine %q", r.Name)
	}
	_, err = one(op, r, found)
	return found[0], err
}

// membership returns a VM's place in a load balancer; ok is false if it has none there.
func (r *Resource) membership(place string) (m Membership, ok bool) {
	if r.VM == nil {
		return Membership{}, false
	}
	return find(r.VM.Memberships, func(m Membership) bool { return m.LoadBalancer+"/"+strconv.Itoa(m.Port) == place })
}

// memberRequest is a request about a VM's place in a load balancer.
func memberRequest(op, method, vm, place string) request {
	balancer, port, _ := strings.Cut(place, "/")
	return request{op: op, method: method, path: []string{"vms", vm, "memberships", balancer, port}}
}
