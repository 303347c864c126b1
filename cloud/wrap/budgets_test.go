package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// ec2 are rates as EC2 documents them for a new account.
var ec2 = cloud.Rates{
	Create: cloud.Rate{PerSecond: 2, Burst: 5}, Delete: cloud.Rate{PerSecond: 5, Burst: 100},
	Get: cloud.Rate{PerSecond: 20, Burst: 100},
}

// newRated is an account of a driver that documents rates.
func newRated(rates cloud.Rates, configured map[string]cloud.Rates, chance func() float64) *metered {
	m := newMetered(wrap.Rate{PerSecond: 10, Burst: 10}, chance)
	about := info()
	about.Driver.Name, about.Driver.Rates = "fake", rates
	limits := wrap.Rate{PerSecond: 10, Burst: 10}
	m.Account = wrap.Budget(limits, configured, wrap.Clock{Now: m.clk.Now, Rand: chance})(about, m.bare)
	return m
}

func TestBudgetOfEachOperation(t *testing.T) {
	t.Parallel()
	m := newRated(ec2, nil, never)
	if n, _ := passed(m.create(t)); n != 4 {
		t.Errorf("%d creations at once, want 4, one less than allowed", n)
	}
	if n, _ := passed(m.remove(t)); n != 99 {
		t.Errorf("%d deletions after the creations were refused, want 99", n)
	}
	if n, _ := passed(m.get(t)); n != 99 {
		t.Errorf("%d looks after that, want 99", n)
	}
	m.clk.pass(10 * time.Second)
	if n, _ := passed(m.create(t)); n != 4 {
		t.Errorf("%d creations after ten seconds, want the burst, 4", n)
	}
}

// A cloud that throttles creations slows neither looks nor deletions.
func TestThrottledCreationsSlowNothingElse(t *testing.T) {
	t.Parallel()
	m := newRated(ec2, nil, never)
	m.throttle(time.Minute)
	if err := m.create(t)(); cloud.CodeOf(err) != cloud.Throttled {
		t.Fatalf("got %v, want the cloud's error", err)
	}
	m.relent()
	if err := m.create(t)(); cloud.CodeOf(err) != cloud.Throttled {
		t.Errorf("created during the pause: %v", err)
	}
	for name, f := range map[string]func() error{"get": m.get(t), "delete": m.remove(t)} {
		if n, _ := passed(f); n != 99 {
			t.Errorf("%d calls of %s during the pause of creations, want 99", n, name)
		}
	}
}

// TestKnownVMsCostNoCreation: a Create that is called again for a VM that exists
// counts as a look.
func TestKnownVMsCostNoCreation(t *testing.T) {
	t.Parallel()
	m := newRated(ec2, nil, never)
	again := request("known")
	again.ProviderID = "fake:///known"
	m.bare.create = func(context.Context, cloud.CreateRequest) (cloud.VM, error) { return cloud.VM{}, nil }
	if n, _ := passed(func() error { _, err := m.Create(t.Context(), again); return err }); n != 99 {
		t.Errorf("%d looks at a VM that is being created, want 99", n)
	}
	if n, _ := passed(m.create(t)); n != 4 {
		t.Errorf("%d creations after that, want 4", n)
	}
}

// What the cloud does not document has one budget for all.
func TestBudgetOfTheOthers(t *testing.T) {
	t.Parallel()
	m := newRated(cloud.Rates{Create: cloud.Rate{PerSecond: 2, Burst: 5}}, nil, never)
	reads, _ := passed(m.get(t))
	deletes, _ := passed(m.remove(t))
	if reads+deletes != 10 || deletes == 0 {
		t.Errorf("%d reads and %d deletions, want 10 together", reads, deletes)
	}
}

// A raised limit is configured; the rest stays as the driver documents it.
func TestConfiguredRates(t *testing.T) {
	t.Parallel()
	raised := map[string]cloud.Rates{"fake": {Create: cloud.Rate{PerSecond: 50, Burst: 60}}}
	m := newRated(ec2, raised, never)
	if n, _ := passed(m.create(t)); n != 59 {
		t.Errorf("%d creations at once, want 59, one less than configured", n)
	}
	if n, _ := passed(m.remove(t)); n != 99 {
		t.Errorf("%d deletions at once, want 99, one less than documented", n)
	}
}

// TestRateIsUsed lets many machines ask when they are told to: they get 90 % of what
// the cloud allows, and none is refused by it.
func TestRateIsUsed(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(5, 6))
	m := newRated(ec2, nil, chance.Float64)
	bucket := rate.NewLimiter(rate.Limit(ec2.Create.PerSecond), ec2.Create.Burst)
	throttled := 0
	m.bare.create = func(context.Context, cloud.CreateRequest) (cloud.VM, error) {
		arrived := m.clk.Now().Add(time.Duration(chance.Int64N(int64(300 * time.Millisecond))))
		if !bucket.AllowN(arrived, 1) {
			throttled++
			return cloud.VM{}, &cloud.Error{Code: cloud.Throttled, Op: "run", Reason: "SlowDown", Err: errors.New("slow down")}
		}
		return cloud.VM{}, nil
	}
	const machines, slot = 2000, 100 * time.Millisecond
	due := map[int][]int{0: nil}
	for i := range machines {
		due[0] = append(due[0], i)
	}
	served, slots := 0, 0
	for ; served < machines && slots < 1e5; slots++ {
		for _, i := range due[slots] {
			_, err := m.Create(t.Context(), request(fmt.Sprint(i)))
			if err == nil {
				served++
				continue
			}
			e, _ := errors.AsType[*cloud.Error](err)
			next := slots + 1 + int(e.RetryAfter/slot)
			due[next] = append(due[next], i)
		}
		delete(due, slots)
		m.clk.pass(slot)
	}
	if throttled > 0 {
		t.Errorf("the cloud refused %d of %d calls, want none", throttled, machines+throttled)
	}
	took := time.Duration(slots) * slot
	ideal := time.Duration((machines - ec2.Create.Burst) / 2 * int(time.Second))
	if share := float64(ideal) / float64(took); share < 0.9 {
		t.Errorf("%d machines took %v, that is %.0f %% of what the cloud allows, want 90 %%", machines, took, share*100)
	}
}
