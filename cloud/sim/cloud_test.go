package sim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// env is a Cloud under virtual time.
type env struct {
	*testing.T
	*sim.Cloud
	clock *clock
	who   sim.Login
}

func newEnv(t *testing.T, edit func(*sim.Settings)) *env {
	t.Helper()
	settings := sim.DefaultSettings()
	if edit != nil {
		edit(&settings)
	}
	now := newClock()
	c := sim.New(sim.Options{Clock: now, Seed: 7, Settings: settings})
	return &env{T: t, Cloud: c, clock: now, who: sim.Login{Account: "demo", Secret: "demo-secret"}}
}

func input(name string) sim.VMInput {
	return sim.VMInput{InstanceType: "small", Image: "linux-1", Zone: "sim-1a", Tags: map[string]string{sim.NameTag: name}}
}

func (s *env) make(in sim.VMInput) sim.Resource {
	s.Helper()
	vm, err := s.CreateVM(s.who, "sim-1", in)
	if err != nil {
		s.Fatal(err)
	}
	return vm
}

// state is the state of a VM as the API shows it, or the error's code.
func (s *env) state(id string) string {
	s.Helper()
	vm, err := s.GetVM(s.who, "sim-1", id)
	if err != nil {
		return codeOf(err)
	}
	return vm.VM.State
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*sim.APIError](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestVMStateFollowsFromTime(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) {
		o.BootTime, o.DeleteTime = sim.Duration(10*time.Second), sim.Duration(5*time.Second)
	})
	id := s.make(input("a")).ID
	steps := []struct {
		reason string
		do     func()
		after  time.Duration
		want   string
	}{
		{"a new VM is pending", nil, 0, sim.StatePending},
		{"it is pending until its boot time is over", nil, 9 * time.Second, sim.StatePending},
		{"then it runs", nil, time.Second, sim.StateRunning},
		{"a stopped VM stays stopped", func() { s.Stop(id) }, time.Hour, sim.StateStopped},
		{"a started VM boots again", func() { s.Start(id) }, 0, sim.StatePending},
		{"and runs after its boot time", nil, 10 * time.Second, sim.StateRunning},
		{"a failed VM stays failed", func() { s.Fail(id, "HardwareFailure", "") }, time.Hour, sim.StateFailed},
		{"a deleted VM is there for its delete time", func() {
			_, _ = s.DeleteVM(s.who, "sim-1", id)
		}, 4 * time.Second, sim.StateDeleting},
		{"a second deletion does not start over", func() {
			_, _ = s.DeleteVM(s.who, "sim-1", id)
		}, time.Second, sim.CodeNotFound},
	}
	for _, step := range steps {
		if step.do != nil {
			step.do()
		}
		s.clock.Advance(step.after)
		if got := s.state(id); got != step.want {
			t.Errorf("%s: got %s, want %s", step.reason, got, step.want)
		}
	}
	if left := s.Live(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	for _, r := range s.Ledger() {
		if r.GoneBy != "demo" || r.Gone.IsZero() {
			t.Errorf("the ledger does not say when and by whom %s %s went: %+v", r.Kind, r.ID, r)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		edit   func(*sim.Settings)
		in     sim.VMInput
		made   int // that fit in
		want   sim.APIError
		freed  bool // a deletion makes room
	}{
		"Capacity": {
			reason: "a zone that is full names what is exhausted",
			edit:   func(o *sim.Settings) { o.Zones[0].Capacity = map[string]int{"small": 2} },
			in:     input("x"), made: 2, freed: true,
			want: sim.APIError{
				Code: sim.CodeInsufficientCapacity, Region: "sim-1", Zone: "sim-1a", InstanceType: "small",
				CapacityType: "on-demand",
			},
		},
		"AnyZone": {
			reason: "without a zone the next one with room is taken",
			edit: func(o *sim.Settings) {
				o.Zones = o.Zones[:2]
				o.Zones[0].Capacity, o.Zones[1].Capacity = map[string]int{"small": 1}, map[string]int{"small": 2}
			},
			in: sim.VMInput{InstanceType: "small", Image: "linux-1", Spot: true}, made: 3, freed: true,
			want: sim.APIError{Code: sim.CodeInsufficientCapacity, Region: "sim-1", InstanceType: "small", CapacityType: "spot"},
		},
		"Quota": {
			reason: "an account has a quota of VMs in all zones",
			edit:   func(o *sim.Settings) { o.Accounts[0].VMQuota = 3 },
			in:     input("x"), made: 3, freed: true,
			want: sim.APIError{Code: sim.CodeQuotaExceeded, Region: "sim-1"},
		},
		"Addresses": {
			reason: "a network has only so many addresses",
			edit:   func(o *sim.Settings) { o.Networks[0].Addresses = 1 },
			in:     input("x"), made: 1, freed: true,
			want: sim.APIError{Code: sim.CodeAddressesExhausted, Region: "sim-1"},
		},
		"Zone": {
			reason: "zones are known", in: sim.VMInput{InstanceType: "small", Image: "linux-1", Zone: "z"},
			want: sim.APIError{Code: sim.CodeInvalidZone},
		},
		"Image": {
			reason: "images are known", in: sim.VMInput{InstanceType: "small"},
			want: sim.APIError{Code: sim.CodeInvalidImage},
		},
		"Type": {
			reason: "types are known", in: sim.VMInput{Image: "linux-1"},
			want: sim.APIError{Code: sim.CodeInvalidInstanceType},
		},
		"Root": {
			reason: "a root disk holds its image", want: sim.APIError{Code: sim.CodeInvalidParameter},
			in: sim.VMInput{InstanceType: "small", Image: "linux-1", RootDisk: &sim.DiskInput{SizeGiB: 1}},
		},
		"UserData": {
			reason: "user data has a limit", want: sim.APIError{Code: sim.CodeUserDataTooLarge},
			in: sim.VMInput{InstanceType: "small", Image: "linux-1", UserData: make([]byte, sim.UserDataMax+1)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnv(t, c.edit)
			var last sim.Resource
			for range c.made {
				last = s.make(c.in)
			}
			before := len(s.Ledger())
			_, err := s.CreateVM(s.who, "sim-1", c.in)
			e, _ := errors.AsType[*sim.APIError](err)
			if e == nil {
				t.Fatalf("%s: got %v, want %+v", c.reason, err, c.want)
			}
			got := sim.APIError{
				Code: e.Code, Region: e.Region, Zone: e.Zone, InstanceType: e.InstanceType,
				CapacityType: e.CapacityType,
			}
			if got != c.want {
				t.Errorf("%s: got %+v, want %+v", c.reason, got, c.want)
			}
			if len(s.Ledger()) != before {
				t.Errorf("%s: a refused call made something", c.reason)
			}
			if !c.freed {
				return
			}
			if _, err := s.DeleteVM(s.who, "sim-1", last.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CreateVM(s.who, "sim-1", c.in); err != nil {
				t.Errorf("%s: when one VM is gone: %v", c.reason, err)
			}
		})
	}
}

func TestClientToken(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) { o.Settle = sim.Duration(time.Minute) })
	in := input("a")
	in.ClientToken = "t"
	first, again := s.make(in), s.make(in)
	if first.ID != again.ID || len(s.VMs()) != 1 {
		t.Errorf("an equal token made %s and %s", first.ID, again.ID)
	}
	if got := s.state(first.ID); got != sim.CodeNotFound {
		t.Errorf("within the settle time get says %s, want NotFound", got)
	}
	other := in
	other.Image = "linux-2"
	if _, err := s.CreateVM(s.who, "sim-1", other); codeOf(err) != sim.CodeTokenMismatch {
		t.Errorf("an equal token with another image: got %v", err)
	}
	s.clock.Advance(time.Minute)
	if got := s.state(first.ID); got != sim.StateRunning {
		t.Errorf("after the settle time get says %s", got)
	}
	s.Terminate(first.ID, "Terminated")
	if _, err := s.CreateVM(s.who, "sim-1", in); codeOf(err) != sim.CodeTokenExpired {
		t.Errorf("the token of a VM that is gone: got %v", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) {
		o.Accounts = append(o.Accounts, sim.Tenant{ID: "other", SecretKeys: []string{"s"}})
	})
	id := s.make(input("a")).ID
	keys := func(keys ...string) { s.Change(func(o *sim.Settings) { o.Accounts[0].SecretKeys = keys }) }
	keys("demo-secret", "new")
	for _, secret := range []string{"demo-secret", "new"} {
		if _, err := s.GetVM(sim.Login{Account: "demo", Secret: secret}, "sim-1", id); err != nil {
			t.Errorf("while the key is rotated, %s: %v", secret, err)
		}
	}
	keys("new")
	if got := s.state(id); got != sim.CodeInvalidCredentials {
		t.Errorf("the old key after rotation: got %s", got)
	}
	keys()
	if _, err := s.GetVM(sim.Login{Account: "demo"}, "sim-1", id); codeOf(err) != sim.CodeInvalidCredentials {
		t.Errorf("no key at an account without keys: got %v", err)
	}
	other := sim.Login{Account: "other", Secret: "s"}
	if _, err := s.DeleteVM(other, "sim-1", id); codeOf(err) != sim.CodeNotFound {
		t.Errorf("another account deletes the VM: %v", err)
	}
	if page, err := s.List(other, "sim-1", sim.Query{}); err != nil || len(page.Items) > 0 {
		t.Errorf("another account sees %v, %v", page.Items, err)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) { o.Accounts[0].RatePerSecond, o.Accounts[0].Burst = 2, 3 })
	id := s.make(input("a")).ID
	for range 2 {
		if got := s.state(id); got != sim.StateRunning {
			t.Errorf("within the burst: %s", got)
		}
	}
	_, err := s.GetVM(s.who, "sim-1", id)
	e, _ := errors.AsType[*sim.APIError](err)
	if e == nil || e.Code != sim.CodeRequestLimitExceeded || e.RetryAfter <= 0 {
		t.Fatalf("one call too many: got %v, want a refusal that says when to come back", err)
	}
	s.clock.Advance(time.Duration(e.RetryAfter))
	if got := s.state(id); got != sim.StateRunning {
		t.Errorf("after the time that was said: %s", got)
	}
}

// A rate of one operation limits no other one.
func TestRateOfAnOperation(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) {
		o.Accounts[0].Rates = map[string]sim.Rate{sim.OpCreateVM: {PerSecond: .5, Burst: 2}}
	})
	id := s.make(input("a")).ID
	s.make(input("b"))
	_, err := s.CreateVM(s.who, "sim-1", input("c"))
	e, _ := errors.AsType[*sim.APIError](err)
	if e == nil || e.Code != sim.CodeRequestLimitExceeded || e.RetryAfter <= 0 {
		t.Fatalf("one creation too many: got %v, want a refusal that says when to come back", err)
	}
	for range 10 {
		_ = s.state(id)
	}
	s.clock.Advance(time.Duration(e.RetryAfter))
	s.make(input("c"))
}

func TestCountsAndLog(t *testing.T) {
	t.Parallel()
	s := newEnv(t, nil)
	s.make(input("a"))
	_, _ = s.GetVM(s.who, "sim-1", "vm-none")
	_, _ = s.GetVM(sim.Login{Account: "nobody"}, "sim-1", "vm-none")
	want := []sim.Count{
		{Op: sim.OpCreateVM, Account: "demo", Total: 1},
		{Op: sim.OpGetVM, Account: "demo", Total: 1, Refused: 1},
		{Op: sim.OpGetVM, Account: "nobody", Total: 1, Refused: 1},
	}
	if diff := cmp.Diff(want, s.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if s.Calls("*") != 3 || s.Calls(sim.OpGetVM) != 2 {
		t.Errorf("%d calls, %d of GetVM, want 3 and 2", s.Calls("*"), s.Calls(sim.OpGetVM))
	}
	if log := s.Log(); len(log) != 3 || log[0].Subject != "a" || log[1].Code != sim.CodeNotFound ||
		log[2].Code != sim.CodeInvalidCredentials {
		t.Errorf("log: %+v", log)
	}
}
