package aws_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// env is an endpoint, the way there, and an account.
type env struct {
	*testing.T
	cloud   *ec2test.Cloud
	proxy   *cloudtest.Proxy
	now     *clock
	options aws.Options
	tokens  string // a folder of which Secrets may name files
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{T: t, now: newClock(), tokens: t.TempDir()}
	w.cloud = ec2test.New(settings(), w.now.Now)
	w.proxy = cloudtest.NewProxy(hosts{
		s3: cloudtest.HandlerTransport(newS3(w.now)), ec2: cloudtest.HandlerTransport(w.cloud),
	}, classify)
	w.options = aws.Options{
		Transport: w.proxy, Endpoint: "http://ec2.invalid", Now: w.now.Now, TokenFolders: []string{w.tokens},
		Window: driverkit.Window{Idle: 20 * time.Millisecond, Longest: 200 * time.Millisecond},
	}
	return w
}

// open returns an account and a class.
func (w *env) open(in cloud.ClassInput, creds cloud.Credentials) (cloud.Account, cloud.Class) {
	w.Helper()
	d := aws.NewDriver(w.options)
	c, problems := d.Parse(in)
	for _, p := range problems {
		if p.Severity > cloud.Warning {
			w.Fatal(p)
		}
	}
	a, err := d.Open(w.Context(), c, creds)
	if err != nil {
		w.Fatal(err)
	}
	return a, c
}

func (w *env) request(c cloud.Class, n int) cloud.CreateRequest {
	return cloud.CreateRequest{
		Ref:   cloud.Ref{Name: fmt.Sprintf("m-%d", n), OwnerID: fmt.Sprintf("owner-%d", n), Class: c, Created: w.now.Now()},
		Token: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), UserData: []byte("#cloud-config"),
		Checkpoint: func(context.Context, string) error { return nil },
	}
}

// each runs f for n machines at once.
func (w *env) each(n int, f func(i int) error) {
	w.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := f(i); err != nil {
				w.Errorf("machine %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// TestCallsPerVM: a VM costs one call and hardly more, and its end costs less.
func TestCallsPerVM(t *testing.T) {
	t.Parallel()
	const n = 200
	w := newEnv(t)
	w.cloud.Change(func(s *ec2test.Settings) { s.PageSize = 1000 })
	a, c := w.open(class("c", nil), credentials())
	refs := make([]cloud.Ref, n)
	w.each(n, func(i int) error {
		r := w.request(c, i)
		vm, err := a.Create(t.Context(), r)
		refs[i] = r.Ref
		refs[i].ProviderID = vm.ProviderID
		return err
	})
	w.now.Advance(time.Minute)
	w.each(n, func(i int) error {
		vm, err := a.Get(t.Context(), refs[i])
		if err == nil && (vm.State != cloud.StateRunning || vm.Name != refs[i].Name) {
			err = fmt.Errorf("got %s, %v, want %s running", vm.Name, vm.State, refs[i].Name)
		}
		return err
	})
	if calls := len(w.cloud.Calls()); float64(calls) > 1.2*n {
		t.Errorf("%d calls for %d machines until they run, want at most 1.2 each", calls, n)
	}
	w.cloud.Forget()
	for range 2 {
		w.each(n, func(i int) error { _, err := a.Delete(t.Context(), refs[i]); return err })
		w.now.Advance(time.Minute)
	}
	if calls, left := len(w.cloud.Calls()), len(w.cloud.Ledger()); calls > n/2 || left > 0 {
		t.Errorf("%d calls to delete %d machines, %d resources left, want calls that are shared and nothing", calls, n, left)
	}
}

// TestOneRefusalKeepsNoOther: what EC2 refuses for one instance of a shared call
// does not keep the others.
func TestOneRefusalKeepsNoOther(t *testing.T) {
	t.Parallel()
	const n = 5
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	refs := make([]cloud.Ref, n)
	for i := range n {
		r := w.request(c, i)
		vm, err := a.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		refs[i] = r.Ref
		refs[i].ProviderID = vm.ProviderID
		if i == 2 {
			w.cloud.Edit(vm.ID, func(r *ec2test.Resource) { r.Input.Set("DisableApiTermination", "true") })
		}
	}
	w.each(n, func(i int) error {
		_, err := a.Delete(t.Context(), refs[i])
		if i == 2 {
			if cloud.CodeOf(err) != cloud.Denied {
				return fmt.Errorf("got %w, want Denied", err)
			}
			return nil
		}
		return err
	})
	w.now.Advance(time.Minute)
	vms := 0
	for _, r := range w.cloud.Ledger() {
		if r.Kind == ec2test.KindInstance {
			vms++
		}
	}
	if vms != 1 {
		t.Errorf("%d instances are left, want the protected one", vms)
	}
}

// TestOneCancelKeepsNoOther: a shared call goes on when the one who began it
// gives up.
func TestOneCancelKeepsNoOther(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	vm, err := a.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.ProviderID = vm.ProviderID
	w.proxy.Inject(cloudtest.Fault{Kind: cloudtest.Delay, Delay: 300 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := a.Get(ctx, r.Ref); !errors.Is(err, context.DeadlineExceeded) || cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("who gives up gets %v, want Unavailable and the deadline", err)
		}
	})
	wg.Go(func() {
		if got, err := a.Get(t.Context(), r.Ref); err != nil || got.ID != vm.ID {
			t.Errorf("who waits gets %v, %v, want the VM", got.ID, err)
		}
	})
	wg.Wait()
}

// TestKeptVolumes: a volume that the class wants to keep is kept.
func TestKeptVolumes(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", spec{"blockDevices": []any{disk(spec{"deleteOnTermination": false})}}), credentials())
	r := w.request(c, 1)
	if _, err := a.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var d cloud.Deletion
	for range 3 {
		var err error
		if d, err = a.Delete(t.Context(), r.Ref); err != nil {
			t.Fatal(err)
		}
		w.now.Advance(time.Minute)
	}
	left := w.cloud.Ledger()
	if !d.Done || len(left) != 1 || left[0].Kind != ec2test.KindVolume {
		t.Errorf("done %v, left %+v, want done and the volume", d.Done, left)
	}
}

// TestExhausted: capacity and quota say of what.
func TestExhausted(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		edits  spec
		change func(s *ec2test.Settings)
		want   *cloud.Offering
	}{
		"Capacity": {
			"capacity is that of a type in a zone", nil, func(s *ec2test.Settings) {
				s.Capacity = map[string]int{"eu-west-1a/m5.large": 0}
			},
			&cloud.Offering{Region: "eu-west-1", Zone: "eu-west-1a", InstanceType: "m5.large", CapacityType: "on-demand"},
		},
		"Spot": {
			"each market has its own",
			spec{"spotPrice": ""},
			func(s *ec2test.Settings) {
				s.Capacity = map[string]int{"eu-west-1a/m5.large": 0}
			},
			&cloud.Offering{Region: "eu-west-1", Zone: "eu-west-1a", InstanceType: "m5.large", CapacityType: "spot"},
		},
		"Quota": {
			"a quota is that of a region", nil, func(s *ec2test.Settings) { s.Quota = 1 },
			&cloud.Offering{Region: "eu-west-1", InstanceType: "m5.large", CapacityType: "on-demand"},
		},
		"Addresses": {
			"another type does not help", nil,
			func(s *ec2test.Settings) { s.Subnets["subnet-a1"] = ec2test.Subnet{Zone: "eu-west-1a", Free: 0} }, nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.cloud.Change(c.change)
			if name == "Quota" {
				w.cloud.Add(ec2test.Resource{Kind: ec2test.KindInstance})
			}
			a, cl := w.open(class("c", c.edits), credentials())
			_, err := a.Create(t.Context(), w.request(cl, 1))
			e, _ := errors.AsType[*cloud.Error](err)
			if e == nil || e.Code != cloud.Exhausted {
				t.Fatalf("got %v, want Exhausted", err)
			}
			if diff := cmp.Diff(c.want, e.Offering); diff != "" {
				t.Errorf("reason: %s; -want +got: %s", c.reason, diff)
			}
		})
	}
}

// TestInterruptible: whoever may lose a VM at any time asks for it in one of three ways.
func TestInterruptible(t *testing.T) {
	t.Parallel()
	d := aws.NewDriver(aws.Options{})
	cases := map[string]struct {
		change spec
		want   bool
	}{
		"OnDemand":         {nil, false},
		"SpotPrice":        {spec{"spotPrice": "0.5"}, true},
		"EmptySpotPrice":   {spec{"spotPrice": ""}, true},
		"SpotMarket":       {spec{"instanceMarketOptions": spec{"marketType": "spot"}}, true},
		"PersistentSpot":   {keptSpot(), true},
		"ReclaimedByOwner": {spec{"instanceMarketOptions": spec{"marketType": "interruptible-capacity-reservation"}}, true},
		"CapacityBlock":    {spec{"instanceMarketOptions": spec{"marketType": "capacity-block"}}, false},
		"MarketWins": {
			spec{"spotPrice": "0.5", "instanceMarketOptions": spec{"marketType": "capacity-block"}}, false,
		},
	}
	for name, tc := range cases {
		c, problems := d.Parse(class("c", tc.change))
		if got := d.Interruptible(c); got != tc.want {
			t.Errorf("%s: Interruptible() = %v, want %v (%v)", name, got, tc.want, problems)
		}
	}
}

// TestPrefixesOnce: a call without token is not repeated until its effect would
// show.
func TestPrefixesOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]cloudtest.FaultKind{
		"LostRequest":  cloudtest.DropRequest,
		"LostResponse": cloudtest.DropResponse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			a, c := w.open(class("c", spec{"networkInterfaces": []any{nic(spec{"ipv6PrefixCount": 2})}}), credentials())
			r := w.request(c, 1)
			r.Checkpoint = func(_ context.Context, s string) error { r.State = s; return nil }
			w.proxy.Inject(cloudtest.Fault{Kind: kind, Match: cloudtest.Op("AssignIpv6Addresses")})
			if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.Unavailable {
				t.Errorf("create: got %v, want Unavailable", err)
			}
			a, _ = w.open(class("c", nil), credentials()) // another process
			for range 60 {
				vm, err := a.Create(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if vm.RetryAfter == 0 {
					break
				}
				w.now.Advance(vm.RetryAfter)
			}
			for _, n := range w.cloud.Ledger() {
				if n.Kind == ec2test.KindInterface && len(n.Prefixes) != 2 {
					t.Errorf("the interface has prefixes %v, want 2", n.Prefixes)
				}
			}
		})
	}
}

// TestPlacement: the machine's annotation counts unless the spec says where.
func TestPlacement(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	_, d := w.open(class("c", spec{"placement": spec{"groupId": "pg-1"}}), credentials())
	for i, class := range []cloud.Class{c, d} {
		r := w.request(class, i)
		r.Annotations = map[string]string{"machine.sapcloud.io/awsPlacement": `{"GroupName":"a-group","Tenancy":"dedicated"}`}
		if _, err := a.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, call := range w.cloud.Calls() {
		if call.Action == "RunInstances" {
			got = append(got, call.Form.Get("Placement.GroupName")+" "+call.Form.Get("Placement.Tenancy")+" "+
				call.Form.Get("Placement.GroupId"))
		}
	}
	if diff := cmp.Diff([]string{"a-group dedicated ", "  pg-1"}, got); diff != "" {
		t.Errorf("placements: -want +got: %s", diff)
	}
	r := w.request(c, 3)
	r.Annotations = map[string]string{"machine.sapcloud.io/awsPlacement": "a-group"}
	_, err := a.Create(t.Context(), r)
	if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Code != cloud.Invalid || len(e.Problems) != 1 ||
		!strings.Contains(e.Problems[0].Field, "awsPlacement") {
		t.Errorf("got %v, want the annotation named", err)
	}
}

// TestRebootOfABusyInstance: a refusal because of the state of the instance differs from an answer that
// is lost.
func TestRebootOfABusyInstance(t *testing.T) {
	t.Parallel()
	for code, busy := range map[string]bool{
		"IncorrectInstanceState": true, "IncorrectState": true, "InternalError": false,
	} {
		w := newEnv(t)
		a, c := w.open(class("c", nil), credentials())
		r := w.request(c, 1)
		vm, err := a.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.ProviderID = vm.ProviderID
		w.cloud.Inject(ec2test.Fault{Action: "RebootInstances", Code: code, Message: "no"})
		e, _ := errors.AsType[*cloud.Error](cloud.Reboot(t.Context(), a, r.Ref))
		if e == nil || e.Code != cloud.Unavailable || e.Reason == cloud.ReasonVMBusy != busy {
			t.Errorf("%s: got %+v", code, e)
		}
	}
}
