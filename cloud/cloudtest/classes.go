package cloudtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// soldOut is C32: what one class met says nothing about another one.
func soldOut(k *kit) {
	k.needs(k.f.Elsewhere.Spec != nil && k.f.Memory != nil, "Fixture.Elsewhere or Fixture.Memory")
	row := k.shortage()
	k.f.Wrap = append(k.f.Wrap, k.f.Memory)
	before, a := k.ledger(), k.account()
	match := row.Match
	if match == nil {
		match = Mutating
	}
	fault := k.proxy.Inject(Fault{Kind: Answer, Match: match, Times: Forever, Reply: row.Reply})
	first, said := k.machine(), k.exhausted(a, k.machine())
	k.fires(fault)

	k.proxy.Forget()
	again := k.exhausted(a, first)
	if n := count(k.proxy.Calls(), Mutating); n > 0 {
		k.Errorf("what is sold out is asked for again: %d mutating calls", n)
	}
	if now, then := fmt.Sprint(again.Err), fmt.Sprint(said.Err); !strings.HasPrefix(now, then) || now == then {
		k.Errorf("a remembered shortage says %q, want the cloud's text %q, and then that it is remembered", now, then)
	}
	other := k.machine()
	other.ref.Class = k.parse(k.f.Driver(), k.f.Elsewhere)
	other.create(a)
	other.only()
	other.delete(a)
	first.delete(a)
	k.same(before)
}

// shortage returns a row of the error table that says what is sold out.
func (k *kit) shortage() ErrorRow {
	k.Helper()
	var found *ErrorRow
	for i, r := range k.h.Errors {
		if r.Op == "create" && r.Code == cloud.Exhausted && r.Of != nil &&
			(found == nil || r.Of.InstanceType != "" && found.Of.InstanceType == "") {
			found = &k.h.Errors[i]
		}
	}
	k.needs(found != nil, "a row of Harness.Errors of op create and code Exhausted with an Offering")
	return *found
}

// exhausted creates the VM of m, which has to be refused for lack of room.
func (k *kit) exhausted(a cloud.Account, m *machine) *cloud.Error {
	k.Helper()
	_, err := m.attempt(a)
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Exhausted || e.Offering == nil {
		k.Fatalf("create: got %v, want an error of code Exhausted with the offering", err)
	}
	return e
}

// interruptible is C33: whoever may lose a VM at any time knows it.
func interruptible(k *kit) {
	k.needs(len(k.f.Interruptible) > 0, "Fixture.Interruptible")
	d, ok := k.f.Driver().(cloud.Interrupter)
	if !ok {
		k.Fatal("the driver is no cloud.Interrupter")
	}
	if k.f.Elsewhere.Spec != nil && d.Interruptible(k.parse(k.f.Driver(), k.f.Elsewhere)) {
		k.Error("a class that asks for nothing special is interruptible")
	}
	for form, in := range k.f.Interruptible {
		if !d.Interruptible(k.parse(k.f.Driver(), in)) {
			k.Errorf("a class of form %q is not interruptible", form)
		}
	}
}

// amongMany is C34: a machine costs the same calls, however many VMs of others
// there are.
func amongMany(k *kit) {
	k.needs(k.f.Backend.PageSize > 0, "Backend.PageSize")
	alone := k.callsOfLife()
	k.renew()
	n := 3*k.f.Backend.PageSize + 1
	for range n {
		k.seed(Seed{Kind: cloud.KindVM, Class: k.class, Untagged: true})
	}
	if among := k.callsOfLife(); among > alone {
		k.Errorf("a machine takes %d calls among %d VMs of others, %d alone", among, n, alone)
	}
}

// callsOfLife is how many calls a machine takes from its creation to its end,
// waits left out.
func (k *kit) callsOfLife() int {
	k.Helper()
	m, a := k.machine(), k.account()
	k.proxy.Forget()
	_, err := m.attempt(a)
	if err != nil {
		k.Fatalf("create: %v", err)
	}
	calls := count(k.proxy.Calls(), notLogin)
	m.running(a)
	k.proxy.Forget()
	if _, err := a.Get(k.Context(), m.now()); err != nil {
		k.Errorf("get: %v", err)
	}
	byName := m.now()
	byName.ProviderID = ""
	if _, err := a.Get(k.Context(), byName); err != nil {
		k.Errorf("get by name: %v", err)
	}
	if _, err := a.Delete(k.Context(), m.now()); err != nil {
		k.Errorf("delete: %v", err)
	}
	calls += count(k.proxy.Calls(), notLogin)
	m.delete(a)
	return calls
}

// kindsOfListing lists the kinds one by one: each listing shows its kind, all that the
// whole one shows of it, and costs no more calls.
func kindsOfListing(k *kit) {
	k.renew()
	m, a := k.machine(), k.account()
	m.running(a)
	k.proxy.Forget()
	whole := k.listed(a, k.class)
	calls := count(k.proxy.Calls(), notLogin)
	for _, kind := range []cloud.Kind{
		cloud.KindVM, cloud.KindInterface, cloud.KindDisk, cloud.KindAddress, cloud.KindKey,
	} {
		want := map[string]bool{}
		for key, r := range whole {
			if r.Kind == kind {
				want[key] = true
			}
		}
		k.proxy.Forget()
		for r, err := range a.List(k.Context(), k.class, kind) {
			if err != nil {
				k.Errorf("list %s: %v", kind, err)
				break
			}
			if !want[key(r)] {
				k.Errorf("a listing of %s yields %s", kind, key(r))
			}
			delete(want, key(r))
		}
		if len(want) > 0 {
			k.Errorf("a listing of %s misses %v", kind, want)
		}
		if n := count(k.proxy.Calls(), notLogin); n > calls {
			k.Errorf("a listing of %s takes %d calls, one of all kinds %d", kind, n, calls)
		}
	}
	m.delete(a)
}
