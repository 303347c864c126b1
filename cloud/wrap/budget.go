package wrap

import (
	"context"
	"errors"
	"iter"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Rate is how many calls an account may make.
type Rate struct {
	PerSecond float64       // in good times; 0 is 20, as EC2 refills its buckets
	Burst     int           // at once, in good times; 0 is 100
	Least     float64       // per second in the worst times; 0 is 0.2
	Recover   time.Duration // from a half to the whole; 0 is two minutes
}

func (r Rate) withDefaults() Rate {
	if r.PerSecond <= 0 {
		r.PerSecond = 20
	}
	if r.Burst <= 0 {
		r.Burst = 100
	}
	if r.Least <= 0 {
		r.Least = 0.2
	}
	if r.Recover <= 0 {
		r.Recover = 2 * time.Minute
	}
	r.Least = min(r.Least, r.PerSecond)
	return r
}

// importance of a call. It is the number of tokens that the call leaves to the
// more important ones, as a share of the burst.
type importance float64

const (
	removing importance = 0
	making   importance = 0.1
	reading  importance = 0.3
)

// Budget keeps an account within a rate that it learns from the cloud: it
// halves when the cloud throttles, the whole account respects the cloud's
// RetryAfter, and it recovers steadily. A call that does not fit is refused at
// once with cloud.Throttled and a RetryAfter; nothing waits. Deleting goes
// before creating, and creating before reading. The waits are spread at random
// over the time that the account needs for those who wait, so that there is no
// burst afterwards.
func Budget(r Rate, clock Clock) cloud.Middleware {
	r, clock = r.withDefaults(), clock.withDefaults()
	return func(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
		return &budgeted{layer: layer{next}, b: newBudget(r, clock)}
	}
}

// budget is the rate of one account.
type budget struct {
	r     Rate
	clock Clock

	mu      sync.Mutex
	bucket  *rate.Limiter
	changed time.Time            // the last change of the rate
	until   time.Time            // nothing before; zero when the account does not pause
	queue   time.Time            // when all who were sent away will have had their turn
	placed  map[string]time.Time // tokens of the creations that have their place, and since when
}

func newBudget(r Rate, clock Clock) *budget {
	return &budget{
		r: r, clock: clock, bucket: rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst), changed: clock.Now(),
		placed: map[string]time.Time{},
	}
}

// admit takes a token for a call, or says when to come back.
func (b *budget) admit(op string, i importance) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if now.Before(b.until) {
		return b.later(op, now, b.until.Sub(now))
	}
	if !b.until.IsZero() {
		b.until = time.Time{}
		b.drain(now) // what came in during the pause would be a burst
	}
	b.recover(now)
	need := 1 + float64(i)*float64(b.bucket.Burst()-1)
	have := b.bucket.TokensAt(now)
	if have >= need && b.bucket.AllowN(now, 1) {
		return nil
	}
	return b.later(op, now, time.Duration((need-have)/float64(b.bucket.Limit())*float64(time.Second)))
}

// placeAge is how long a creation that was admitted keeps its place.
const placeAge = time.Minute

// place admits a creation before it is prepared, once.
func (b *budget) place(token string) error {
	if b.has(token) {
		return nil
	}
	if err := b.admit(opCreate, making); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.placed[token] = b.clock.Now()
	return nil
}

// has reports whether a creation has its place.
func (b *budget) has(token string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	maps.DeleteFunc(b.placed, func(_ string, since time.Time) bool { return now.Sub(since) > placeAge })
	_, has := b.placed[token]
	return has && !now.Before(b.until)
}

// take uses the place of a creation up, or admits it now.
func (b *budget) take(token string) error {
	if !b.has(token) {
		return b.admit(opCreate, making)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.placed, token)
	return nil
}

// later refuses a call that has to wait at least that long. Each refusal makes
// the queue one call longer, and everyone gets a random place in it.
func (b *budget) later(op string, now time.Time, least time.Duration) error {
	if from := now.Add(least); b.queue.Before(from) {
		b.queue = from
	}
	b.queue = b.queue.Add(time.Duration(float64(time.Second) / float64(b.bucket.Limit())))
	wait := least + b.clock.upTo(b.queue.Sub(now)-least)
	return &cloud.Error{
		Code: cloud.Throttled, Op: op, Reason: cloud.ReasonRateBudget, RetryAfter: max(wait, time.Millisecond),
		Err: errors.New("the account's rate limit is reached"),
	}
}

// drain takes all tokens.
func (b *budget) drain(now time.Time) {
	if n := int(b.bucket.TokensAt(now)); n > 0 {
		b.bucket.AllowN(now, n)
	}
}

// set changes the rate, and the burst with it.
func (b *budget) set(now time.Time, perSecond float64) {
	const leastBurst = 4 // leaves room for the shares
	b.changed = now
	b.bucket.SetLimitAt(now, rate.Limit(perSecond))
	b.bucket.SetBurstAt(now, max(leastBurst, int(float64(b.r.Burst)*perSecond/b.r.PerSecond)))
}

// recover raises the rate by what the time since the last change is worth.
func (b *budget) recover(now time.Time) {
	limit := float64(b.bucket.Limit())
	if limit >= b.r.PerSecond || now.Sub(b.changed) < time.Second {
		return
	}
	more := b.r.PerSecond / 2 * float64(now.Sub(b.changed)) / float64(b.r.Recover)
	b.set(now, min(b.r.PerSecond, limit+more))
}

// learn takes note of the cloud's answer. It returns err, with a RetryAfter
// when the cloud throttles without saying until when.
func (b *budget) learn(err error) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Throttled {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if now.Sub(b.changed) >= time.Second || float64(b.bucket.Limit()) >= b.r.PerSecond {
		// The answers of one moment are one message.
		b.set(now, max(b.r.Least, float64(b.bucket.Limit())/2))
	}
	pause := e.RetryAfter
	if pause <= 0 {
		pause = time.Duration(float64(time.Second) / float64(b.bucket.Limit()))
	}
	if until := now.Add(pause); until.After(b.until) {
		b.until = until
	}
	if e.RetryAfter > 0 {
		return err
	}
	hinted := *e
	hinted.RetryAfter = pause + b.clock.upTo(pause)
	return &hinted
}

// budgeted is an account within a budget.
type budgeted struct {
	layer
	b *budget
}

// Admit holds a place for a creation.
func (a *budgeted) Admit(_ context.Context, r cloud.CreateRequest) error { return a.b.place(r.Token) }

func (a *budgeted) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	if err := a.b.take(r.Token); err != nil {
		return cloud.VM{}, err
	}
	vm, err := a.Account.Create(ctx, r)
	return vm, a.b.learn(err)
}

func (a *budgeted) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	if err := a.b.admit(opGet, reading); err != nil {
		return cloud.VM{}, err
	}
	vm, err := a.Account.Get(ctx, r)
	return vm, a.b.learn(err)
}

func (a *budgeted) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	if err := a.b.admit(opDelete, removing); err != nil {
		return cloud.Deletion{}, err
	}
	d, err := a.Account.Delete(ctx, r)
	return d, a.b.learn(err)
}

func (a *budgeted) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	if err := a.b.admit(opCapacity, reading); err != nil {
		return cloud.Capacity{}, err
	}
	capacity, err := a.Account.Capacity(ctx, c)
	return capacity, a.b.learn(err)
}

// List is one call, however many pages it has.
func (a *budgeted) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		if err := a.b.admit(opList, reading); err != nil {
			yield(cloud.Resource{}, err)
			return
		}
		for r, err := range a.Account.List(ctx, c, kinds...) {
			if !yield(r, a.b.learn(err)) {
				return
			}
		}
	}
}
