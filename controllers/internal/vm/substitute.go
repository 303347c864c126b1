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

// eventClassSubstituted is the reason of the Event that a VM is deleted with another class than its own.
const eventClassSubstituted = "ClassSubstituted"

// removeAbandoned is Remove for a machine without a usable class, with another class that
// reaches the VM. Only one through which the cloud has shown the VM of the machine's
// providerID with the machine's id is used, and it is recorded first: one that looks in the
// same place is asked then whether the VM is gone. A class that looks elsewhere now has to
// prove the VM again. Where there is none nothing is deleted, and the error is cause, why the
// owner's class cannot be used, with what was tried.
func (e *Engine) removeAbandoned(ctx context.Context, m *Machine, cause *cloud.Error) (cloud.Deletion, error) {
	if m.Ref().ProviderID == "" || m.Ref().OwnerID == "" {
		return cloud.Deletion{}, cause
	}
	candidates, err := m.Substitutes(ctx)
	if err != nil {
		return cloud.Deletion{}, err
	}
	_, place, _ := strings.Cut(m.State.Substitute, "/")
	for _, candidate := range candidates {
		if candidate.Place() == place {
			return e.removeWith(ctx, m, candidate)
		}
	}
	candidate, err := e.findSubstitute(ctx, m, candidates, cause)
	if err != nil {
		return cloud.Deletion{}, err
	}
	err = m.save(ctx, func(s *State) { s.Substitute = candidate.Object.Name + "/" + candidate.Place() })
	if err != nil {
		return cloud.Deletion{}, fmt.Errorf("record class %s: %w", candidate.Object.Name, err)
	}
	m.Emit(corev1.EventTypeNormal, eventClassSubstituted, fmt.Sprintf("VM %q has the owner id of this object and is "+
		"deleted with MachineClass %s, as its own cannot be used: %v", m.Ref().ProviderID, candidate.Name(), cause))
	return e.removeWith(ctx, m, candidate)
}

// findSubstitute returns the first candidate that proves whose the VM is. While a cloud does
// not answer, the error is that one's, which passes, and else withoutSubstitute.
func (e *Engine) findSubstitute(ctx context.Context, m *Machine, candidates []class.Resolved, cause *cloud.Error) (
	class.Resolved, error,
) {
	var tried []string
	var silent error
	for _, candidate := range candidates {
		why := e.proves(ctx, m, candidate)
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
	return class.Resolved{}, withoutSubstitute(cause, m.Ref().ProviderID, tried)
}

// removeWith is Remove with another class. What it does not find any more has to be gone
// for Get, too.
func (e *Engine) removeWith(ctx context.Context, m *Machine, with class.Resolved) (cloud.Deletion, error) {
	substituted := m.with(with)
	switch left, err := e.leaveBalancers(ctx, substituted); {
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

// proves returns nil if the cloud shows, through that class, the VM of the machine's
// providerID with the machine's id, else why it does not.
func (e *Engine) proves(ctx context.Context, m *Machine, with class.Resolved) error {
	found, err := e.Get(ctx, m.with(with))
	if err != nil {
		return err
	}
	if !sameVM(with, found.ProviderID, m.Ref().ProviderID) {
		return fmt.Errorf("the cloud shows another VM, %s", found.ProviderID)
	}
	switch found.OwnerID {
	case m.Ref().OwnerID:
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
