package vm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// DeregistrationTimeout is how long the deletion of a VM waits for its load balancers: until
// their open connections are closed, or until they can be reached.
const DeregistrationTimeout = 10 * time.Minute

// EventStillRegistered is the reason of the Event that a VM is deleted and may still be registered with
// a load balancer, which could not be reached while the deletion waited for it.
const EventStillRegistered = "StillRegistered"

// Join registers the machine's VM with the load balancers that its class names, and takes it out
// of those that the class has lost, unless the record says that this has been done. It records
// first with which ones the VM may be registered, so that all of them are left before the VM
// goes. It does not wait for the VM or a load balancer. since is when it was first found that the
// VM is not registered; zero is now. Where the class cannot be read there is nothing to show.
func (e *Engine) Join(ctx context.Context, m *Machine, since time.Time) (Upkeep, error) {
	if m.ClassErr != nil || m.Class.Object == nil {
		return Upkeep{}, nil //nolint:nilerr // reported elsewhere; whatever else the machine needs goes on
	}
	r, err := e.register(ctx, m)
	switch {
	case err == nil && r.Done && m.State.LoadBalancers == "":
		return Upkeep{None: true}, nil
	case err == nil && r.Done:
		return Upkeep{
			Done: true, Reason: machinev1.ReasonRegistered,
			Message: "The VM is registered with the load balancers of its class",
		}, nil
	case err == nil:
		return Upkeep{
			RetryAfter: max(r.RetryAfter, outcome.Backoff(e.waited(since))), Reason: machinev1.ReasonRegistering,
			Message: "The VM is not registered with all of its load balancers yet: " + strings.Join(r.Waiting, ", "),
		}, nil
	}
	return e.failed(err, failureThreshold, since, func(err error) string {
		return fmt.Sprintf("The VM could not be registered with its load balancers: %s; correct the cause (retried "+
			"automatically)", err)
	})
}

// register is Join without its report.
func (e *Engine) register(ctx context.Context, m *Machine) (cloud.Registration, error) {
	done := cloud.Registration{Done: true}
	was, want := readMembers(m.State.LoadBalancers), placesOf(m.Class)
	if slices.Equal(was.Places, want) && (was.Registered || len(want) == 0) {
		return done, nil
	}
	if err := m.Class.Err(cloud.BlocksCreate); err != nil {
		return cloud.Registration{}, err // what is not understood of the class may be its load balancers
	}
	return e.follow(ctx, m, was.Places, want)
}

// follow takes the VM from the places where it was to those where it is wanted.
func (e *Engine) follow(ctx context.Context, m *Machine, was, want []string) (cloud.Registration, error) {
	account, err := m.Class.Account(ctx)
	if err != nil {
		return cloud.Registration{}, err
	}
	if err := recordMembers(ctx, m, memberRecord{Places: union(was, want)}); err != nil {
		return cloud.Registration{}, err
	}
	ref := m.Ref()
	r, err := changeMembers(ctx, account, ref, was, want)
	if cloud.CodeOf(err) == cloud.NotFound {
		if _, err := e.identify(ctx, m); err != nil {
			return cloud.Registration{}, err
		}
		return cloud.Registration{RetryAfter: time.Second, Waiting: []string{"the cloud does not show the VM"}}, nil
	}
	if err != nil || !r.Done {
		return r, err
	}
	loggerOf(ctx, ref).Info("Registered VM with load balancers", "providerID", ref.ProviderID, "places", want)
	return r, recordMembers(ctx, m, memberRecord{Places: want, Registered: true})
}

// recordMembers persists a record, unless it is the last one.
func recordMembers(ctx context.Context, m *Machine, r memberRecord) error {
	if r.String() == m.State.LoadBalancers {
		return nil
	}
	if err := m.save(ctx, func(s *State) { s.LoadBalancers = r.String() }); err != nil {
		return fmt.Errorf("record load balancers: %w", err)
	}
	return nil
}

// changeMembers makes a VM a member at the places that are wanted, and then no member at those
// that are obsolete.
func changeMembers(ctx context.Context, account cloud.Account, ref cloud.Ref, was, want []string) (cloud.Registration,
	error,
) {
	joined, left := cloud.Registration{Done: true}, cloud.Registration{Done: true}
	var err error
	if len(want) > 0 {
		if joined, err = cloud.Register(ctx, account, ref, want); err != nil {
			return cloud.Registration{}, err
		}
	}
	obsolete := slices.DeleteFunc(slices.Clone(was), func(place string) bool { return slices.Contains(want, place) })
	if len(obsolete) > 0 {
		if left, err = cloud.Deregister(ctx, account, ref, obsolete); err != nil {
			return cloud.Registration{}, err
		}
	}
	return cloud.Registration{
		Done: joined.Done && left.Done, RetryAfter: max(joined.RetryAfter, left.RetryAfter),
		Waiting: slices.Concat(joined.Waiting, left.Waiting),
	}, nil
}

// deregister takes the machine's VM out of the load balancers that it may be registered with,
// before it is deleted, and waits until they send it no requests any more, at most
// DeregistrationTimeout, or not at all if the machine skips that. Done means that the VM may be
// deleted; an Event tells where it may still be registered then. A class that cannot be used
// prevents the deletion of the VM, too, and that says so.
func (e *Engine) deregister(ctx context.Context, m *Machine) (Upkeep, error) {
	switch _, err := e.Account(ctx, m); {
	case m.ClassErr != nil:
		return Upkeep{}, err
	case cloud.CodeOf(err) == cloud.Invalid:
		return Upkeep{Done: true}, nil
	}
	return e.leaveBalancers(ctx, m)
}

// leaveBalancers is deregister with a class that can be used, which may be another than the machine's.
func (e *Engine) leaveBalancers(ctx context.Context, m *Machine) (Upkeep, error) {
	record, ref := readMembers(m.State.LoadBalancers), m.Ref()
	places := e.placesToLeave(record, ref, m.Class)
	if len(places) == 0 {
		return Upkeep{Done: true}, nil
	}
	account, err := m.Class.Account(ctx)
	if err != nil {
		return Upkeep{}, err
	}
	r, failure := e.leave(ctx, account, ref, places, record)
	if failure == nil && r.Done {
		e.update(ref.OwnerID, func(n *memory) { n.deregistered = true })
		return Upkeep{Done: true}, nil
	}
	since, err := e.leavingSince(ctx, m, record, places)
	if err != nil {
		return Upkeep{}, err
	}
	waited := e.clock.Since(since)
	if !m.Released && !m.Hurried && waited < DeregistrationTimeout {
		return deregistrationPending(r, failure, waited), nil
	}
	e.update(ref.OwnerID, func(n *memory) { n.deregistered = true })
	if failure != nil { // else they only keep connections that are open, and send no new requests
		m.Emit(corev1.EventTypeWarning, EventStillRegistered, fmt.Sprintf("VM %q is deleted and may still be registered "+
			"with %s: %s; remove the member there if it remains", ref.ProviderID, strings.Join(places, ", "), failure))
	}
	return Upkeep{Done: true}, nil
}

// placesToLeave are where the VM may be a member before it is deleted.
func (e *Engine) placesToLeave(record memberRecord, ref cloud.Ref, with class.Resolved) []string {
	switch {
	case e.memory(ref.OwnerID).deregistered, e.Deleting(ref.OwnerID):
		return nil
	case ref.ProviderID == "":
		return record.Places
	}
	return union(record.Places, placesOf(with)) // the record may be lost, as after a restore
}

// leave takes a VM out of load balancers. Where a registration is not known to be complete,
// it is done only once no request of a former leader can register the VM again.
func (e *Engine) leave(ctx context.Context, account cloud.Account, ref cloud.Ref, places []string,
	record memberRecord,
) (cloud.Registration, error) {
	r, err := cloud.Deregister(ctx, account, ref, places)
	if err != nil || !r.Done {
		return r, err
	}
	if wait := e.formerLeader(); wait > 0 && len(record.Places) > 0 && !record.Registered {
		return cloud.Registration{RetryAfter: wait, Waiting: []string{"a former leader may still register the VM"}}, nil
	}
	loggerOf(ctx, ref).Info("Deregistered VM from load balancers", "providerID", ref.ProviderID, "places", places)
	return r, nil
}

// leavingSince returns since when the deletion waits for load balancers, and records it.
func (e *Engine) leavingSince(ctx context.Context, m *Machine, record memberRecord, places []string) (time.Time,
	error,
) {
	if since, err := time.Parse(time.RFC3339, record.Leaving); err == nil {
		return since, nil
	}
	now := e.clock.Now()
	record.Places, record.Leaving = places, now.UTC().Format(time.RFC3339)
	return now, recordMembers(ctx, m, record)
}

// deregistrationPending reports what the deletion of a VM waits for, and since when.
func deregistrationPending(r cloud.Registration, failure error, waited time.Duration) Upkeep {
	left := DeregistrationTimeout - waited
	if failure == nil {
		return Upkeep{
			RetryAfter: min(max(r.RetryAfter, time.Second), left), Reason: machinev1.ReasonDeregistering,
			Message: fmt.Sprintf("Waiting for load balancers to drain: %s; the VM is deleted within %s in any case",
				strings.Join(r.Waiting, ", "), DeregistrationTimeout),
		}
	}
	return Upkeep{
		RetryAfter: min(cmp.Or(outcome.After(failure, 0), outcome.Backoff(waited)), left), Reason: outcome.Reason(failure),
		Message: fmt.Sprintf("VM not deregistered from its load balancers: %s; VM deletion waits up to %s", failure,
			DeregistrationTimeout),
	}
}

// Balances reports whether VMs of a class are, or have to be, registered with load balancers.
func Balances(r class.Resolved) bool { return len(placesOf(r)) > 0 }

// placesOf returns the places in load balancers that a class names.
func placesOf(r class.Resolved) []string {
	if b, ok := r.Driver.(cloud.Balancer); ok && r.Object != nil {
		return b.Memberships(r.Class)
	}
	return nil
}

// memberRecord is which load balancers a VM is registered with.
type memberRecord struct {
	Places     []string `json:"places"`               // where it is, or may be, a member, sorted
	Registered bool     `json:"registered,omitempty"` // it is a member at all of them
	Leaving    string   `json:"leaving,omitempty"`    // since when its deletion waits for them; RFC 3339
}

// readMembers reads a record. One that cannot be read knows nothing.
func readMembers(text string) memberRecord {
	var r memberRecord
	if json.Unmarshal([]byte(text), &r) != nil {
		return memberRecord{}
	}
	return r
}

// String is the record as it is persisted; empty without a place.
func (r memberRecord) String() string {
	if len(r.Places) == 0 {
		return ""
	}
	text, _ := json.Marshal(r) // strings only, so it never fails
	return string(text)
}

// union returns what is in either of them, sorted.
func union(a, b []string) []string {
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}
