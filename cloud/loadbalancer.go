package cloud

import (
	"context"
	"time"
)

// ReasonLoadBalancersUnsupported is the reason of the error of code Invalid for a cloud whose
// driver cannot register VMs with load balancers.
const ReasonLoadBalancersUnsupported = "LoadBalancersUnsupported"

// A Balancer is a Driver whose classes can name load balancers for their VMs: its accounts
// are Registrars.
type Balancer interface {
	// Memberships returns the places in load balancers that c names for its VMs, each as a
	// text that the Account understands, e.g. a target group with a port. Equal texts are the
	// same place, in every class of the same endpoint. They are sorted, distinct and no
	// secrets. What Parse has found wrong is left out.
	Memberships(c Class) []string
}

// A Registrar is an Account that can register VMs with load balancers. Both calls can be
// repeated, and do not wait for a load balancer.
type Registrar interface {
	// Register makes the VM of r a member at each of these places, which are texts of
	// Balancer.Memberships. A VM that does not run yet is registered later: then it is not
	// done. Done means that the load balancers have accepted the VM, not that it is healthy
	// for them. After an error the VM may be a member at some of the places.
	// Codes: NotFound (no such VM, or one that is going), Invalid (there is no such place, or
	// it does not take this VM), Denied, Exhausted (no room for another member), Throttled,
	// Unavailable, Unknown.
	Register(ctx context.Context, r Ref, places []string) (Registration, error)

	// Deregister takes the VM of r out of each of these places, and reports whether it gets no
	// requests from them any more. A place that does not exist, and a VM that is not a member
	// or is gone, are done. It changes only members that are provably of r.
	// Codes: Invalid (not a text of Balancer.Memberships), Denied, Throttled, Unavailable,
	// Unknown.
	Deregister(ctx context.Context, r Ref, places []string) (Registration, error)
}

// Registration is how far a call of a Registrar is.
type Registration struct {
	Done       bool
	RetryAfter time.Duration // when it is worth calling again; 0 if Done
	Waiting    []string      // what it waits for, e.g. "<place>: draining", sorted; empty if Done
}

// Register registers a VM with load balancers. An Account that is no Registrar refuses that as
// Invalid.
func Register(ctx context.Context, a Account, r Ref, places []string) (Registration, error) {
	if g, ok := a.(Registrar); ok {
		return g.Register(ctx, r, places)
	}
	return Registration{}, noRegistrar("register VM")
}

// Deregister takes a VM out of load balancers. An Account that is no Registrar refuses that as
// Invalid.
func Deregister(ctx context.Context, a Account, r Ref, places []string) (Registration, error) {
	if g, ok := a.(Registrar); ok {
		return g.Deregister(ctx, r, places)
	}
	return Registration{}, noRegistrar("deregister VM")
}

func noRegistrar(op string) error {
	return Errorf(Invalid, op, ReasonLoadBalancersUnsupported,
		"the cloud's driver cannot register VMs with load balancers")
}
