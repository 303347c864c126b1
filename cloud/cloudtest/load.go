package cloudtest

import (
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// load is C30: many at once, and nothing left when the account is closed.
func load(k *kit) {
	k.part("Parallel", parallel)
	k.part("Goroutines", goroutines)
	k.part("Close", closing)
	k.part("Deadline", deadline)
}

// parallel makes many VMs at once. One VM costs as many calls as when it is
// alone, or fewer.
func parallel(k *kit) {
	before, a := k.ledger(), k.account()
	probe := k.machine()
	k.proxy.Forget()
	probe.create(a)
	each := count(k.proxy.Calls(), notLogin)
	probe.delete(a)
	machines := make([]*machine, k.h.Parallel)
	for i := range machines {
		machines[i] = k.machine()
	}
	k.proxy.Forget()
	k.all(machines, func(m *machine) error { _, err := m.attempt(a); return err })
	if n := count(k.proxy.Calls(), notLogin); n > each*k.h.Parallel+10 {
		k.Errorf("%d creates at once make %d calls, one alone %d", k.h.Parallel, n, each)
	}
	vms := map[string]int{}
	for _, r := range k.ledger() {
		if r.Kind == cloud.KindVM {
			vms[r.OwnerID]++
		}
	}
	for _, m := range machines {
		if n := vms[m.ref.OwnerID]; n != 1 {
			k.Errorf("%s has %d VMs, want 1", m.ref.Name, n)
		}
	}
	k.all(machines, func(m *machine) error { return m.remove(a) })
	k.same(before)
}

// all runs f for all machines at once, and again for those that met an error
// that passes.
func (k *kit) all(machines []*machine, f func(m *machine) error) {
	k.Helper()
	k.until("all at once", func() (bool, error) {
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			left []*machine
			last error
		)
		for _, m := range machines {
			wg.Go(func() {
				if err := f(m); err != nil {
					mu.Lock()
					defer mu.Unlock()
					left, last = append(left, m), err
				}
			})
		}
		wg.Wait()
		machines = left
		return len(left) == 0, last
	})
}

// goroutines counts them before an account is opened and after it is closed.
func goroutines(k *kit) {
	warm := k.account()
	m := k.machine()
	m.running(warm)
	m.delete(warm)
	_ = warm.Close()
	before := calm(0)
	for range 5 {
		a := k.account()
		m := k.machine()
		m.running(a)
		k.listed(a, k.class)
		_, _ = a.Capacity(k.Context(), k.class)
		m.delete(a)
		if err := a.Close(); err != nil {
			k.Errorf("close: %v", err)
		}
	}
	if after := calm(before); after > before {
		stacks := make([]byte, 1<<18)
		k.Errorf("%d goroutines before 5 accounts were opened, %d after they were closed:\n%s",
			before, after, stacks[:runtime.Stack(stacks, true)])
	}
}

// calm returns the number of goroutines once it is enough or does not fall any
// more. Connections that nobody uses are closed.
func calm(enough int) int {
	n := runtime.NumGoroutine()
	for range 40 {
		http.DefaultClient.CloseIdleConnections()
		time.Sleep(25 * time.Millisecond) // goroutines end when they end
		now := runtime.NumGoroutine()
		if now <= enough {
			return now
		}
		n = min(n, now)
	}
	return n
}

// closing closes an account twice and calls it then.
func closing(k *kit) {
	a := k.account()
	_ = k.call("list", a, k.machine())
	for range 2 {
		if err := a.Close(); err != nil {
			k.Errorf("close: %v", err)
		}
	}
	// The answer is the driver's to choose; the guard sees to its form.
	_ = k.call("get", a, k.machine())
}

// deadline lets a call hang: it ends with its context, as Unavailable.
func deadline(k *kit) {
	a := k.account()
	fault := k.proxy.Inject(Fault{Kind: Hang, Match: notLogin, Times: Forever})
	defer fault.Undo()
	ctx, cancel := late(k.Context())
	defer cancel()
	start := time.Now()
	_, err := a.Get(ctx, k.machine().now())
	if took := time.Since(start); took > 2*time.Second {
		k.Errorf("get returns %v after a deadline of 200ms", took)
	}
	if cloud.CodeOf(err) != cloud.Unavailable {
		k.Errorf("get that hangs until its deadline: got %v, want Unavailable", err)
	}
}
