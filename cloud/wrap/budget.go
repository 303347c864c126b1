package wrap

import (
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Rate is how many calls an account may make of which the cloud documents no rates.
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
	alone    importance = 0
	removing importance = 0
	making   importance = 0.1
	reading  importance = 0.3
)

// budget is one rate of an account.
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

// owe takes a token for a call that is made in any case, also one that is not there yet.
func (b *budget) owe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bucket.ReserveN(b.clock.Now(), 1)
}

// placeAge is how long a creation that was admitted keeps its place.
const placeAge = time.Minute

// place admits a creation before it is prepared, once.
func (b *budget) place(token string, i importance) error {
	if b.has(token) {
		return nil
	}
	if err := b.admit(opCreate, i); err != nil {
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
func (b *budget) take(token string, i importance) error {
	if !b.has(token) {
		return b.admit(opCreate, i)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.placed, token)
	return nil
}

// later refuses a call that has to wait at least that long. Each refusal makes
// the queue one call longer; who is refused comes back at a random time in that
// place of it. Places are as far apart as calls are in good times: wider ones
// would stay empty once the rate has recovered.
func (b *budget) later(op string, now time.Time, least time.Duration) error {
	if from := now.Add(least); b.queue.Before(from) {
		b.queue = from
	}
	turn := time.Duration(float64(time.Second) / b.r.PerSecond)
	wait := b.queue.Sub(now) + b.clock.upTo(turn)
	b.queue = b.queue.Add(turn)
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
	least := min(leastBurst, b.r.Burst)
	b.bucket.SetBurstAt(now, max(least, int(float64(b.r.Burst)*perSecond/b.r.PerSecond)))
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
