package wrap

import (
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Options configure Standard. The zero value of each field has a default.
type Options struct {
	Now  func() time.Time // nil is time.Now
	Rand func() float64   // in [0,1), safe for concurrent use; nil is math/rand/v2

	Recorder *Recorder // nil measures nothing
	Spans    StartSpan // nil traces nothing
	Rate     Rate      // of the budget that the operations of an account share
	// Rates are those of operations, by driver name; what they say wins over Traits.Rates.
	Rates    map[string]cloud.Rates
	Timeouts Timeouts    // of each call
	Listing  ListingAge  // how old a shared listing may be
	SoldOut  SoldOut     // how long an exhausted offering is remembered
	OnPanic  PanicReport // called for a panic of a driver; may be nil
}

// Standard returns all decorators in their order, the first innermost, as
// cloud.NewRegistry takes them.
func Standard(o Options) []cloud.Middleware {
	clock := Clock{Now: o.Now, Rand: o.Rand}.withDefaults()
	all := []cloud.Middleware{Redact(o.OnPanic), Timeout(o.Timeouts)}
	if o.Recorder != nil {
		all = append(all, o.Recorder.Middleware(clock))
	}
	if o.Spans != nil {
		all = append(all, Trace(o.Spans))
	}
	return append(all, Budget(o.Rate, o.Rates, clock), Offerings(o.SoldOut, clock), PacedDeletions(clock),
		SharedListing(o.Listing, clock), Scopes())
}

// StandardWith is Standard with the metrics registered on r. It panics when
// they are there already, as prometheus does.
func StandardWith(r prometheus.Registerer, o Options) []cloud.Middleware {
	o.Recorder = NewRecorder(r)
	return Standard(o)
}

// Clock is time and chance. The zero value is the real ones.
type Clock struct {
	Now  func() time.Time
	Rand func() float64 // in [0,1)
}

func (c Clock) withDefaults() Clock {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64 // spreads load, keeps no secret
	}
	return c
}

// upTo returns a random part of d.
func (c Clock) upTo(d time.Duration) time.Duration { return time.Duration(c.Rand() * float64(d)) }

// layer is an account around another one: what a decorator does not change.
type layer struct{ cloud.Account }

// Close closes the account below if it can be closed.
func (l layer) Close() error {
	if c, ok := l.Account.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Admit asks the account below.
func (l layer) Admit(ctx context.Context, r cloud.CreateRequest) error {
	return cloud.Admit(ctx, l.Account, r)
}

// Scope asks the account below.
func (l layer) Scope(ctx context.Context, c cloud.Class) (string, error) {
	return cloud.Scope(ctx, l.Account, c)
}

// SetTags asks the account below.
func (l layer) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	return cloud.SetTags(ctx, l.Account, r, obsolete)
}

// RecordRetention asks the account below.
func (l layer) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	return cloud.RecordRetention(ctx, l.Account, c, parts)
}

// Reboot asks the account below.
func (l layer) Reboot(ctx context.Context, r cloud.Ref) error { return cloud.Reboot(ctx, l.Account, r) }

// Console asks the account below.
func (l layer) Console(ctx context.Context, r cloud.Ref) (string, error) {
	return cloud.Console(ctx, l.Account, r)
}

// RemoveBootData asks the account below.
func (l layer) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	return cloud.RemoveBootData(ctx, l.Account, r)
}

// Register asks the account below.
func (l layer) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return cloud.Register(ctx, l.Account, r, places)
}

// Deregister asks the account below.
func (l layer) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return cloud.Deregister(ctx, l.Account, r, places)
}

// The operations, as errors and metrics name them.
const (
	opCreate     = "create VM"
	OpGet        = "get VM"
	opDelete     = "delete VM"
	opList       = "list resources"
	opCapacity   = "look up capacity"
	opTags       = "set tags"
	opRetention  = "record retention"
	opReboot     = "reboot VM"
	opConsole    = "read console"
	opBootData   = "remove boot data"
	opRegister   = "register VM"
	opDeregister = "deregister VM"
	opScope      = "name the account"
)
