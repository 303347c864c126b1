// Package vm is the engine: the one implementation of "this machine has exactly
// one VM", for both APIs. [Machine] is the
// object that has it.
//
//	            Create(name, token)
//	no VM ───────────────────────────▶ VM ──▶ persisted providerID
//	  ▲   │ token was used with other          │
//	  │   ▼ parameters                         │ Delete
//	  │ look up ── found ──▶ VM                ▼
//	  └──── not found after the settle time   gone, believed after the settle time
//	        → next attempt, a new token
//
// What it remembers between calls only shortens waits: after a restart it waits
// the cloud's settle time once more before it believes that nothing is there.
package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// Engine creates, finds and deletes the VMs of machines. It is safe for
// concurrent use by different machines.
type Engine struct {
	clock        clock.PassiveClock
	formerLeader func() time.Duration
	fallback     *fallback.Memory

	mu       sync.Mutex
	memories map[string]memory
	zones    map[string]*zoneUse        // by class
	scopes   map[string]scopeUse        // by class
	owners   map[string]map[string]bool // by class and place, of the VMs that were there before
}

// minRetry is when a cloud that gives no hint is asked again.
const minRetry = time.Second

// memory is what the engine remembers of one machine's VM.
type memory struct {
	seen    time.Time // since when its providerID is known here; the VM was created before
	created time.Time // last call of Create
	unknown time.Time // when a call of Create last failed without an answer that tells its outcome
	missing time.Time // since when the cloud shows nothing; zero if it does or was not asked
	// deletionAccepted is set once the cloud has accepted that it goes, deregistered once it has left its load
	// balancers, as far as its deletion waits for that.
	deletionAccepted, deregistered bool
	neverFound                     string // the providerID of which a deletion has found nothing from the start
	notAnothers                    bool   // and there is no VM of another owner behind it either
	attempt                        int    // the latest one that was asked for, or looked for, here
	refused                        int    // the attempt whose refusal the cloud would repeat for ever
	lookRefused                    bool   // a class has refused the look for a VM that nothing records
	refusedIn                      string // the account that has definitely refused every request for it
	logged                         logged

	tagFailures      int // changes of tags in a row that failed
	bootDataFailures int // removals of boot data in a row that failed
}

// New returns an Engine that remembers nothing. formerLeader returns for how long a
// request of a former leader may still take effect, see fence.Fence. exhausted is what is known of
// exhausted classes; nil is nothing.
func New(c clock.PassiveClock, formerLeader func() time.Duration, exhausted *fallback.Memory) *Engine {
	return &Engine{
		clock: c, formerLeader: formerLeader, fallback: exhausted, memories: map[string]memory{},
		zones: map[string]*zoneUse{}, scopes: map[string]scopeUse{}, owners: map[string]map[string]bool{},
	}
}

// Token is the idempotency token of one attempt of a machine: 36 characters in
// the form of a UUID, equal for equal arguments.
func Token(ownerID string, attempt int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s/%d", ownerID, attempt))
	h[6] = h[6]&0x0f | 0x50
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// want is the VM that is wanted.
type want struct {
	// Request without Token.
	Request cloud.CreateRequest
	// Attempt at the VM, from 1.
	Attempt int
	// Spent is set when the attempt must not be used any more, e.g. because its
	// bootstrap token has expired. The VM is looked up, and without one the next
	// attempt begins.
	Spent bool
	// Next persists the number of the next attempt before anything is done under
	// it. It fails on a stale object.
	Next func(ctx context.Context, attempt int) error
}

// ensure returns the VM of w, and makes it if there is none. It does not wait:
// while VM.RetryAfter is positive it wants to be called again. After a new
// attempt was recorded it returns an error of code TokenUsed, and the caller
// comes back with that attempt.
func (e *Engine) ensure(ctx context.Context, a cloud.Account, traits cloud.Traits, w want) (cloud.VM, error) {
	key := w.Request.OwnerID
	before := e.memory(key)
	// The cloud would refuse an attempt for as long as it is repeated; of a later one that was lost, the VM may be there.
	spent := w.Spent || before.refused == w.Attempt || before.attempt > w.Attempt
	if spent && w.Request.ProviderID == "" {
		return e.nextAttempt(ctx, a, traits, w)
	}
	w.Request.Token = Token(w.Request.OwnerID, w.Attempt)
	// What was removed before, as when the class changes, was another VM.
	e.update(key, func(n *memory) {
		n.created, n.deletionAccepted, n.deregistered, n.attempt = e.clock.Now(), false, false, w.Attempt
	})
	e.logAttempt(ctx, w)
	made, err := a.Create(ctx, w.Request)
	// The call takes its time, and the VM may have come about at the end of it.
	e.update(key, func(n *memory) { n.created = e.clock.Now() })
	if err == nil {
		e.update(key, func(n *memory) { n.missing = time.Time{} })
		e.logCreated(ctx, w, made)
		return made, nil
	}
	if cloud.CodeOf(err) == cloud.TokenUsed && w.Request.ProviderID == "" {
		return e.nextAttempt(ctx, a, traits, w)
	}
	// The answer may be what failed: what was not there before may be there now.
	e.update(key, func(n *memory) {
		n.missing = time.Time{}
		if cloud.OutcomeUnknown(err) {
			n.unknown = e.clock.Now()
		}
		if traits.StickyKeys && answered(err, cloud.Exhausted) {
			n.refused = w.Attempt
		}
	})
	return cloud.VM{}, err
}

// answered reports whether err has that code, and is the cloud's answer to this request.
func answered(err error, code cloud.Code) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Code == code && !e.Remembered
}

// nextAttempt looks for the VM of an attempt that must not be repeated. Once no request on its way can
// create that VM, and the cloud has then shown none for its settle time, the next attempt begins.
func (e *Engine) nextAttempt(ctx context.Context, a cloud.Account, traits cloud.Traits, w want) (cloud.VM, error) {
	asked := e.clock.Now()
	found, err := a.Get(ctx, w.Request.Ref)
	if err == nil {
		e.update(w.Request.OwnerID, func(n *memory) { n.missing = time.Time{} })
		return found, nil
	}
	if cloud.CodeOf(err) != cloud.NotFound {
		return cloud.VM{}, err
	}
	wait := e.inFlight(w.Request.OwnerID)
	if wait > 0 { // until then, that the cloud shows none means nothing
		e.update(w.Request.OwnerID, func(n *memory) { n.missing = time.Time{} })
	} else {
		wait = e.absenceGraceLeft(w.Request.OwnerID, traits.Settle, asked)
	}
	if wait > 0 {
		return cloud.VM{}, &cloud.Error{
			Code: cloud.TokenUsed, Op: "create VM", Reason: "WaitingForLookup", RetryAfter: wait,
			Err: fmt.Errorf("attempt %d cannot be repeated, and the cloud may not show its VM yet", w.Attempt),
		}
	}
	next := max(w.Attempt, e.memory(w.Request.OwnerID).attempt) + 1
	if err := w.Next(ctx, next); err != nil {
		return cloud.VM{}, fmt.Errorf("record attempt %d: %w", next, err)
	}
	e.update(w.Request.OwnerID, func(n *memory) { n.missing = time.Time{} })
	loggerOf(ctx, w.Request.Ref).Info("Next attempt at VM", "attempt", next,
		"cause", "the attempt before made no VM and cannot be repeated")
	return cloud.VM{}, &cloud.Error{
		Code: cloud.TokenUsed, Op: "create VM", Reason: "NewAttempt", RetryAfter: time.Millisecond,
		Err: fmt.Errorf("attempt %d made no VM, attempt %d follows", w.Attempt, next),
	}
}

// ObserveProviderID notes that a machine's providerID is known; an empty one is
// ignored. Called for each machine that is observed, it saves Remove the wait for
// VMs that have existed for long.
func (e *Engine) ObserveProviderID(ownerID, providerID string) {
	if providerID == "" {
		return
	}
	e.update(ownerID, func(n *memory) {
		if n.seen.IsZero() {
			n.seen = e.clock.Now()
		}
	})
}

// remove asks for the VM of r, and all that was made with it, to go. Done is
// only true when it can be believed: where a VM may have been made so recently
// that the cloud does not show it yet, "nothing there" has to last for the
// settle time first.
func (e *Engine) remove(ctx context.Context, a cloud.Account, traits cloud.Traits, r cloud.Ref) (cloud.Deletion,
	error,
) {
	e.ObserveProviderID(r.OwnerID, r.ProviderID)
	asked := e.clock.Now()
	d, err := a.Delete(ctx, r)
	if err != nil {
		return cloud.Deletion{}, err
	}
	e.logGoing(ctx, r)
	if !d.Done || d.Found {
		e.update(r.OwnerID, func(n *memory) { n.deletionAccepted = true })
	}
	if !d.Done {
		e.update(r.OwnerID, func(n *memory) { n.missing = time.Time{} })
		if d.RetryAfter <= 0 {
			d.RetryAfter = minRetry
		}
		return d, nil
	}
	if wait := e.inFlight(r.OwnerID); wait > 0 && r.ProviderID == "" {
		e.update(r.OwnerID, func(n *memory) { n.missing = time.Time{} })
		return cloud.Deletion{RetryAfter: wait, Remaining: []string{"a VM that a request without an answer may create"}}, nil
	}
	if e.absenceUncertain(r, traits.Settle, asked) {
		if wait := e.absenceGraceLeft(r.OwnerID, traits.Settle, asked); wait > 0 {
			return cloud.Deletion{RetryAfter: wait, Remaining: []string{"a VM that the cloud may not show yet"}}, nil
		}
	}
	e.logGone(ctx, r)
	return d, nil
}

// inFlight returns for how long a request of this process whose outcome is unknown, or one of a former
// leader, may still create the VM of a machine; 0 or less if none can.
func (e *Engine) inFlight(ownerID string) time.Duration {
	unknown := e.memory(ownerID).unknown
	wait := e.formerLeader()
	if !unknown.IsZero() {
		wait = max(wait, fence.Reach-e.clock.Since(unknown))
	}
	return wait
}

// Deleting reports whether Remove has been accepted by the cloud before: then the
// VM is lost, and nothing on it is left to be drained.
func (e *Engine) Deleting(ownerID string) bool {
	return e.memory(ownerID).deletionAccepted
}

// absenceUncertain reports whether a VM of r may exist although the cloud shows
// none: its id was never recorded, or it was created less than the settle time
// before the cloud was asked. When it answered does not count: answers can be slow.
func (e *Engine) absenceUncertain(r cloud.Ref, settle time.Duration, asked time.Time) bool {
	if r.ProviderID == "" {
		return settle > 0
	}
	created := e.memory(r.OwnerID).created
	if created.IsZero() {
		created = e.memory(r.OwnerID).seen // another process created it, which may still run
	}
	return asked.Sub(created) < settle
}

// absenceGraceLeft returns how much longer the VM has to be absent before that is
// believed: from the first answer without it to the latest question.
func (e *Engine) absenceGraceLeft(key string, settle time.Duration, asked time.Time) time.Duration {
	now := e.clock.Now()
	var since time.Time
	e.update(key, func(n *memory) {
		if n.missing.IsZero() {
			n.missing = now
		}
		since = n.missing
	})
	return settle - asked.Sub(since)
}

// Forget drops what is remembered of a machine that is gone.
func (e *Engine) Forget(ownerID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.memories, ownerID)
}

// memory is what is remembered of a machine's VM.
func (e *Engine) memory(ownerID string) memory {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.memories[ownerID]
}

func (e *Engine) update(key string, change func(*memory)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.memories[key]
	change(&n)
	e.memories[key] = n
}
