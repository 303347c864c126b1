package cloudtest

import (
	"bytes"
	"context"
	"net/http"
	"runtime/pprof"
	"strings"
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
	// They share the machine that the test runs on with the cloud's double, so that only a call
	// which hangs may fail here. C04 finds one that waits for its VM.
	k.h.Prompt *= 90
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
			vms[r.MachineName+"/"+r.OwnerID]++
		}
	}
	for _, m := range machines {
		if n := vms[m.ref.Name+"/"+m.ref.OwnerID]; n != 1 {
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

// goroutines looks for those that an account started and that outlive it.
func goroutines(k *kit) {
	label := randomID() // goroutines inherit it, so that tests beside this one do not count
	pprof.Do(k.Context(), pprof.Labels("cloudtest", label), func(context.Context) {
		for range 3 {
			a, m := k.account(), k.machine()
			m.running(a)
			k.listed(a, k.class)
			_, _ = a.Capacity(k.Context(), k.class)
			m.delete(a)
			if err := a.Close(); err != nil {
				k.Errorf("close: %v", err)
			}
		}
	})
	if left := calm(label, 2*k.soon()); left != "" {
		k.Errorf("goroutines that outlive the accounts that started them:\n%s", left)
	}
}

// calm returns the goroutines with that label that do not end by themselves in
// time. Unused connections are closed.
func calm(label string, patience time.Duration) (left string) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		http.DefaultClient.CloseIdleConnections()
		if left = labelled(label); left == "" {
			return ""
		}
		time.Sleep(25 * time.Millisecond) // goroutines end when they end
	}
	return left
}

// labelled returns the goroutines with that label.
func labelled(label string) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	var found []string
	for block := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(block, label) {
			found = append(found, block)
		}
	}
	return strings.Join(found, "\n\n")
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
	if took := time.Since(start); took > 2*k.soon() {
		k.Errorf("get returns %v after a deadline of 200ms", took)
	}
	if cloud.CodeOf(err) != cloud.Unavailable {
		k.Errorf("get that hangs until its deadline: got %v, want Unavailable", err)
	}
}
