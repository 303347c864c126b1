package cloudtest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// lifecycle is C04: a VM comes, is seen, and goes without a trace.
func lifecycle(k *kit) {
	before, m, a := k.ledger(), k.machine(), k.account()
	if _, err := a.Get(k.Context(), m.now()); cloud.CodeOf(err) != cloud.NotFound {
		k.Errorf("get what was never created: got %v, want NotFound", err)
	}
	made := m.create(a)
	k.isOf("create", made, m)
	vm := m.running(a)
	k.isOf("get", vm, m)
	if vm.ID != made.ID || vm.ProviderID != made.ProviderID {
		k.Errorf("create returned %s (%s), get returns %s (%s)", made.ID, made.ProviderID, vm.ID, vm.ProviderID)
	}
	if vm.Created.IsZero() && !k.traits.Legacy || vm.InstanceType != k.class.InstanceType || vm.Region != k.class.Region {
		k.Errorf("get: created %v, type %q, region %q, want a time, %q and %q",
			vm.Created, vm.InstanceType, vm.Region, k.class.InstanceType, k.class.Region)
	}
	byName := m.now()
	byName.ProviderID = ""
	if got, err := a.Get(k.Context(), byName); err != nil || got.ID != vm.ID {
		k.Errorf("get by name: got %q, %v, want %q", got.ID, err, vm.ID)
	}
	r := k.listed(a, k.class)[key(cloud.Resource{Kind: cloud.KindVM, ID: vm.ID})]
	if r.VM == nil || r.MachineName != m.ref.Name || r.OwnerID != m.ref.OwnerID || r.VM.ProviderID != vm.ProviderID ||
		r.Created.IsZero() && !k.traits.Legacy {
		k.Errorf("list yields for the VM: %+v", r)
	}
	if r.VM != nil {
		k.isOf("list", *r.VM, m)
	}
	if !tagged(r.Tags, m.tags) {
		k.Errorf("list: tags %v, want those of the request among them: %v", r.Tags, m.tags)
	}
	k.carryClusterID(a, m)
	k.part("Zone", zone)
	m.delete(a)
	m.gone(a)
	if _, still := k.listed(a, k.class)[key(cloud.Resource{Kind: cloud.KindVM, ID: vm.ID})]; still {
		k.Error("list yields the VM after its deletion")
	}
	k.same(before)
}

// tagged reports whether all of want is in tags.
func tagged(tags, want map[string]string) bool {
	for k, v := range want {
		if tags[k] != v {
			return false
		}
	}
	return true
}

// carryClusterID fails unless all that was made for m has the id of its Cluster: the
// collector of orphans tells by it whose they are.
func (k *kit) carryClusterID(a cloud.Account, m *machine) {
	k.Helper()
	for _, r := range k.listed(a, k.class) {
		if r.OwnerID == m.ref.OwnerID && r.Tags[cloud.ClusterIDTag] != m.tags[cloud.ClusterIDTag] {
			k.Errorf("list: %s %s has tags %v, want the id of the Cluster among them", r.Kind, r.ID, r.Tags)
		}
	}
}

// isOf fails unless vm says whose it is.
func (k *kit) isOf(op string, vm cloud.VM, m *machine) {
	k.Helper()
	if vm.Name != m.ref.Name || vm.OwnerID != m.ref.OwnerID {
		k.Errorf("%s: VM of %q, %q, want %q, %q", op, vm.Name, vm.OwnerID, m.ref.Name, m.ref.OwnerID)
	}
}

// zone makes a VM in the zone that the request names.
func zone(k *kit) {
	k.needs(k.class.Zone != "", "a zone in Fixture.Class")
	m, a := k.machine(), k.account()
	r := m.request()
	r.Zone = k.class.Zone
	vm, err := a.Create(k.Context(), r)
	if err != nil {
		k.Fatalf("create in zone %s: %v", r.Zone, err)
	}
	if vm.Zone != "" && vm.Zone != k.class.Zone {
		k.Errorf("create in zone %s: got a VM in %s", k.class.Zone, vm.Zone)
	}
	if got := m.running(a); got.Zone != k.class.Zone {
		k.Errorf("get: zone %q, want %q", got.Zone, k.class.Zone)
	}
	m.delete(a)
}

// twice is C06: a create that is repeated makes nothing more.
func twice(k *kit) {
	k.part("Sequential", func(k *kit) {
		before, m, a := k.ledger(), k.machine(), k.account()
		first := m.create(a)
		after := k.ledger()
		for _, again := range []*guard{a, k.account()} {
			if vm := m.create(again); vm.ID != first.ID || vm.ProviderID != first.ProviderID {
				k.Errorf("create again: got %s, want %s", vm.ProviderID, first.ProviderID)
			}
		}
		m.only()
		k.same(after)
		m.delete(a)
		k.same(before)
	})
	k.part("Running", func(k *kit) {
		m, a := k.machine(), k.account()
		first := m.running(a)
		m.ref.ProviderID = ""
		if vm := m.create(a); vm.ID != first.ID {
			k.Errorf("create when it runs: got %s, want %s", vm.ID, first.ID)
		}
		m.only()
		m.delete(a)
	})
	k.part("Parallel", func(k *kit) { k.together(func() *guard { return nil }) })
	k.part("Processes", func(k *kit) { k.together(k.account) })
}

// together creates one VM eight times at once; each caller has the account
// that other returns, or they share one. A call whose answer did not come in time
// may still make a VM: the next Create takes back what is too many.
func (k *kit) together(other func() *guard) {
	k.Helper()
	before, m, a := k.ledger(), k.machine(), k.account()
	var wg sync.WaitGroup
	var unanswered atomic.Bool
	for range 8 {
		mine := a
		if o := other(); o != nil {
			mine = o
		}
		wg.Go(func() {
			if _, err := mine.Create(k.Context(), m.request()); err != nil {
				k.Logf("create %s beside others: %v", m.ref.Name, err)
				unanswered.Store(true)
			}
		})
	}
	wg.Wait()
	m.create(a)
	if unanswered.Load() {
		k.until("one VM of "+m.ref.Name, func() (bool, error) {
			_, err := m.attempt(a)
			return err == nil && len(m.vms()) == 1, err
		})
	}
	m.only()
	m.delete(a)
	k.same(before)
}

// deletes is C09: whatever is there, delete gets to done.
func deletes(k *kit) {
	k.part("NeverCreated", func(k *kit) {
		before, m, a := k.ledger(), k.machine(), k.account()
		if d, err := a.Delete(k.Context(), m.now()); err != nil || !d.Done || d.Found {
			k.Errorf("delete of nothing: got %+v, %v, want done and nothing found", d, err)
		}
		k.same(before)
	})
	k.part("AlreadyGone", func(k *kit) {
		m, a := k.machine(), k.account()
		m.running(a)
		m.delete(a)
		for _, again := range []*guard{a, k.account()} {
			if d, err := again.Delete(k.Context(), m.now()); err != nil || !d.Done {
				k.Errorf("delete what is gone: got %+v, %v, want done", d, err)
			}
		}
	})
	k.part("Twice", func(k *kit) {
		before, m, a := k.ledger(), k.machine(), k.account()
		m.running(a)
		for range 2 {
			if _, err := a.Delete(k.Context(), m.now()); err != nil {
				k.Errorf("delete again at once: %v", err)
			}
		}
		m.delete(a)
		k.same(before)
	})
	k.part("WhilePending", func(k *kit) {
		before, m, a := k.ledger(), k.machine(), k.account()
		if _, err := a.Create(k.Context(), m.request()); err != nil {
			k.Fatalf("create: %v", err)
		}
		m.delete(a)
		k.same(before)
	})
	k.part("GoneInBetween", goneInBetween)
	k.part("OtherProviderID", otherProviderID)
	k.part("BrokenSpec", brokenSpec)
}

// goneInBetween lets somebody else delete the VM while we do.
func goneInBetween(k *kit) {
	before, m, a, other := k.ledger(), k.machine(), k.account(), k.account()
	m.running(a)
	var once sync.Once
	fault := k.proxy.Inject(Fault{Kind: Delay, Match: Mutating, Met: func(Call) {
		once.Do(func() { m.delete(other) })
	}})
	if _, err := a.Delete(k.Context(), m.now()); err != nil {
		k.Errorf("delete while somebody else does: %v", err)
	}
	k.fires(fault)
	m.delete(a)
	k.same(before)
}

// otherProviderID deletes by a providerID that has become wrong and a name that
// is right.
func otherProviderID(k *kit) {
	before, m, a := k.ledger(), k.machine(), k.account()
	old := m.running(a)
	m.delete(a)
	m.ref.ProviderID, m.token = "", randomID()
	m.running(a)
	right := m.now()
	wrong := right
	wrong.ProviderID = old.ProviderID
	if _, err := a.Delete(k.Context(), wrong); err != nil {
		k.Errorf("delete by the providerID of a VM that is gone: %v", err)
	}
	m.ref = right
	m.delete(a)
	k.same(before)
}

// brokenSpec deletes with a class that could not create.
func brokenSpec(k *kit) {
	k.needs(len(k.f.Broken.Spec) > 0, "Fixture.Broken")
	before, m, a := k.ledger(), k.machine(), k.account()
	m.running(a)
	c, problems := k.f.Driver().Parse(copyInput(k.f.Broken))
	if len(worst(problems, cloud.BlocksAll)) > 0 || len(worst(problems, cloud.BlocksCreate)) == 0 {
		k.Errorf("Fixture.Broken: want problems that rule out creation only, got %+v", problems)
	}
	m.ref.Class, m.ref.ProviderID = c, ""
	if _, err := a.Get(k.Context(), m.now()); err != nil {
		k.Errorf("get with a broken spec: %v", err)
	}
	m.delete(a)
	k.same(before)
}

// nodeName is C14: the node's name is known once the VM runs.
func nodeName(k *kit) {
	m, a := k.machine(), k.account()
	vm := m.running(a)
	if k.traits.NodeNamed {
		if vm.NodeName != m.ref.Name {
			k.Errorf("node name %q, want that of the machine, %q", vm.NodeName, m.ref.Name)
		}
		m.delete(a)
		return
	}
	k.needs(k.h.NodeName != nil, "Harness.NodeName")
	if want := k.h.NodeName(vm); vm.NodeName != want || want == "" {
		k.Errorf("node name %q, want %q", vm.NodeName, want)
	}
	k.part("Missing", func(k *kit) {
		k.needs(k.f.Backend.HideNodeName != nil, "Backend.HideNodeName")
		k.f.Backend.HideNodeName(k.T, vm.ID)
		got, err := a.Get(k.Context(), m.now())
		if err != nil || got.State != cloud.StatePending || got.NodeName != "" {
			k.Errorf("get without a node name: got %q, %v, %v, want pending and no error", got.NodeName, got.State, err)
		}
	})
	m.delete(a)
}

// states is C22: the cloud's states as ours.
func states(k *kit) {
	k.needs(len(k.f.Backend.States) > 0, "Backend.States")
	a := k.account()
	for _, s := range k.f.Backend.States {
		k.part(strings.ReplaceAll(s.Name, "/", "_"), func(k *kit) {
			m := k.machine()
			vm := m.running(a)
			s.Set(k.T, vm.ID)
			got, err := a.Get(k.Context(), m.now())
			if s.Want == cloud.StateUnknown {
				if cloud.CodeOf(err) != cloud.NotFound {
					k.Errorf("get a VM that is %s: got %v, %v, want NotFound", s.Name, got.State, err)
				}
				return
			}
			if err != nil || got.State != s.Want || got.Reason == "" || strings.ContainsAny(got.Reason, " \t\n") {
				k.Errorf("get a VM that is %s: got %v, reason %q, %v, want %v and a reason of one word", s.Name, got.State,
					got.Reason, err, s.Want)
			}
			r := k.listed(a, k.class)[key(cloud.Resource{Kind: cloud.KindVM, ID: vm.ID})]
			if r.VM == nil || r.VM.State != s.Want {
				k.Errorf("list yields for a VM that is %s: %+v, want %v", s.Name, r.VM, s.Want)
			}
			m.delete(a)
		})
	}
}

// addresses is C24: how a VM is reached, always in the same order.
func addresses(k *kit) {
	k.sees(k.class)
	k.part("Many", func(k *kit) {
		k.needs(len(k.f.ManyAddresses.Spec) > 0, "Fixture.ManyAddresses")
		c, problems := k.f.Driver().Parse(copyInput(k.f.ManyAddresses))
		if bad := worst(problems, cloud.BlocksCreate); len(bad) > 0 {
			k.Fatalf("Fixture.ManyAddresses: %v", bad)
		}
		if n := len(k.sees(c)); n < 2 {
			k.Errorf("got %d addresses, want several", n)
		}
	})
}

// sees makes a VM of c and returns its addresses, after a look at them.
func (k *kit) sees(c cloud.Class) []cloud.Address {
	k.Helper()
	m, a := k.machine(), k.account()
	m.ref.Class = c
	vm := m.running(a)
	internal := 0
	for _, x := range vm.Addresses {
		if strings.HasSuffix(x.Kind, "IP") {
			if _, err := netip.ParseAddr(x.Value); err != nil {
				k.Errorf("address %+v: %v", x, err)
			}
		}
		if x.Kind == "InternalIP" {
			internal++
		}
	}
	if internal == 0 {
		k.Errorf("a running VM has no InternalIP: %v", vm.Addresses)
	}
	for range 5 {
		again, err := a.Get(context.WithoutCancel(k.Context()), m.now())
		if err != nil || !slices.Equal(again.Addresses, vm.Addresses) {
			k.Errorf("addresses change: %v, then %v, %v", vm.Addresses, fmt.Sprint(again.Addresses), err)
			break
		}
	}
	m.delete(a)
	return vm.Addresses
}
