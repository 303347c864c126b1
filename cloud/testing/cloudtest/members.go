package cloudtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Register calls Register and checks what holds for every one.
func (g *guard) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	g.k.Helper()
	return g.member(ctx, "register", r, places, cloud.Register)
}

// Deregister calls Deregister and checks what holds for every one.
func (g *guard) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	g.k.Helper()
	return g.member(ctx, "deregister", r, places, cloud.Deregister)
}

func (g *guard) member(ctx context.Context, op string, r cloud.Ref, places []string, call memberCall) (
	out cloud.Registration, err error,
) {
	g.k.Helper()
	given := slices.Clone(places)
	g.promptly(ctx, op, func(ctx context.Context) { out, err = call(ctx, g.next, r, given) })
	switch {
	case !slices.Equal(given, places):
		g.k.Errorf("%s changes its arguments", op)
	case err != nil:
		g.checkError(op, err)
	case out.Done && (out.RetryAfter != 0 || len(out.Waiting) != 0):
		g.k.Errorf("%s is done, and yet says %+v", op, out)
	case !out.Done && (out.RetryAfter <= 0 || len(out.Waiting) == 0 || !slices.IsSorted(out.Waiting)):
		g.k.Errorf("%s is not done: want RetryAfter > 0 and what it waits for, sorted; got %+v", op, out)
	}
	return out, err
}

// balancing is C38: VMs join and leave their load balancers, and no others do.
func balancing(k *kit) {
	k.needs(k.f.Balanced.Spec != nil && k.f.NoPlace != "" && k.f.Backend.Members != nil,
		"Fixture.Balanced, Fixture.NoPlace or Backend.Members")
	b, ok := k.f.Driver().(cloud.Balancer)
	if !ok {
		k.Fatal("the driver is no cloud.Balancer")
	}
	if places := b.Memberships(k.class); len(places) > 0 {
		k.Errorf("a class without load balancers has the places %v", places)
	}
	k.class = k.parse(k.f.Driver(), k.f.Balanced)
	places := b.Memberships(k.class)
	if len(places) == 0 || !slices.IsSorted(places) || len(slices.Compact(slices.Clone(places))) < len(places) {
		k.Fatalf("the class has the places %v, want some, sorted, each once", places)
	}
	before := k.ledger()
	k.part("Life", func(k *kit) { balancedLife(k, places) })
	k.part("Strangers", func(k *kit) { balancedStrangers(k, places) })
	k.part("NoSuchPlace", func(k *kit) { noSuchPlace(k, places) })
	balancedCrashes(k, places)
	k.same(before)
}

// balancedLife registers a VM as early as can be, and takes it out again.
func balancedLife(k *kit, places []string) {
	a := k.account()
	m, other := k.machine(), k.machine()
	other.running(a)
	other.join(a, places)
	m.create(a)
	_, err := a.Register(k.Context(), m.now(), places)
	if err != nil && cloud.CodeOf(err) != cloud.NotFound && !passes(err) {
		k.Errorf("register a VM that was just made: %v", err)
	}
	m.running(a)
	m.join(a, places)
	k.members("registered", places, m, 1)
	m.join(a, places)
	k.members("registered twice", places, m, 1)
	m.leave(a, places)
	k.members("deregistered", places, m, 0)
	m.leave(a, places)
	m.join(a, places)
	k.members("registered again", places, m, 1)
	k.members("registered before", places, other, 1)
	m.delete(a)
	m.leave(a, places)
	k.members("gone", places, m, 0)
	other.leave(a, places)
	other.delete(a)
}

// balancedStrangers registers and deregisters for another owner, who has no such VM.
func balancedStrangers(k *kit, places []string) {
	a, m := k.account(), k.machine()
	m.running(a)
	m.join(a, places)
	stranger := m.now()
	stranger.OwnerID = randomID()
	n := k.mutations(func() {
		if _, err := a.Register(k.Context(), stranger, places); cloud.CodeOf(err) != cloud.NotFound || err == nil {
			k.Errorf("register the VM of another owner: got %v, want NotFound", err)
		}
		if out, err := a.Deregister(k.Context(), stranger, places); err != nil || !out.Done {
			k.Errorf("deregister the VM of another owner: got %+v, %v, want that it is done", out, err)
		}
	})
	if n > 0 {
		k.Errorf("for the VM of another owner there are %d mutating calls, want none", n)
	}
	k.members("deregistered for another owner", places, m, 1)
	m.leave(a, places)
	m.delete(a)
}

// noSuchPlace names a load balancer that does not exist.
func noSuchPlace(k *kit, places []string) {
	a, m := k.account(), k.machine()
	m.running(a)
	if _, err := a.Register(k.Context(), m.now(), []string{k.f.NoPlace}); cloud.CodeOf(err) != cloud.Invalid {
		k.Errorf("register with a load balancer that does not exist: got %v, want Invalid", err)
	}
	m.join(a, places)
	m.leave(a, append([]string{k.f.NoPlace}, places...))
	k.members("deregistered, one load balancer is gone", places, m, 0)
	m.delete(a)
}

// balancedCrashes loses each call of both, or its answer, and goes on as a new process, which
// either registers or deregisters.
func balancedCrashes(k *kit, places []string) {
	a, m := k.account(), k.machine()
	m.running(a)
	joining := k.mutations(func() { m.join(a, places) })
	leaving := k.mutations(func() { m.leave(a, places) })
	if joining == 0 || leaving == 0 {
		k.Fatalf("register makes %d and deregister %d mutating calls through the proxy, want at least one each", joining,
			leaving)
	}
	for name, kind := range lost() {
		for i := range joining {
			k.part(fmt.Sprintf("%s%d_InRegister", name, i+1), func(k *kit) {
				m.interrupt(kind, i+1, cloud.Register, places)
				b := k.account()
				m.join(b, places)
				k.members("registered after a crash", places, m, 1)
				m.leave(b, places)
				m.interrupt(kind, i+1, cloud.Register, places)
				m.leave(k.account(), places)
				k.members("deregistered after a crash", places, m, 0)
			})
		}
		for i := range leaving {
			k.part(fmt.Sprintf("%s%d_InDeregister", name, i+1), func(k *kit) {
				b := k.account()
				m.join(b, places)
				m.interrupt(kind, i+1, cloud.Deregister, places)
				m.leave(k.account(), places)
				k.members("deregistered after a crash", places, m, 0)
			})
		}
	}
	m.delete(a)
}

// interrupt makes a call in a process that dies at its nth mutating call.
func (m *machine) interrupt(kind FaultKind, nth int, call memberCall, places []string) {
	m.k.Helper()
	a := m.k.account()
	fault := m.k.proxy.Inject(Fault{Kind: kind, Match: Mutating, Nth: nth})
	for range 50 { // a load balancer that is busy takes one change after the other
		out, err := call(m.k.Context(), a, m.now(), places)
		m.k.Logf("after the fault: %+v, %v", out, err)
		if fault.Fired() > 0 || err == nil && out.Done {
			break
		}
		m.k.pass(out.RetryAfter)
	}
	m.k.fires(fault)
	_ = a.Close()
}

// memberCall is cloud.Register or cloud.Deregister.
type memberCall = func(context.Context, cloud.Account, cloud.Ref, []string) (cloud.Registration, error)

// join calls Register until it is done.
func (m *machine) join(a cloud.Account, places []string) {
	m.k.Helper()
	m.change(a, "register ", cloud.Register, places)
}

// leave calls Deregister until it is done.
func (m *machine) leave(a cloud.Account, places []string) {
	m.k.Helper()
	m.change(a, "deregister ", cloud.Deregister, places)
}

func (m *machine) change(a cloud.Account, what string, call memberCall, places []string) {
	m.k.Helper()
	m.k.until(what+m.ref.Name, func() (bool, error) {
		out, err := call(m.k.Context(), a, m.now(), places)
		return out.Done, err
	})
}

// members fails unless the VM of m is a member at each of the places so many times.
func (k *kit) members(what string, places []string, m *machine, want int) {
	k.Helper()
	id, _ := k.f.Driver().DecodeProviderID(m.now().ProviderID)
	for _, place := range places {
		all := k.f.Backend.Members(k.T, place)
		got := 0
		for _, member := range all {
			if member == id {
				got++
			}
		}
		if got != want {
			k.Errorf("%s: the VM %s is %d times among the members %v of %s, want %d", what, id, got, all, place, want)
		}
	}
}
