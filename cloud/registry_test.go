package cloud_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// driver is a driver that opens accounts as open says.
type driver struct {
	traits cloud.Traits
	open   func(ctx context.Context, creds cloud.Credentials) (cloud.Account, error)
}

func (d *driver) Traits() cloud.Traits { return d.traits }

func (d *driver) Parse(cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	return cloud.Class{}, nil
}

func (d *driver) CheckSecret(cloud.Class, cloud.Credentials) []cloud.Problem { return nil }

func (d *driver) DecodeProviderID(string) (string, bool) { return "", false }

func (d *driver) Open(ctx context.Context, _ cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	return d.open(ctx, creds)
}

// account is an account that can be closed and does nothing else.
type account struct {
	name string

	mu     sync.Mutex
	closed int
}

func (a *account) Create(context.Context, cloud.CreateRequest) (cloud.VM, error) {
	return cloud.VM{}, nil
}
func (a *account) Get(context.Context, cloud.Ref) (cloud.VM, error) { return cloud.VM{}, nil }
func (a *account) Delete(context.Context, cloud.Ref) (cloud.Deletion, error) {
	return cloud.Deletion{}, nil
}

func (a *account) List(context.Context, cloud.Class, ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(func(cloud.Resource, error) bool) {}
}

func (a *account) Capacity(context.Context, cloud.Class) (cloud.Capacity, error) {
	return cloud.Capacity{}, nil
}

func (a *account) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed++
	return nil
}

// opener returns a driver that opens a new account each time.
func opener() *driver {
	return &driver{
		traits: cloud.Traits{Name: "Fake", Aliases: []string{"phony"}},
		open:   func(context.Context, cloud.Credentials) (cloud.Account, error) { return &account{}, nil },
	}
}

func registry(t *testing.T, d cloud.Driver, wraps ...cloud.Middleware) *cloud.Registry {
	t.Helper()
	r, err := cloud.NewRegistry([]cloud.Driver{d}, time.Now, wraps...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func key(v string) cloud.Credentials {
	return cloud.Credentials{"key": []byte(v), "userData": []byte("boot")}
}

func TestRegistryFindsDrivers(t *testing.T) {
	t.Parallel()
	d := opener()
	r := registry(t, d)
	for _, name := range []string{"Fake", "fake", "FAKE", "phony"} {
		if got, err := r.Driver(name); err != nil || got != cloud.Driver(d) {
			t.Errorf("driver %q: %v, %v", name, got, err)
		}
	}
	if _, err := r.Driver("aws"); cloud.CodeOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "Fake") {
		t.Errorf("driver aws: got %v, want Invalid and the names that there are", err)
	}
	if got, err := r.Driver(""); err != nil || got != cloud.Driver(d) {
		t.Errorf("no name, where there is one driver: %v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"Fake"}, r.Names()); diff != "" {
		t.Errorf("names: -want +got: %s", diff)
	}
	other := opener()
	other.traits = cloud.Traits{Name: "Other", Aliases: []string{"FAKE"}}
	if _, err := cloud.NewRegistry([]cloud.Driver{d, other}, time.Now); err == nil {
		t.Error("two drivers of one name are accepted")
	}
	other.traits.Aliases = nil
	two, err := cloud.NewRegistry([]cloud.Driver{d, other}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Driver(""); cloud.CodeOf(err) != cloud.Invalid {
		t.Errorf("no name, where there are two drivers: got %v, want Invalid", err)
	}
}

func TestRegistrySharesAccounts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		creds    cloud.Credentials
		endpoint string
		same     bool
	}{
		"Equal": {"equal credentials share one account, with its session, budget and caches", key("1"), "e", true},
		"Other userData": {
			"user data is no credential",
			cloud.Credentials{"key": []byte("1"), "userData": []byte("other")},
			"e", true,
		},
		"Rotated":        {"rotation opens a new one", key("2"), "e", false},
		"Other endpoint": {"an account is at one endpoint", key("1"), "f", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := opener()
			r := registry(t, d)
			first, err := r.Account(t.Context(), d, cloud.Class{Endpoint: "e"}, key("1"))
			if err != nil {
				t.Fatal(err)
			}
			second, err := r.Account(t.Context(), d, cloud.Class{Endpoint: c.endpoint}, c.creds)
			if err != nil || (first == second) != c.same {
				t.Errorf("same account: %v, %v, want %v; reason: %s", first == second, err, c.same, c.reason)
			}
		})
	}
}

func TestRegistryRetriesAFailedOpen(t *testing.T) {
	t.Parallel()
	fails := true
	d := opener()
	d.open = func(context.Context, cloud.Credentials) (cloud.Account, error) {
		if fails {
			return nil, cloud.Errorf(cloud.Denied, "log in", "Refused", "no")
		}
		return &account{}, nil
	}
	r := registry(t, d)
	if _, err := r.Account(t.Context(), d, cloud.Class{}, key("1")); cloud.CodeOf(err) != cloud.Denied {
		t.Errorf("got %v, want the driver's error", err)
	}
	fails = false
	if _, err := r.Account(t.Context(), d, cloud.Class{}, key("1")); err != nil {
		t.Errorf("after a failure: %v, want an account", err)
	}
}

func TestRegistrySlowOpenBlocksNobodyElse(t *testing.T) {
	t.Parallel()
	var opens atomic.Int32
	entered, release := make(chan struct{}, 3), make(chan struct{})
	d := opener()
	d.open = func(_ context.Context, creds cloud.Credentials) (cloud.Account, error) {
		if string(creds["key"]) == "slow" {
			opens.Add(1)
			entered <- struct{}{}
			<-release
		}
		return &account{}, nil
	}
	r := registry(t, d)
	slow := make([]cloud.Account, 3)
	var wg sync.WaitGroup
	for i := range slow {
		wg.Go(func() {
			var err error
			if slow[i], err = r.Account(t.Context(), d, cloud.Class{}, key("slow")); err != nil {
				t.Errorf("slow: %v", err)
			}
		})
	}
	<-entered // one hangs in its login, the others wait for it
	fast := make(chan error, 1)
	go func() {
		_, err := r.Account(t.Context(), d, cloud.Class{}, key("fast"))
		fast <- err
	}()
	select {
	case err := <-fast:
		if err != nil {
			t.Errorf("fast: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a slow login delays an account of other credentials")
	}
	close(release)
	wg.Wait()
	if n := opens.Load(); n != 1 || slow[0] == nil || slow[0] != slow[1] || slow[1] != slow[2] {
		t.Errorf("%d logins and accounts %v, want one login that all share", n, slow)
	}
}

func TestRegistryClosesWhatNobodyUses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var opened []*account
	d := opener()
	d.open = func(_ context.Context, creds cloud.Credentials) (cloud.Account, error) {
		opened = append(opened, &account{name: string(creds["key"])})
		return opened[len(opened)-1], nil
	}
	r, err := cloud.NewRegistry([]cloud.Driver{d}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	use := func(k string) {
		t.Helper()
		if _, err := r.Account(t.Context(), d, cloud.Class{}, key(k)); err != nil {
			t.Fatal(err)
		}
	}
	use("old")
	use("kept")
	for range 3 {
		now = now.Add(time.Hour)
		use("kept")
	}
	if opened[0].closed != 1 || opened[1].closed != 0 || len(opened) != 2 {
		t.Errorf("after three hours: old closed %d times, the one in use %d times, %d opened", opened[0].closed,
			opened[1].closed, len(opened))
	}
	use("old")
	if len(opened) != 3 {
		t.Errorf("%d accounts opened, want a new one in place of the closed", len(opened))
	}
}

// named is a decorator that says where it is.
type named struct {
	cloud.Account
	name string
}

func TestRegistryWraps(t *testing.T) {
	t.Parallel()
	var infos []cloud.AccountInfo
	as := func(name string) cloud.Middleware {
		return func(info cloud.AccountInfo, next cloud.Account) cloud.Account {
			infos = append(infos, info)
			return named{next, name}
		}
	}
	d := opener()
	r := registry(t, d, as("inner"), as("outer"))
	creds := cloud.Credentials{
		"short": []byte("abc"), "key": []byte("a-key"), "password": []byte("a-longer-password"),
		"user": []byte("somebody"),
	}
	a, err := r.Account(t.Context(), d, cloud.Class{Endpoint: "e"}, creds)
	if err != nil {
		t.Fatal(err)
	}
	outer, ok := a.(named)
	inner, ok2 := outer.Account.(named)
	if !ok || !ok2 || outer.name != "outer" || inner.name != "inner" {
		t.Errorf("got %+v, want the first of the decorators innermost", a)
	}
	const text, want = "abc a-key a-longer-password somebody", "abc a-key [redacted] [redacted]"
	if len(infos) != 2 || infos[0].Driver.Name != "Fake" || infos[0].Endpoint != "e" ||
		infos[0].Redactor.Text(text) != want {
		t.Errorf("info %+v, want the driver, the endpoint and what masks all but short values", infos)
	}
	if _, err := r.Account(t.Context(), d, cloud.Class{Endpoint: "e"}, creds); err != nil || len(infos) != 2 {
		t.Errorf("an account is wrapped again when it is asked for again: %v", errors.Join(err))
	}
}

func TestAnEndpointThatDoesNotAnswerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	refused := cloud.Errorf(cloud.Unavailable, "log in", "Refused", "no route")
	entered, leave := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	d := opener()
	d.open = func(ctx context.Context, _ cloud.Credentials) (cloud.Account, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a login without deadline may last for ever")
		}
		if calls.Add(1) == 1 {
			return nil, refused
		}
		close(entered)
		<-leave
		return &account{}, nil
	}
	r, err := cloud.NewRegistry([]cloud.Driver{d}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		_, err := r.Account(t.Context(), d, cloud.Class{}, cloud.Credentials{})
		return err
	}
	if err := ask(); !errors.Is(err, refused) {
		t.Fatalf("Account() = %v, want the driver's refusal", err)
	}
	second := make(chan error)
	go func() { second <- ask() }()
	<-entered
	if err := ask(); !errors.Is(err, refused) {
		t.Errorf("Account() = %v while another caller tries again, want the last refusal at once", err)
	}
	close(leave)
	if err := <-second; err != nil {
		t.Errorf("Account() = %v, want the account", err)
	}
	if err := ask(); err != nil {
		t.Errorf("Account() = %v after a login that worked", err)
	}
}
