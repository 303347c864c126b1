package sim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Login is who calls.
type Login struct{ Account, Secret string }

// Count is how often an account called an operation.
type Count struct {
	Op      string `json:"op"`
	Account string `json:"account"`
	Total   int    `json:"total"`
	Refused int    `json:"refused"` // answered with an error, or not at all
}

// Call is one call.
type Call struct {
	Time    time.Time `json:"time"`
	Op      string    `json:"op"`
	Account string    `json:"account"`
	Subject string    `json:"subject,omitempty"` // the name tag or id that it was about
	Code    string    `json:"code,omitempty"`    // of the error; empty if there was none
}

type callKey struct{ op, account string }

// callLog is how many calls are remembered one by one.
const callLog = 10000

// call runs one operation of an account: it counts it, checks who calls and how
// often, and lets faults strike.
func call[T any](c *Cloud, who Login, op string, about subject, effect func(a Tenant, now time.Time) (T, *APIError)) (T,
	error,
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.sweep(now)
	out, err := attempt(c, who, op, about, now, effect)
	c.count(op, who.Account, about, now, err)
	if err != nil {
		return out, err
	}
	return out, nil // not err: a nil *APIError is no nil error
}

func attempt[T any](c *Cloud, who Login, op string, about subject, now time.Time,
	effect func(Tenant, time.Time) (T, *APIError),
) (T, *APIError) {
	var none T
	tenant, err := c.admit(op, who, now)
	if err != nil {
		return none, err
	}
	fault := c.takeFault(op, who.Account, about)
	if fault == nil {
		return effect(tenant, now)
	}
	if !fault.afterEffect() {
		return none, fault.err()
	}
	out, err := effect(tenant, now)
	if err != nil {
		return none, err
	}
	if fault.Mode == FaultBoot {
		return c.failBoot(out, fault, now).(T), nil
	}
	return none, fault.err()
}

// failBoot makes the VM fail that a call has just made.
func (c *Cloud) failBoot(out any, f *Fault, now time.Time) any {
	made, ok := out.(Resource)
	if !ok || made.VM == nil {
		return out
	}
	r := c.all[made.ID]
	r.VM.Failed, r.VM.Reason, r.VM.Message = true, cmp.Or(f.Code, "BootFailed"), cmp.Or(f.Message, "the VM did not boot")
	c.changed(r, now)
	return c.view(r, now)
}

// admit checks the credentials and takes a call from the rates of the account and of
// the operation there.
func (c *Cloud) admit(op string, who Login, now time.Time) (Tenant, *APIError) {
	tenant, ok := c.settings.tenant(who.Account)
	if !ok || who.Secret == "" || !slices.Contains(tenant.SecretKeys, who.Secret) {
		return Tenant{}, refuse(CodeInvalidCredentials, "the account does not exist, or the secret key is not one of its")
	}
	all := Rate{PerSecond: tenant.RatePerSecond, Burst: tenant.Burst}
	if err := c.takeCall(rateKey{account: tenant.ID}, all, now); err != nil {
		return Tenant{}, err
	}
	return tenant, c.takeCall(rateKey{account: tenant.ID, operation: op}, tenant.Rates[op], now)
}

// rateKey names a bucket; that without operation is the whole account's.
type rateKey struct{ account, operation string }

// takeCall takes a call from a bucket, or refuses it.
func (c *Cloud) takeCall(key rateKey, limit Rate, now time.Time) *APIError {
	if limit.PerSecond <= 0 {
		return nil
	}
	burst := float64(max(limit.Burst, 1))
	b := c.rates[key]
	if b == nil {
		b = &bucket{tokens: burst, at: now}
		c.rates[key] = b
	}
	if wait := b.take(now, limit.PerSecond, burst); wait > 0 {
		return throttled(wait)
	}
	return nil
}

// bucket is a token bucket without a clock of its own.
type bucket struct {
	tokens float64
	at     time.Time
}

// take takes a token and returns 0, or returns how long there will be none.
func (b *bucket) take(now time.Time, perSecond, burst float64) time.Duration {
	if elapsed := now.Sub(b.at).Seconds(); elapsed > 0 {
		b.tokens = min(b.tokens+elapsed*perSecond, burst)
	}
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		return 0
	}
	return time.Duration((1-b.tokens)/perSecond*float64(time.Second)).Round(time.Millisecond) + time.Millisecond
}

func (c *Cloud) count(op, account string, about subject, now time.Time, err *APIError) {
	key := callKey{op, account}
	if c.calls[key] == nil {
		c.calls[key] = &Count{Op: op, Account: account}
	}
	c.calls[key].Total++
	made := Call{Time: now, Op: op, Account: account, Subject: cmp.Or(about.name, strings.Join(about.names, ","))}
	if err != nil {
		c.calls[key].Refused++
		made.Code = err.Code
	}
	if len(c.log) >= 2*callLog {
		c.log = slices.Clone(c.log[callLog:])
	}
	c.log = append(c.log, made)
}

// Counts returns how often each operation was called by each account, sorted.
func (c *Cloud) Counts() []Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []Count{}
	for _, n := range c.calls {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Account, b.Account))
	})
	return out
}

// Calls returns how often an operation was called; "*" counts all.
func (c *Cloud) Calls(op string) int {
	total := 0
	for _, n := range c.Counts() {
		if op == "*" || n.Op == op {
			total += n.Total
		}
	}
	return total
}

// Log returns the latest calls, at least the last 10 000, oldest first.
func (c *Cloud) Log() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// The codes of the API's errors.
const (
	CodeInvalidParameter     = "InvalidParameter"
	CodeInvalidRegion        = "InvalidRegion"
	CodeInvalidZone          = "InvalidZone"
	CodeInvalidInstanceType  = "InvalidInstanceType"
	CodeInvalidImage         = "InvalidImage"
	CodeInvalidNetwork       = "InvalidNetwork"
	CodeInvalidLoadBalancer  = "InvalidLoadBalancer"
	CodeUserDataTooLarge     = "UserDataTooLarge"
	CodeInvalidCredentials   = "InvalidCredentials"
	CodeAccessDenied         = "AccessDenied"
	CodeNotFound             = "NotFound"
	CodeTokenMismatch        = "TokenMismatch"
	CodeTokenExpired         = "TokenExpired"
	CodeIncorrectState       = "IncorrectState"
	CodeInsufficientCapacity = "InsufficientCapacity"
	CodeQuotaExceeded        = "QuotaExceeded"
	CodeAddressesExhausted   = "AddressesExhausted"
	CodeRequestLimitExceeded = "RequestLimitExceeded"
	CodeInternalError        = "InternalError"
	CodeServiceUnavailable   = "ServiceUnavailable"
)

// APIError is how the API says no.
type APIError struct {
	Status     int      `json:"-"` // of HTTP; 0 means that no answer arrives
	Code       string   `json:"code"`
	Message    string   `json:"message"`
	RetryAfter Duration `json:"retryAfter,omitempty"`

	// What is exhausted.
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`

	hang bool // no answer ever arrives
}

// Error is "<code>: <message>".
func (e *APIError) Error() string { return e.Code + ": " + e.Message }

// refuse returns an APIError with the usual status of its code.
func refuse(code, format string, args ...any) *APIError {
	return &APIError{Status: statusOf(code), Code: code, Message: fmt.Sprintf(format, args...)}
}

// statusOf is the HTTP status that goes with a code.
func statusOf(code string) int {
	switch code {
	case CodeInvalidCredentials:
		return http.StatusUnauthorized
	case CodeAccessDenied:
		return http.StatusForbidden
	case CodeNotFound:
		return http.StatusNotFound
	case CodeTokenMismatch, CodeTokenExpired, CodeIncorrectState, CodeInsufficientCapacity, CodeQuotaExceeded,
		CodeAddressesExhausted:
		return http.StatusConflict
	case CodeRequestLimitExceeded:
		return http.StatusTooManyRequests
	case CodeInternalError:
		return http.StatusInternalServerError
	case CodeServiceUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// throttled is the answer to one call too many.
func throttled(after time.Duration) *APIError {
	e := refuse(CodeRequestLimitExceeded, "too many calls")
	e.RetryAfter = Duration(after)
	return e
}
