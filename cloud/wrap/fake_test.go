package wrap_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// clock is time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// account is an account whose answers a test chooses. A nil function answers
// with nothing.
type account struct {
	create func(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error)
	get    func(ctx context.Context, r cloud.Ref) (cloud.VM, error)
	delete func(ctx context.Context, r cloud.Ref) (cloud.Deletion, error)
	list   iter.Seq2[cloud.Resource, error]
	tags   func(ctx context.Context, r cloud.Ref, obsolete []string) error

	members error // of Register and Deregister

	mu     sync.Mutex
	calls  map[string]int
	closed int
}

func (a *account) count(op string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[string]int{}
	}
	a.calls[op]++
}

func (a *account) made(op string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[op]
}

func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	a.count("create")
	if a.create == nil {
		return cloud.VM{}, nil
	}
	return a.create(ctx, r)
}

func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	a.count("get")
	if a.get == nil {
		return cloud.VM{}, nil
	}
	return a.get(ctx, r)
}

func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	a.count("delete")
	if a.delete == nil {
		return cloud.Deletion{Done: true}, nil
	}
	return a.delete(ctx, r)
}

func (a *account) List(context.Context, cloud.Class, ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		a.count("list")
		if a.list != nil {
			a.list(yield)
		}
	}
}

func (a *account) Capacity(context.Context, cloud.Class) (cloud.Capacity, error) {
	a.count("capacity")
	return cloud.Capacity{}, nil
}

func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	a.count("tags")
	if a.tags == nil {
		return nil
	}
	return a.tags(ctx, r, obsolete)
}

func (a *account) RecordRetention(context.Context, cloud.Class, []cloud.Resource) error {
	a.count("retention")
	return errors.New("refused with s3cret-value")
}

func (a *account) Register(context.Context, cloud.Ref, []string) (cloud.Registration, error) {
	a.count("register")
	return cloud.Registration{Done: true}, a.members
}

func (a *account) Deregister(context.Context, cloud.Ref, []string) (cloud.Registration, error) {
	a.count("deregister")
	return cloud.Registration{Done: true}, a.members
}

func (a *account) Close() error {
	a.closed++
	return nil
}

// info is what the registry says about the account.
func info(secrets ...string) cloud.AccountInfo {
	return cloud.AccountInfo{
		Driver: cloud.Traits{Name: "Fake"}, Endpoint: "there", Redactor: cloud.NewRedactor(secrets, secrets),
	}
}

// never is chance that always says the least.
func never() float64 { return 0 }

// request asks for a VM of the class.
func request(token string) cloud.CreateRequest {
	return cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m-" + token, Class: cloud.Class{
			Name: "c", Namespace: "ns", Owner: "o", Region: "r", Zone: "z", InstanceType: "t",
		}},
		Token:      token,
		Checkpoint: func(context.Context, string) error { return nil },
	}
}

// listAll returns what a List yields.
func listAll(ctx context.Context, a cloud.Account, c cloud.Class) (all []cloud.Resource, err error) {
	for r, e := range a.List(ctx, c) {
		if e != nil {
			return all, e
		}
		all = append(all, r)
	}
	return all, nil
}
