package wrap

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Budget keeps an account within rates that it learns from the cloud: a rate
// halves when the cloud throttles, the cloud's RetryAfter is respected, and it
// recovers steadily. A call that does not fit is refused at once with
// cloud.Throttled and a RetryAfter; nothing waits. The waits are spread at random
// over the time that is needed for those who wait, so that there is no burst
// afterwards.
//
// An operation whose rate the cloud documents (Traits.Rates, or rates for the
// driver's name) has a budget of its own: creations that are throttled slow
// neither reads nor deletions. All others of an account share one, in which
// deleting goes before creating, and creating before reading.
func Budget(r Rate, rates map[string]cloud.Rates, clock Clock) cloud.Middleware {
	r, clock = r.withDefaults(), clock.withDefaults()
	return func(info cloud.AccountInfo, next cloud.Account) cloud.Account {
		known := info.Driver.Rates
		if configured, ok := rates[info.Driver.Name]; ok {
			known = configured.Or(known)
		}
		return &budgeted{layer: layer{next}, budgets: newBudgets(r, known, clock)}
	}
}

// budgets are those of one account.
type budgets struct {
	shared *budget
	own    map[string]*budget // by operation, where the cloud's rate is known
}

// margin is the share of a documented rate that is used: calls that are sent evenly
// arrive unevenly.
const margin = 0.95

func newBudgets(r Rate, known cloud.Rates, clock Clock) budgets {
	b := budgets{shared: newBudget(r, clock), own: map[string]*budget{}}
	for op, limit := range map[string]cloud.Rate{
		opCreate: known.Create, OpGet: known.Get, opDelete: known.Delete, opList: known.List, opCapacity: known.Capacity,
		opTags: known.Tags, opRegister: known.Members,
	} {
		if limit.PerSecond > 0 {
			own := r
			own.PerSecond, own.Burst = limit.PerSecond*margin, max(limit.Burst-1, 1)
			own.Least = min(own.Least, own.PerSecond)
			b.own[op] = newBudget(own, clock)
		}
	}
	if both, ok := b.own[opRegister]; ok {
		b.own[opDeregister] = both
	}
	return b
}

// of returns the budget of an operation, and how important it is among those that
// share it.
func (b budgets) of(op string) (*budget, importance) {
	if own, ok := b.own[op]; ok {
		return own, alone
	}
	switch op {
	case opDelete, opBootData, opDeregister:
		return b.shared, removing
	case opCreate, opReboot, opRegister:
		return b.shared, making
	}
	return b.shared, reading
}

// admit takes a token for a call, or says when to come back.
func (b budgets) admit(op string) (*budget, error) {
	budget, important := b.of(op)
	return budget, budget.admit(op, important)
}

// budgeted is an account within its budgets.
type budgeted struct {
	layer
	budgets budgets
}

// Admit holds a place for a creation.
func (a *budgeted) Admit(_ context.Context, r cloud.CreateRequest) error {
	b, important := a.budgets.of(opCreate)
	return b.place(r.Token, important)
}

func (a *budgeted) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	op := opCreate
	if r.ProviderID != "" {
		op = OpGet // it looks at the VM and creates none
	}
	b, important := a.budgets.of(op)
	if err := b.take(r.Token, important); err != nil {
		return cloud.VM{}, err
	}
	vm, err := a.Account.Create(ctx, r)
	return vm, b.learn(err)
}

func (a *budgeted) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	b, err := a.budgets.admit(OpGet)
	if err != nil {
		return cloud.VM{}, err
	}
	vm, err := a.Account.Get(ctx, r)
	return vm, b.learn(err)
}

func (a *budgeted) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	b, err := a.budgets.admit(opDelete)
	if err != nil {
		return cloud.Deletion{}, err
	}
	d, err := a.Account.Delete(ctx, r)
	return d, b.learn(err)
}

func (a *budgeted) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	b, err := a.budgets.admit(opCapacity)
	if err != nil {
		return cloud.Capacity{}, err
	}
	capacity, err := a.Account.Capacity(ctx, c)
	return capacity, b.learn(err)
}

func (a *budgeted) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	b, err := a.budgets.admit(opTags)
	if err != nil {
		return err
	}
	return b.learn(cloud.SetTags(ctx, a.Account, r, obsolete))
}

// RecordRetention shares the budget of SetTags.
func (a *budgeted) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	b, err := a.budgets.admit(opTags)
	if err != nil {
		return err
	}
	return b.learn(cloud.RecordRetention(ctx, a.Account, c, parts))
}

func (a *budgeted) Console(ctx context.Context, r cloud.Ref) (string, error) {
	b, err := a.budgets.admit(opConsole)
	if err != nil {
		return "", err
	}
	text, err := cloud.Console(ctx, a.Account, r)
	return text, b.learn(err)
}

func (a *budgeted) Reboot(ctx context.Context, r cloud.Ref) error {
	b, err := a.budgets.admit(opReboot)
	if err != nil {
		return err
	}
	return b.learn(cloud.Reboot(ctx, a.Account, r))
}

func (a *budgeted) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	b, err := a.budgets.admit(opBootData)
	if err != nil {
		return err
	}
	return b.learn(cloud.RemoveBootData(ctx, a.Account, r))
}

func (a *budgeted) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return a.member(opRegister, func() (cloud.Registration, error) { return cloud.Register(ctx, a.Account, r, places) })
}

func (a *budgeted) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return a.member(opDeregister, func() (cloud.Registration, error) {
		return cloud.Deregister(ctx, a.Account, r, places)
	})
}

func (a *budgeted) member(op string, call func() (cloud.Registration, error)) (cloud.Registration, error) {
	b, err := a.budgets.admit(op)
	if err != nil {
		return cloud.Registration{}, err
	}
	done, err := call()
	return done, b.learn(err)
}

// List is as many calls as it has pages. One that has begun is read to its end; what it took too much is
// missing to the next one.
func (a *budgeted) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		b, err := a.budgets.admit(opList)
		if err != nil {
			yield(cloud.Resource{}, err)
			return
		}
		pages := atomic.Int32{}
		counting := cloud.CountPages(ctx, func() {
			if pages.Add(1) > 1 { // the first one is admitted
				b.owe()
			}
		})
		for r, err := range a.Account.List(counting, c, kinds...) {
			if !yield(r, b.learn(err)) {
				return
			}
		}
	}
}
