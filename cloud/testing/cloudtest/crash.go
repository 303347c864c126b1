package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// lost are the two ways in which a call gets lost.
func lost() map[string]FaultKind {
	return map[string]FaultKind{"LostRequest": DropRequest, "LostResponse": DropResponse}
}

// sizeOfCreate returns how many mutating calls it takes to create a VM, and to
// delete it.
func (k *kit) sizeOfCreate() (create, remove int) {
	k.Helper()
	m, a := k.machine(), k.account()
	create = k.mutations(func() { m.create(a) })
	remove = k.mutations(func() { m.delete(a) })
	if create == 0 || remove == 0 {
		k.Fatalf("create makes %d and delete %d mutating calls through the proxy, want at least one each", create, remove)
	}
	return create, remove
}

// Draws is the number of draws of a harness whose cloud answers slowly: CLOUDTEST_DRAWS, as `make test` and
// `make test-real` set it; 0, which tries all, where that is not a number.
func Draws() int {
	n, _ := strconv.Atoi(os.Getenv("CLOUDTEST_DRAWS"))
	return n
}

// seed is from which calls are drawn: CLOUDTEST_SEED, or a random number.
var seed = sync.OnceValue(func() uint64 {
	n, err := strconv.ParseUint(os.Getenv("CLOUDTEST_SEED"), 10, 64)
	if err != nil {
		n = rand.Uint64N(1_000_000_000)
	}
	return n
})

// places returns which of n calls, counted from 1, a fault is to hit: all of them, or as
// many as the harness draws, the same ones for the same seed, case and n.
func (k *kit) places(n int) []int {
	k.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(k.Name())) // never fails
	all := rand.New(rand.NewPCG(seed(), name.Sum64())).Perm(n)
	if draws := k.h.Draws; draws > 0 && draws < n {
		all = all[:draws]
		k.Logf("faults hit %d of %d calls; CLOUDTEST_SEED=%d hits the same ones", draws, n, seed())
	}
	for i := range all {
		all[i]++
	}
	slices.Sort(all)
	return all
}

// fires fails unless the fault hit a call, and takes it back.
func (k *kit) fires(i *Injected) {
	k.Helper()
	i.Undo()
	if i.Fired() == 0 {
		k.Fatalf("the fault %v hit no call", i.fault.Kind)
	}
}

// sentOnce fails if the driver's client itself repeated the request that the fault hit. An answer to
// the second would hide from the engine that the first may still be carried out.
func (k *kit) sentOnce(fault *Injected) {
	k.Helper()
	if n := fault.repeats(); n > 0 {
		k.Errorf("the client sent a request again whose answer was lost, %d times, instead of saying so", n)
	}
}

// crashCreate is C07: for each mutating call of create, lose it or its answer,
// go on as a new process.
func crashCreate(k *kit) {
	create, _ := k.sizeOfCreate()
	for name, kind := range lost() {
		for _, nth := range k.places(create) {
			k.part(fmt.Sprintf("%s%d_Create", name, nth), func(k *kit) {
				m, before := k.crash(kind, nth)
				a := k.account()
				m.createAsAsked(a)
				m.only()
				m.removeForSure(a)
				k.shows()
				k.same(before)
			})
			k.part(fmt.Sprintf("%s%d_Delete", name, nth), func(k *kit) {
				m, before := k.crash(kind, nth)
				m.removeForSure(k.account())
				k.shows()
				k.same(before)
			})
		}
	}
	k.part("Checkpoint", checkpointFails)
}

// crash makes a machine whose create is interrupted by the fault at its nth
// mutating call. Where the cloud can, it does not show what is made until shortly
// before the settle time has passed; shows ends that.
func (k *kit) crash(kind FaultKind, nth int) (m *machine, before []cloud.Resource) {
	k.Helper()
	before, m = k.ledger(), k.machine()
	if k.f.Backend.Hide != nil && k.f.Backend.Advance != nil {
		k.f.Backend.Hide(k.T, k.traits.Settle-time.Millisecond)
	}
	a := k.account()
	fault := k.proxy.Inject(Fault{Kind: kind, Match: Mutating, Nth: nth})
	_, err := m.attempt(a)
	k.fires(fault)
	k.sentOnce(fault)
	k.Logf("after the fault: %v", err)
	_ = a.Close()
	return m, before
}

// shows lets the cloud show all that it has.
func (k *kit) shows() {
	k.Helper()
	if k.f.Backend.Hide != nil && k.f.Backend.Advance != nil {
		k.f.Backend.Hide(k.T, 0)
	}
}

// checkpointFails lets each checkpoint fail in turn: what it was for must not
// happen, and the next process converges.
func checkpointFails(k *kit) {
	taken := 0
	probe := k.machine()
	a := k.account()
	r := probe.request()
	r.Checkpoint = func(ctx context.Context, s string) error {
		taken++
		return probe.checkpoint(ctx, s)
	}
	if _, err := a.Create(k.Context(), r); err != nil {
		k.Fatalf("create: %v", err)
	}
	probe.create(a)
	probe.delete(a)
	for i := range taken {
		before, m, calls := k.ledger(), k.machine(), 0
		a := k.account()
		r := m.request()
		r.Checkpoint = func(ctx context.Context, s string) error {
			if calls++; calls <= i {
				return m.checkpoint(ctx, s)
			}
			k.proxy.Forget()
			return errors.New("the API server is away")
		}
		if _, err := a.Create(k.Context(), r); err == nil {
			k.Errorf("create succeeds although checkpoint %d fails", i+1)
		}
		if n := count(k.proxy.Calls(), Mutating); n > 0 {
			k.Errorf("after checkpoint %d failed, create makes %d mutating calls", i+1, n)
		}
		b := k.account()
		m.create(b)
		m.only()
		m.delete(b)
		k.same(before)
	}
}

// crashDelete is C08: the same for delete.
func crashDelete(k *kit) {
	_, remove := k.sizeOfCreate()
	for name, kind := range lost() {
		for _, nth := range k.places(remove) {
			k.part(fmt.Sprintf("%s%d", name, nth), func(k *kit) {
				before, m := k.ledger(), k.machine()
				a := k.account()
				m.create(a)
				fault := k.proxy.Inject(Fault{Kind: kind, Match: Mutating, Nth: nth})
				k.Logf("after the fault: %v", m.remove(a))
				k.fires(fault)
				k.sentOnce(fault)
				_ = a.Close()
				b := k.account()
				m.delete(b)
				k.same(before)
				m.gone(b)
			})
		}
	}
}

// partial is C10: the cloud refuses from some call on.
func partial(k *kit) {
	create, _ := k.sizeOfCreate()
	for _, nth := range k.places(create) {
		refuse := Fault{Kind: Answer, Match: Mutating, Nth: nth, Times: Forever, Reply: serverError()}
		for name, again := range map[string]bool{"Create": true, "Delete": false} {
			k.part(fmt.Sprintf("Refused%d_%s", nth, name), func(k *kit) {
				before, m, a := k.ledger(), k.machine(), k.account()
				fault := k.proxy.Inject(refuse)
				finished := m.createUntil(a, fault)
				k.fires(fault)
				if finished {
					k.Errorf("create is finished although the cloud refused call %d", nth)
				}
				if again {
					m.create(a)
					m.only()
				}
				m.delete(a)
				k.same(before)
			})
		}
	}
	k.part("Failed", failed)
}

// createUntil calls Create until it fails, is finished or met the fault, and
// reports whether it is finished.
func (m *machine) createUntil(a cloud.Account, fault *Injected) bool {
	m.k.Helper()
	for range 200 {
		vm, err := a.Create(m.k.Context(), m.request())
		if err != nil || vm.RetryAfter == 0 {
			return err == nil
		}
		if fault.Fired() > 0 {
			return false
		}
		m.k.pass(vm.RetryAfter)
	}
	return false
}

// serverError is an answer that every SDK takes for a failing cloud.
func serverError() Reply {
	return Reply{Status: http.StatusInternalServerError, Body: "internal error"}
}

// failed lets a VM fail to build: it says so, is not made again under the same
// token, and goes away whole.
func failed(k *kit) {
	k.needs(k.f.Backend.Fail != nil, "Backend.Fail")
	before, m, a := k.ledger(), k.machine(), k.account()
	vm := m.create(a)
	k.f.Backend.Fail(k.T, vm.ID)
	got, err := a.Get(k.Context(), m.now())
	if err != nil || got.State != cloud.StateFailed || got.Reason == "" {
		k.Errorf("get a failed VM: got state %v, reason %q, error %v, want failed and a reason", got.State, got.Reason, err)
	}
	if again, err := a.Create(k.Context(), m.request()); err == nil && again.ID != vm.ID {
		k.Errorf("create replaces the failed VM %s by %s under the same token", vm.ID, again.ID)
	}
	m.delete(a)
	k.same(before)
}

// canceled is C20: the caller gives up at each call.
func canceled(k *kit) {
	probe, a := k.machine(), k.account()
	k.proxy.Forget()
	probe.create(a)
	calls := count(k.proxy.Calls(), notLogin)
	probe.delete(a)
	for _, nth := range k.places(calls) {
		k.part(fmt.Sprintf("Create%d", nth), func(k *kit) {
			before, m, a := k.ledger(), k.machine(), k.account()
			k.giveUp(nth, func(ctx context.Context) error {
				return m.create1(ctx, a)
			})
			m.create(a)
			m.only()
			m.delete(a)
			k.same(before)
		})
	}
	m := k.machine()
	m.create(a)
	k.part("Get", func(k *kit) {
		k.giveUp(1, func(ctx context.Context) error { _, err := k.account().Get(ctx, m.now()); return err })
	})
	k.part("List", func(k *kit) {
		k.giveUp(1, func(ctx context.Context) (err error) {
			for _, err = range k.account().List(ctx, k.class) {
			}
			return err
		})
	})
	k.part("Delete", func(k *kit) {
		k.giveUp(1, func(ctx context.Context) error { _, err := k.account().Delete(ctx, m.now()); return err })
	})
	k.part("Before", func(k *kit) { canceledBefore(k, a) })
	m.delete(a)
}

// create1 calls Create with ctx until it is finished or fails.
func (m *machine) create1(ctx context.Context, a cloud.Account) error {
	for range 200 {
		vm, err := a.Create(ctx, m.request())
		if err != nil || vm.RetryAfter == 0 {
			return err
		}
		m.k.pass(vm.RetryAfter)
	}
	return nil
}

// giveUp runs f, gives up when it makes its nth call, and expects it to return
// soon and to say why.
func (k *kit) giveUp(nth int, f func(ctx context.Context) error) {
	k.Helper()
	ctx, cancel := context.WithCancel(k.Context())
	defer cancel()
	met := make(chan time.Time, 1)
	fault := k.proxy.Inject(Fault{Kind: Hang, Match: notLogin, Nth: nth, Met: func(Call) {
		met <- time.Now()
		cancel()
	}})
	err := f(ctx)
	returned := time.Now()
	k.fires(fault)
	if late := returned.Sub(<-met); late > k.soon() {
		k.Errorf("returns %v after its context ended, want %v at most", late, k.soon())
	}
	if !errors.Is(err, context.Canceled) {
		k.Errorf("got error %v, want context.Canceled in its chain", err)
	}
}

// canceledBefore calls with a context that has ended.
func canceledBefore(k *kit, a *guard) {
	ctx, cancel := context.WithCancel(k.Context())
	cancel()
	m := k.machine()
	n := k.mutations(func() {
		if _, err := a.Create(ctx, m.request()); !errors.Is(err, context.Canceled) {
			k.Errorf("create with an ended context: got %v, want context.Canceled in its chain", err)
		}
	})
	if n > 0 {
		k.Errorf("create with an ended context makes %d mutating calls", n)
	}
}
