package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// Abandoned is an Owner that is being deleted and whose class is gone or cannot be used.
type Abandoned interface {
	MemberOwner
	// Substitutes are the classes that may reach the VM instead, that of the recorded name first.
	Substitutes(ctx context.Context) ([]class.Resolved, error)
	// Substitute is what RecordSubstitute has recorded; empty if nothing.
	Substitute() (name, place string)
	// RecordSubstitute persists with which class the VM is deleted, and that one's Place. It
	// fails on a stale object.
	RecordSubstitute(ctx context.Context, name, place string) error
}

// eventClassSubstituted is the reason of the Event that a VM is deleted with another class than its own.
const eventClassSubstituted = "ClassSubstituted"

// RemoveAbandoned is Remove for an owner without a usable class, with another class that
// reaches the VM. Only one through which the cloud has shown the VM of the owner's
// providerID with the owner's id is used, and it is recorded first: one that looks in the
// same place is asked then whether the VM is gone. A class that looks elsewhere now has to
// prove the VM again. Where there is none nothing is deleted, and the error is cause, why the
// owner's class cannot be used, with what was tried.
func (e *Engine) RemoveAbandoned(ctx context.Context, o Abandoned, cause *cloud.Error) (cloud.Deletion, error) {
	if o.Ref().ProviderID == "" || o.Ref().OwnerID == "" {
		return cloud.Deletion{}, cause
	}
	candidates, err := o.Substitutes(ctx)
	if err != nil {
		return cloud.Deletion{}, err
	}
	_, place := o.Substitute()
	for _, candidate := range candidates {
		if candidate.Place() == place {
			return e.removeWith(ctx, o, candidate)
		}
	}
	candidate, err := e.findSubstitute(ctx, o, candidates, cause)
	if err != nil {
		return cloud.Deletion{}, err
	}
	if err := o.RecordSubstitute(ctx, candidate.Object.Name, candidate.Place()); err != nil {
		return cloud.Deletion{}, fmt.Errorf("record class %s: %w", candidate.Object.Name, err)
	}
	o.Emit(corev1.EventTypeNormal, eventClassSubstituted, fmt.Sprintf("VM %q has the owner id of this object and is "+
		"deleted with MachineClass %s, as its own cannot be used: %v", o.Ref().ProviderID, candidate.Name(), cause))
	return e.removeWith(ctx, o, candidate)
}

// findSubstitute returns the first candidate that proves whose the VM is. While a cloud does
// not answer, the error is that one's, which passes, and else withoutSubstitute.
func (e *Engine) findSubstitute(ctx context.Context, o Abandoned, candidates []class.Resolved, cause *cloud.Error) (
	class.Resolved, error,
) {
	var tried []string
	var silent error
	for _, candidate := range candidates {
		why := e.proves(ctx, o, candidate)
		if why == nil {
			return candidate, nil
		}
		if code := cloud.CodeOf(why); code == cloud.Throttled || code == cloud.Unavailable {
			silent = why
		}
		tried = append(tried, fmt.Sprintf("with %s: %v", candidate.Name(), why))
	}
	if silent != nil {
		return class.Resolved{}, silent
	}
	return class.Resolved{}, withoutSubstitute(cause, o.Ref().ProviderID, tried)
}

// removeWith is Remove with another class. What it does not find any more has to be gone
// for Get, too.
func (e *Engine) removeWith(ctx context.Context, o Abandoned, with class.Resolved) (cloud.Deletion, error) {
	substituted := substituted{o, with}
	switch left, err := e.deregisterFrom(ctx, o, with); {
	case err != nil:
		return cloud.Deletion{}, err
	case !left.Done:
		return cloud.Deletion{RetryAfter: left.RetryAfter, Remaining: []string{left.Message}}, nil
	}
	d, err := e.removeOne(ctx, substituted)
	if err != nil || !d.Done {
		return d, err
	}
	switch left, err := e.Get(ctx, substituted); {
	case cloud.CodeOf(err) == cloud.NotFound:
		return d, nil
	case err != nil:
		return cloud.Deletion{}, err
	default:
		return cloud.Deletion{RetryAfter: unprotectedRetry, Remaining: []string{string(cloud.KindVM) + " " + left.ID}}, nil
	}
}

// proves returns nil if the cloud shows, through that class, the VM of the owner's
// providerID with the owner's id, else why it does not.
func (e *Engine) proves(ctx context.Context, o Owner, with class.Resolved) error {
	found, err := e.Get(ctx, substituted{o, with})
	if err != nil {
		return err
	}
	if !sameVM(with, found.ProviderID, o.Ref().ProviderID) {
		return fmt.Errorf("the cloud shows another VM, %s", found.ProviderID)
	}
	switch found.OwnerID {
	case o.Ref().OwnerID:
		return nil
	case "":
		return errors.New("the VM has no owner id, so nothing proves that it is this machine's")
	}
	return fmt.Errorf("the VM belongs to another machine, with owner id %s", found.OwnerID)
}

// triedListed is how many of the classes that were tried a message names.
const triedListed = 3

// withoutSubstitute returns cause with what was tried instead.
func withoutSubstitute(cause *cloud.Error, providerID string, tried []string) *cloud.Error {
	told := *cause
	switch more := len(tried) - triedListed; {
	case len(tried) == 0:
		tried = []string{"there is none of this cloud with credentials"}
	case more > 0:
		tried = append(tried[:triedListed:triedListed], fmt.Sprintf("and %d others", more))
	}
	told.Err = fmt.Errorf("%w; to delete its VM %s, a class with that name and the VM's provider, region and credentials "+
		"suffices. No other class of the namespace proves that the VM is this machine's (%s)", cause.Err, providerID,
		strings.Join(tried, "; "))
	return &told
}

// substituted is an owner with another class.
type substituted struct {
	Owner
	with class.Resolved
}

// Class is the other class.
func (s substituted) Class() (class.Resolved, error) { return s.with, nil }

// Ref is the owner's. Where no record names its VM, that may be in another account than the one which
// was asked for it with the owner's own class.
func (s substituted) Ref() cloud.Ref {
	ref := s.Owner.Ref()
	if own, err := s.Owner.Class(); ref.ProviderID == "" && err == nil && own.Place() != s.with.Place() {
		ref.Scope = ""
	}
	return ref
}
