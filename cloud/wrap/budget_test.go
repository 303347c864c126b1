package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// metered is an account with a budget, and a cloud that throttles while says
// so.
type metered struct {
	cloud.Account
	bare *account
	clk  *clock

	mu   sync.Mutex
	says *cloud.Error
}

func newMetered(r wrap.Rate, chance func() float64) *metered {
	m := &metered{clk: newClock()}
	answer := func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.says != nil {
			return m.says
		}
		return nil
	}
	m.bare = &account{
		create: func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, answer() },
		get:    func(context.Context, cloud.Ref) (cloud.VM, error) { return cloud.VM{}, answer() },
		delete: func(context.Context, cloud.Ref) (cloud.Deletion, error) {
			return cloud.Deletion{Done: true}, answer()
		},
	}
	m.Account = wrap.Budget(r, nil, wrap.Clock{Now: m.clk.Now, Rand: chance})(info(), m.bare)
	return m
}

func (m *metered) throttle(after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.says = &cloud.Error{
		Code: cloud.Throttled, Op: "run", Reason: "SlowDown", RetryAfter: after,
		Err: errors.New("slow down"),
	}
}

func (m *metered) relent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.says = nil
}

// passed calls f until it is refused and returns how often it was not.
func passed(f func() error) (n int, refusal *cloud.Error) {
	for range 10000 {
		if err := f(); err != nil {
			refusal, _ = errors.AsType[*cloud.Error](err)
			return n, refusal
		}
		n++
	}
	return n, nil
}

func (m *metered) get(t *testing.T) func() error {
	t.Helper()
	return func() error { _, err := m.Get(t.Context(), cloud.Ref{}); return err }
}

func (m *metered) create(t *testing.T) func() error {
	t.Helper()
	return func() error { _, err := m.Create(t.Context(), request("1")); return err }
}

func (m *metered) remove(t *testing.T) func() error {
	t.Helper()
	return func() error { _, err := m.Delete(t.Context(), cloud.Ref{}); return err }
}

func TestBudgetPriority(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{PerSecond: 10, Burst: 100}, never)
	reads, refusal := passed(m.get(t))
	creates, _ := passed(m.create(t))
	deletes, _ := passed(m.remove(t))
	if reads == 0 || creates == 0 || deletes == 0 || reads+creates+deletes != 100 {
		t.Errorf("%d reads, then %d creates, then %d deletes, want some of each and 100 together: the less important "+
			"leave room", reads, creates, deletes)
	}
	if refusal.Code != cloud.Throttled || refusal.RetryAfter <= 0 || refusal.Reason == "" {
		t.Errorf("refused with %+v, want Throttled and a RetryAfter", refusal)
	}
	if n := m.bare.made("get"); n != reads {
		t.Errorf("%d gets reached the cloud, want %d: a refused one does not", n, reads)
	}
	m.clk.pass(10 * time.Second)
	if n, _ := passed(m.get(t)); n == 0 {
		t.Error("no read gets through after the bucket was refilled")
	}
}

func TestBudgetHonoursRetryAfterForTheAccount(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{}, never)
	m.throttle(7 * time.Second)
	_, refusal := passed(m.create(t))
	if refusal.Reason != "SlowDown" || refusal.RetryAfter != 7*time.Second {
		t.Errorf("got %+v, want the cloud's own error", refusal)
	}
	m.relent()
	for _, f := range []func() error{m.get(t), m.create(t), m.remove(t)} {
		if err := f(); cloud.CodeOf(err) != cloud.Throttled {
			t.Errorf("during the pause: got %v, want Throttled", err)
		} else if e, _ := errors.AsType[*cloud.Error](err); e.RetryAfter < 7*time.Second {
			t.Errorf("during the pause: RetryAfter %v, want at least 7s", e.RetryAfter)
		}
	}
	if calls := m.bare.made("get") + m.bare.made("create") + m.bare.made("delete"); calls != 1 {
		t.Errorf("%d calls reached the cloud, want only the throttled one", calls)
	}
	m.clk.pass(8 * time.Second)
	if n, _ := passed(m.remove(t)); n > 1 {
		t.Errorf("%d calls at once after the pause, want no burst", n)
	}
	m.clk.pass(time.Second)
	if n, _ := passed(m.remove(t)); n == 0 {
		t.Error("no call gets through after the pause")
	}
}

func TestBudgetHalvesAndRecovers(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{PerSecond: 16, Burst: 16, Recover: 100 * time.Second}, never)
	perSecond := func() int { // deletes in ten seconds, from an empty bucket
		_, _ = passed(m.remove(t))
		n := 0
		for range 10 {
			m.clk.pass(time.Second)
			k, _ := passed(m.remove(t))
			n += k
		}
		return n / 10
	}
	if n := perSecond(); n != 16 {
		t.Fatalf("%d calls a second in good times, want 16", n)
	}
	m.throttle(time.Millisecond)
	for range 3 { // three callers hear the same at the same time
		_, _ = passed(m.remove(t))
	}
	m.clk.pass(time.Second)
	_, _ = passed(m.remove(t))
	m.relent()
	m.clk.pass(10 * time.Millisecond)
	if n := perSecond(); n < 7 || n > 11 {
		t.Errorf("%d calls a second after the cloud throttled once, want about half of 16", n)
	}
	for range 4 {
		m.clk.pass(30 * time.Second)
		_ = m.remove(t)()
	}
	if n := perSecond(); n != 16 {
		t.Errorf("%d calls a second after two minutes of peace, want 16 again", n)
	}
}

// TestBudgetHearsOneMessage lets many calls that are under way be throttled in
// the same moment.
func TestBudgetHearsOneMessage(t *testing.T) {
	t.Parallel()
	const callers = 8
	clk := newClock()
	var under sync.WaitGroup
	under.Add(callers)
	throttled := true
	a := wrap.Budget(wrap.Rate{PerSecond: 16, Burst: 64, Recover: time.Hour}, nil,
		wrap.Clock{Now: clk.Now, Rand: never})(info(), &account{
		delete: func(context.Context, cloud.Ref) (cloud.Deletion, error) {
			if !throttled {
				return cloud.Deletion{Done: true}, nil
			}
			under.Done()
			under.Wait()
			return cloud.Deletion{}, &cloud.Error{
				Code: cloud.Throttled, Op: "x", RetryAfter: time.Second,
				Err: errors.New("slow down"),
			}
		},
	})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() { _, _ = a.Delete(t.Context(), cloud.Ref{}) })
	}
	wg.Wait()
	throttled = false
	clk.pass(2 * time.Second)
	remove := func() error { _, err := a.Delete(t.Context(), cloud.Ref{}); return err }
	_, _ = passed(remove)
	clk.pass(2 * time.Second)
	if n, _ := passed(remove); n < 15 {
		t.Errorf("%d calls in two seconds, want about half of 32: %d answers at once are one message", n, callers)
	}
}

// TestBudgetSpreads refuses many callers at once: they are told different times
// within what the account needs for all of them.
func TestBudgetSpreads(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(3, 4))
	m := newMetered(wrap.Rate{PerSecond: 10, Burst: 10}, chance.Float64)
	_, _ = passed(m.remove(t))
	soon, late := 0, 0
	for range 200 {
		e, _ := errors.AsType[*cloud.Error](m.remove(t)())
		switch {
		case e.RetryAfter <= time.Second:
			soon++
		case e.RetryAfter > 21*time.Second:
			t.Errorf("told to wait %v, want at most the 20s that 200 calls take", e.RetryAfter)
		case e.RetryAfter > 5*time.Second:
			late++
		}
	}
	if soon > 60 || late < 60 {
		t.Errorf("of 200, %d come back within a second and %d after five, want them spread", soon, late)
	}
}

func TestBudgetFloor(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{PerSecond: 10, Burst: 10, Least: 1}, never)
	m.throttle(0)
	for range 30 {
		_, _ = passed(m.remove(t))
		m.clk.pass(5 * time.Second)
	}
	m.relent()
	m.clk.pass(time.Minute)
	if _, err := m.Get(t.Context(), cloud.Ref{}); err != nil {
		_ = m.remove(t)()
		m.clk.pass(5 * time.Second)
		if _, err := m.Get(t.Context(), cloud.Ref{}); err != nil {
			t.Errorf("a read never gets through again: %v", err)
		}
	}
}

func TestBudgetHintWhereTheCloudGivesNone(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{PerSecond: 10, Burst: 10}, never)
	m.throttle(0)
	if _, refusal := passed(m.create(t)); refusal.RetryAfter <= 0 || refusal.Reason != "SlowDown" {
		t.Errorf("got %+v, want the cloud's error with a RetryAfter", refusal)
	}
	if m.says.RetryAfter != 0 {
		t.Error("the driver's own error was changed")
	}
}

// TestBudgetNoBurst lets a thousand callers come back when they are told to,
// and counts how many the cloud sees in any second.
func TestBudgetNoBurst(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(1, 2))
	m := newMetered(wrap.Rate{PerSecond: 20, Burst: 20}, chance.Float64)
	m.throttle(30 * time.Second)
	_, _ = passed(m.create(t))
	m.relent()
	const callers, slots = 1000, 1200 * 10 // of 100 ms
	due := make([][]int, slots)
	for i := range callers {
		due[0] = append(due[0], i)
	}
	served, most, window := 0, 0, make([]int, slots)
	for s := range slots {
		for _, i := range due[s] {
			err := m.create(t)()
			if err == nil {
				served++
				window[s]++
				continue
			}
			e, _ := errors.AsType[*cloud.Error](err)
			if next := s + 1 + int(e.RetryAfter/(100*time.Millisecond)); next < slots {
				due[next] = append(due[next], i)
			}
		}
		sum := 0
		for _, n := range window[max(0, s-9) : s+1] {
			sum += n
		}
		most = max(most, sum)
		m.clk.pass(100 * time.Millisecond)
	}
	if served != callers {
		t.Errorf("%d of %d callers were served in 20 minutes", served, callers)
	}
	if most > 40 {
		t.Errorf("%d calls in one second, want at most the burst and the rate, 40", most)
	}
	if first := window[300]; first > 2 {
		t.Errorf("%d calls the moment the pause ended, want no burst", first)
	}
}

func TestBudgetConcurrently(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{PerSecond: 1, Burst: 50}, rand.Float64)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { _ = m.remove(t)() })
	}
	wg.Wait()
	if n := m.bare.made("delete"); n != 50 {
		t.Errorf("%d calls reached the cloud, want the burst of 50", n)
	}
}

func TestAdmissionHoldsAPlace(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{PerSecond: 10, Burst: 100}, never)
	admit := func(i int) error { return cloud.Admit(t.Context(), m.Account, request(fmt.Sprint(i))) }
	create := func(i int) error { _, err := m.Create(t.Context(), request(fmt.Sprint(i))); return err }
	i := -1
	places, refusal := passed(func() error { i++; return admit(i) })
	if places != 90 || refusal.Reason != cloud.ReasonRateBudget || refusal.RetryAfter <= 0 {
		t.Fatalf("%d creations were admitted, then %+v; want 90, as many as are made without asking, and a time to come back",
			places, refusal)
	}
	if err := admit(0); err != nil {
		t.Errorf("asked again: %v; who has a place keeps it", err)
	}
	for i := range places {
		if err := create(i); err != nil {
			t.Fatalf("creation %d of %d that have their place: %v", i, places, err)
		}
	}
	if err := create(0); err == nil {
		t.Error("a place was used twice")
	}
	m.clk.pass(time.Second)
	if err := admit(1000); err != nil {
		t.Fatal(err)
	}
	m.clk.pass(2 * time.Minute)
	if n, _ := passed(func() error { return create(1000) }); n != 90 {
		t.Errorf("%d creations after two minutes, want 90: a place that nobody took is lost", n)
	}
}

func TestAPlaceDoesNotOverruleTheCloud(t *testing.T) {
	t.Parallel()
	m := newMetered(wrap.Rate{PerSecond: 10, Burst: 10}, never)
	if err := cloud.Admit(t.Context(), m.Account, request("1")); err != nil {
		t.Fatal(err)
	}
	m.throttle(30 * time.Second)
	_ = m.remove(t)()
	m.relent()
	if err := m.create(t)(); cloud.CodeOf(err) != cloud.Throttled {
		t.Errorf("created while the cloud wants to be left alone: %v", err)
	}
}
