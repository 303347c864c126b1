package cloud

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Middleware wraps an Account when it is opened.
type Middleware func(info AccountInfo, next Account) Account

// AccountInfo describes an Account to what wraps it.
type AccountInfo struct {
	Driver   Traits
	Endpoint string    // Class.Endpoint
	Redactor *Redactor // masks what may not appear in any text; nil masks nothing
}

// Registry is the set of clouds that this binary speaks to, and the accounts
// that are open there. It is built once in cmd, never from init, and is safe
// for concurrent use.
type Registry struct {
	drivers map[string]Driver
	wraps   []Middleware
	now     func() time.Time

	mu       sync.Mutex
	accounts map[accountKey]*openAccount
}

type accountKey struct{ driver, endpoint, credentials string }

// openAccount is one account; opening holds its own lock, so that a slow login
// delays only those who need it.
type openAccount struct {
	opening sync.Mutex
	account Account   // nil until opened; guarded by opening
	used    time.Time // guarded by Registry.mu

	failed atomic.Pointer[error] // of the last login; nil if none has failed
}

// openTimeout is how long a login may take.
const openTimeout = 30 * time.Second

// idle is how long an unused account stays open; longer than the period of any loop, so
// that only accounts of rotated credentials are closed.
const idle = 2 * time.Hour

// NewRegistry returns a Registry of drivers whose accounts are wrapped, the
// first of wraps innermost. It fails when two drivers share a name.
func NewRegistry(drivers []Driver, now func() time.Time, wraps ...Middleware) (*Registry, error) {
	r := &Registry{drivers: map[string]Driver{}, wraps: wraps, now: now, accounts: map[accountKey]*openAccount{}}
	for _, d := range drivers {
		t := d.Traits()
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			key := strings.ToLower(name)
			if r.drivers[key] != nil {
				return nil, fmt.Errorf("two drivers are named %q", name)
			}
			r.drivers[key] = d
		}
	}
	return r, nil
}

// Names returns the names of all drivers, sorted.
func (r *Registry) Names() []string {
	names := map[string]bool{}
	for _, d := range r.drivers {
		names[d.Traits().Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Driver returns the driver of that name, whatever its case. No name is the only driver that there is, as
// in a manager with one cloud of MCM's, which never asks for the name. Code Invalid when
// there is none; the error names those that there are.
func (r *Registry) Driver(name string) (Driver, error) {
	if names := r.Names(); name == "" && len(names) == 1 {
		name = names[0]
	}
	if d := r.drivers[strings.ToLower(name)]; d != nil {
		return d, nil
	}
	return nil, Worst("choose cloud", []Problem{{
		Severity: BlocksAll, Field: "provider",
		Message: fmt.Sprintf("no driver is named %q, use one of %s", name, strings.Join(r.Names(), ", ")),
	}}, BlocksAll)
}

// Account returns the account of these credentials at the class's endpoint,
// opened at the first request. Equal credentials share one account; others
// open a new one, and the old one is closed when it was not used for hours.
// Where a login has failed, only one caller at a time tries again and the others
// get that failure at once, also while the endpoint does not answer.
// Codes: as Driver.Open; no error shows the credentials.
func (r *Registry) Account(ctx context.Context, d Driver, c Class, creds Credentials) (Account, error) {
	a := r.entry(accountKey{d.Traits().Name, c.Endpoint, creds.Fingerprint()})
	if !a.opening.TryLock() {
		if failed := a.failed.Load(); failed != nil {
			return nil, *failed
		}
		a.opening.Lock()
	}
	defer a.opening.Unlock()
	if a.account != nil {
		return a.account, nil
	}
	account, err := open(ctx, d, c, creds)
	redactor := RedactorOf(d, creds)
	if err != nil {
		err = redactor.Error("log in", err)
		a.failed.Store(&err)
		return nil, err
	}
	a.failed.Store(nil)
	info := AccountInfo{Driver: d.Traits(), Endpoint: c.Endpoint, Redactor: redactor}
	for _, wrap := range r.wraps {
		account = wrap(info, account)
	}
	a.account = account
	return account, nil
}

// open logs in, for as long as a login may take.
func open(ctx context.Context, d Driver, c Class, creds Credentials) (Account, error) {
	inner, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	account, err := d.Open(inner, c, creds)
	if err != nil && inner.Err() != nil && ctx.Err() == nil && CodeOf(err) == Unknown {
		return nil, Errorf(Unavailable, "log in", "Timeout", "no answer within %v: %w", openTimeout, err)
	}
	return account, err
}

// entry returns the place of key, marks it as used and closes accounts
// that were not used for hours.
func (r *Registry) entry(key accountKey) *openAccount {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for k, a := range r.accounts {
		if k == key || now.Sub(a.used) < idle || !a.opening.TryLock() {
			continue
		}
		delete(r.accounts, k)
		if c, ok := a.account.(io.Closer); ok {
			_ = c.Close() // no caller is left who could act on the error
		}
		a.opening.Unlock()
	}
	if r.accounts[key] == nil {
		r.accounts[key] = &openAccount{}
	}
	r.accounts[key].used = now
	return r.accounts[key]
}
