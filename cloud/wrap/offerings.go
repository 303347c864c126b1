package wrap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// SoldOut is how long it is remembered that a cloud has no capacity; up to as
// much again is added at random. 0 is a minute, less than 0 is not at all.
type SoldOut time.Duration

// Offerings remembers for a short while what the cloud is out of: Create fails
// at once with cloud.Exhausted for the same region, zone and instance type, and
// for the same class only where the class names no instance type, or the cloud
// named a capacity type. The error has the cloud's text. A success forgets it. A VM
// that may have been made already is always asked for.
func Offerings(d SoldOut, clock Clock) cloud.Middleware {
	const usual = SoldOut(time.Minute)
	if d == 0 {
		d = usual
	}
	clock = clock.withDefaults()
	return func(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
		return &remembering{
			layer: layer{next}, d: time.Duration(d), clock: clock,
			soldOut: map[offering]shortage{}, begun: map[string]time.Time{},
		}
	}
}

// offering is what a request asks for. class is empty for a shortage that hits
// every class.
type offering struct{ region, zone, instanceType, class string }

// shortage is what the cloud said, and until when it is believed.
type shortage struct {
	said  *cloud.Error
	until time.Time
}

type remembering struct {
	layer
	d     time.Duration
	clock Clock

	mu      sync.Mutex
	soldOut map[offering]shortage
	begun   map[string]time.Time // tokens whose VM may be there, and since when
	sweep   int                  // size of begun at which old ones are dropped
}

// Create makes the VM of r unless what it needs is known to be sold out.
func (a *remembering) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	if a.d < 0 {
		return a.Account.Create(ctx, r)
	}
	if err := a.known(r); err != nil {
		return cloud.VM{}, err
	}
	vm, err := a.Account.Create(ctx, r)
	a.learn(r, vm, err)
	return vm, err
}

// Admit refuses what is known to be sold out.
func (a *remembering) Admit(ctx context.Context, r cloud.CreateRequest) error {
	if a.d >= 0 {
		if err := a.known(r); err != nil {
			return err
		}
	}
	return a.layer.Admit(ctx, r)
}

// wants returns what r asks for: as any class does, and as its own class does.
func wants(r cloud.CreateRequest) (anyClass, ownClass offering) {
	zone := r.Zone
	if zone == "" {
		zone = r.Class.Zone
	}
	anyClass = offering{region: r.Class.Region, zone: zone, instanceType: r.Class.InstanceType}
	if s, ok := r.Class.Spec.(cloud.Stocker); ok {
		anyClass.region, anyClass.zone = "", s.Stock(zone)
	}
	ownClass = anyClass
	ownClass.class = r.Class.Namespace + "/" + r.Class.Name
	return anyClass, ownClass
}

// known returns the error that the cloud would give again.
func (a *remembering) known(r cloud.CreateRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	maps.DeleteFunc(a.soldOut, func(_ offering, s shortage) bool { return !now.Before(s.until) })
	if _, ok := a.begun[r.Token]; ok || r.State != "" || r.ProviderID != "" {
		return nil
	}
	anyClass, ownClass := wants(r)
	for _, o := range []offering{anyClass, ownClass} {
		s, ok := a.soldOut[o]
		if !ok {
			continue
		}
		e := *s.said
		e.Remembered = true
		left := s.until.Sub(now)
		e.Op, e.RetryAfter = opCreate, left+a.clock.upTo(left)
		e.Err = fmt.Errorf("%w (remembered from a request for %v, at most %s ago)", s.said.Err, *e.Offering, 2*a.d)
		copied := *e.Offering
		e.Offering = &copied
		return &e
	}
	return nil
}

// learn takes note of how a Create ended.
func (a *remembering) learn(r cloud.CreateRequest, vm cloud.VM, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	anyClass, ownClass := wants(r)
	if err == nil {
		delete(a.soldOut, anyClass)
		delete(a.soldOut, ownClass)
		delete(a.begun, r.Token)
		if vm.RetryAfter > 0 {
			a.begin(r.Token, now)
		}
		return
	}
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code == cloud.Unavailable || e.Code == cloud.Unknown || e.Code == cloud.TokenUsed {
		a.begin(r.Token, now) // the answer says nothing about the VM
		return
	}
	if e.Code != cloud.Exhausted || e.Offering == nil {
		return
	}
	kept := *e
	place := *e.Offering
	kept.Offering = &place
	a.soldOut[shortOf(place, anyClass, ownClass)] = shortage{&kept, now.Add(a.d + a.clock.upTo(a.d))}
}

// shortOf returns which requests a shortage hits: those of the class alone where it is
// not known what another class asks for.
func shortOf(place cloud.Offering, anyClass, ownClass offering) offering {
	if place.CapacityType != "" || anyClass.instanceType == "" {
		return ownClass
	}
	return anyClass
}

// begin remembers that the VM of token may be there. What is an hour old is
// forgotten: then the controller has looked it up.
func (a *remembering) begin(token string, now time.Time) {
	if len(a.begun) >= a.sweep {
		maps.DeleteFunc(a.begun, func(_ string, t time.Time) bool { return now.Sub(t) > time.Hour })
		a.sweep = 2*len(a.begun) + 64 // so that sweeping costs a constant a token
	}
	a.begun[token] = now
}
