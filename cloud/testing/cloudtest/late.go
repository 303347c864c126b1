package cloudtest

import (
	"errors"
	"fmt"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// lateRequests is C31: for each mutating call of create, its connection breaks, a new
// process goes on, and the cloud carries the call out just after it was looked for.
func lateRequests(k *kit) {
	create, _ := k.sizeOfCreate()
	for _, nth := range k.places(create) {
		k.part(fmt.Sprintf("Late%d_Create", nth), func(k *kit) {
			before, m, fault := k.late(nth)
			a := k.account()
			m.createWith(a, fault)
			m.only()
			m.removeForSure(a)
			k.same(before)
		})
		k.part(fmt.Sprintf("Late%d_Delete", nth), func(k *kit) {
			before, m, fault := k.late(nth)
			a := k.account()
			if err := m.remove(a); err != nil {
				k.Fatalf("delete: %v", err)
			}
			k.Logf("%d requests are carried out after Delete was done", fault.Deliver())
			k.fires(fault)
			m.removeForSure(a)
			k.same(before)
		})
	}
}

// late makes a machine whose create is interrupted at its nth mutating call, which
// the cloud has not got yet. The process is not ended, so that its session lives.
func (k *kit) late(nth int) (before []cloud.Resource, m *machine, fault *Injected) {
	k.Helper()
	before, m = k.ledger(), k.machine()
	fault = k.proxy.Inject(Fault{Kind: Late, Match: Mutating, Nth: nth})
	_, err := m.attempt(k.account())
	k.Logf("after the fault: %v", err)
	return before, m, fault
}

// createAsAsked calls Create as the engine does, until it is finished. No more time
// passes than Create asks for by RetryAfter.
func (m *machine) createAsAsked(a cloud.Account) {
	m.k.Helper()
	m.createWith(a, nil)
}

// createWith does so while a request is late. It is delivered when the driver asks
// for the same again, or at the end of the settle time, whichever is first.
func (m *machine) createWith(a cloud.Account, late *Injected) {
	m.k.Helper()
	var passed time.Duration
	for range 200 {
		vm, err := a.Create(m.k.Context(), m.request())
		wait := vm.RetryAfter
		if e, ok := errors.AsType[*cloud.Error](err); ok {
			wait = e.RetryAfter
		}
		if err != nil && !passes(err) {
			m.k.Fatalf("create: %v", err)
		}
		done := err == nil && wait == 0
		if passed += wait; late != nil && (done || passed >= m.k.traits.Settle) {
			m.k.Logf("%d requests are carried out %v late", late.Deliver(), passed-wait)
			m.k.fires(late)
			late = nil
			continue // look once more, also when it was finished
		}
		if done {
			return
		}
		m.k.exactly(wait)
	}
	m.k.Fatal("create: not finished after 200 calls")
}

// exactly lets d pass, and no more where time is virtual.
func (k *kit) exactly(d time.Duration) {
	k.Helper()
	if k.f.Backend.Advance == nil {
		k.pass(d)
		return
	}
	k.f.Backend.Advance(k.T, max(d, time.Millisecond))
}

// removeForSure deletes as the engine does: where the providerID was not recorded,
// Delete has to be done for the settle time before that is believed.
func (m *machine) removeForSure(a cloud.Account) {
	m.k.Helper()
	m.delete(a)
	if m.k.f.Backend.Advance == nil || m.now().ProviderID != "" {
		return
	}
	m.k.f.Backend.Advance(m.k.T, m.k.traits.Settle)
	m.delete(a)
}
