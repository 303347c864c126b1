package cloudtest

import (
	"fmt"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// pages is C15: a listing is whole, however many pages it has.
func pages(k *kit) {
	k.needs(k.f.Backend.PageSize > 0, "Backend.PageSize")
	n := 2*k.f.Backend.PageSize + 1
	k.part("Three", func(k *kit) { k.wholeListing(n) })
	k.part("Thousand", func(k *kit) { k.wholeListing(max(n, 1001)) })
	k.part("Churn", churn)
	k.part("Failing", failingPage)
	k.part("Break", stopEarly)
	k.part("Kinds", kindsOfListing)
}

// fill renews the cloud and puts n VMs into it.
func (k *kit) fill(n int) (*guard, map[string]bool) {
	k.Helper()
	k.renew()
	ids := map[string]bool{}
	for i := range n {
		id := k.seed(Seed{
			Kind: cloud.KindVM, Class: k.class, Name: fmt.Sprintf("c15-%d", i), OwnerID: randomID(),
			Age: time.Hour,
		})
		ids[vmKey(id)] = true
	}
	a := k.account()
	k.proxy.Forget()
	return a, ids
}

// wholeListing lists n VMs in a bounded number of calls.
func (k *kit) wholeListing(n int) {
	k.Helper()
	a, ids := k.fill(n)
	seen := k.listed(a, k.class)
	missed := 0
	for id := range ids {
		if _, ok := seen[id]; !ok {
			missed++
		}
	}
	if missed > 0 {
		k.Errorf("list misses %d of %d VMs", missed, n)
	}
	kinds := map[cloud.Kind]bool{}
	for _, r := range k.ledger() {
		kinds[r.Kind] = true
	}
	// Each kind that there is, and a few that there are not, in pages.
	bound := (len(kinds)+4)*2 + (len(k.ledger())/k.f.Backend.PageSize + 1)
	if calls := count(k.proxy.Calls(), notLogin); calls > bound {
		k.Errorf("listing %d VMs in pages of %d takes %d calls, want at most %d", n, k.f.Backend.PageSize, calls, bound)
	}
}

// churn changes the cloud while it is listed: what was there all along comes
// once.
func churn(k *kit) {
	a, ids := k.fill(2*k.f.Backend.PageSize + 1)
	seen := map[string]int{}
	for r, err := range a.List(k.Context(), k.class) {
		if err != nil {
			k.Fatalf("list: %v", err)
		}
		seen[key(r)]++
		if len(seen) == 1 {
			k.seed(Seed{Kind: cloud.KindVM, Class: k.class, Name: "c15-new", OwnerID: randomID()})
			delete(ids, key(r))
			if r.VM == nil {
				continue
			}
			m := &machine{k: k, ref: cloud.Ref{
				Name: r.MachineName, OwnerID: r.OwnerID, ProviderID: r.VM.ProviderID,
				Class: k.class,
			}}
			m.delete(k.account())
		}
	}
	for id := range ids {
		if seen[id] != 1 {
			k.Errorf("list yields %s %d times while others come and go, want once", id, seen[id])
		}
	}
}

// failingPage fails each page in turn: the listing ends with the error, unless
// the driver asked again and it is whole.
func failingPage(k *kit) {
	a, ids := k.fill(2*k.f.Backend.PageSize + 1)
	k.listed(a, k.class)
	whole := count(k.proxy.Calls(), notLogin)
	for i := range whole {
		a = k.account()
		fault := k.proxy.Inject(Fault{Kind: Answer, Match: notLogin, Nth: i + 1, Reply: serverError()})
		var last error
		seen := 0
		for r, err := range a.List(k.Context(), k.class) {
			if last = err; err == nil && ids[key(r)] {
				seen++
			}
		}
		k.fires(fault)
		if last == nil && seen < len(ids) {
			k.Errorf("list ends without an error after %d of %d VMs although call %d failed", seen, len(ids), i+1)
		}
	}
}

// stopEarly stops after the first: of five pages of VMs, four are not asked for. One
// more call may tell the cloud so.
func stopEarly(k *kit) {
	const pages = 5
	a, _ := k.fill((pages-1)*k.f.Backend.PageSize + 1)
	k.listed(a, k.class)
	whole := count(k.proxy.Calls(), notLogin)
	a = k.account()
	k.proxy.Forget()
	for _, err := range a.List(k.Context(), k.class) {
		if err != nil {
			k.Errorf("list: %v", err)
		}
		break
	}
	if calls := count(k.proxy.Calls(), notLogin); calls > whole-pages+2 {
		k.Errorf("a listing that is left at once takes %d calls, a whole one %d of which %d are pages of VMs", calls, whole,
			pages)
	}
}

// settling is C16: a VM that reads do not show yet is not created twice.
func settling(k *kit) {
	k.needs(k.f.Backend.Hide != nil, "Backend.Hide")
	settle := k.traits.Settle
	if settle <= 0 {
		k.needs(false, "Traits.Settle, which says how long a new VM may stay invisible,")
	}
	k.f.Backend.Hide(k.T, settle)
	before, m, a := k.ledger(), k.machine(), k.account()
	first, err := a.Create(k.Context(), m.request())
	if err != nil {
		k.Fatalf("create: %v", err)
	}
	if vm, err := a.Get(k.Context(), m.now()); err != nil && cloud.CodeOf(err) != cloud.NotFound {
		k.Errorf("get a fresh VM: %v, %v, want it or NotFound", vm.ID, err)
	}
	for _, again := range []*guard{a, k.account()} {
		vm, err := again.Create(k.Context(), m.request())
		if err != nil {
			k.Errorf("create again while the VM is invisible: %v", err)
		} else if vm.ID != first.ID {
			k.Errorf("create again while the VM is invisible: got %s, want %s", vm.ID, first.ID)
		}
	}
	m.only()
	k.until("the VM can be seen", func() (bool, error) {
		vm, err := a.Get(k.Context(), m.now())
		return err == nil && vm.ID == first.ID, nil
	})
	m.only()
	m.delete(a)
	k.f.Backend.Hide(k.T, 0)
	k.same(before)
}
