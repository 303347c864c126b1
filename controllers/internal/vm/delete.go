package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// Delete takes the machine's VM out of its load balancers, and then removes it and all that was created with it: with
// the machine's class, or, where that is gone or cannot be used, with another one that provably reaches the VM, unless
// the machine is released. It does not wait: until it is Done it wants to be called again after RetryAfter; Reason and
// Message say what it waits for.
func (e *Engine) Delete(ctx context.Context, m *Machine) (Upkeep, error) {
	if left, err := e.deregister(ctx, m); err != nil || !left.Done {
		return left, err
	}
	var d cloud.Deletion
	_, err := e.Account(ctx, m)
	if unusable, ok := errors.AsType[*cloud.Error](err); ok && unusable.Code == cloud.Invalid && !m.Released {
		d, err = e.removeAbandoned(ctx, m, unusable)
	} else {
		d, err = e.Remove(ctx, m)
	}
	if err != nil {
		return Upkeep{}, err
	}
	return Upkeep{
		Done: d.Done, RetryAfter: d.RetryAfter, Reason: machinev1.ReasonDeletingVM, Message: deletionMessage(d),
	}, nil
}

// Remove asks for the machine's VM, and all that was created with it, to go, and for a second VM
// with the machine's id that a restore of the API server may have led to. Done is only true when
// it can be believed: where the cloud may not show a VM yet, or a former leader may still
// create it, it waits. An owner id that was lost is read back first; then the deletion begins again, so
// that the VM leaves its load balancers, too. A VM of the machine's providerID that another owner has is
// left, and an error says so.
func (e *Engine) Remove(ctx context.Context, m *Machine) (cloud.Deletion, error) {
	if m.Ref().ProviderID == "" {
		if err := e.Recall(ctx, m); err != nil {
			return cloud.Deletion{}, err
		}
	}
	ref := m.Ref()
	// A VM of which nothing was found from the start is not asked for again while a second one is looked for: where many
	// machines wait for the cloud's rate limit, these calls would use it up.
	known := e.memory(ref.OwnerID)
	neverFound := ref.ProviderID != "" && ref.OwnerID != "" && known.neverFound == ref.ProviderID
	if !neverFound {
		d, err := e.removeOne(ctx, m)
		if err != nil || !d.Done || d.Found || ref.ProviderID == "" || e.Deleting(ref.OwnerID) {
			return d, err
		}
		e.update(ref.OwnerID, func(n *memory) { n.neverFound, n.notAnothers = ref.ProviderID, false })
	}
	if !neverFound || !known.notAnothers {
		switch known, err := e.identify(ctx, m); {
		case err != nil:
			return cloud.Deletion{}, err
		case known:
			e.update(ref.OwnerID, func(n *memory) { n.neverFound = "" })
			return cloud.Deletion{RetryAfter: minRetry, Remaining: []string{"VM " + ref.ProviderID}}, nil
		}
		e.update(ref.OwnerID, func(n *memory) { n.notAnothers = true })
	}
	return e.removeSecond(ctx, m)
}

// removeOne is Remove without the look for a second VM.
func (e *Engine) removeOne(ctx context.Context, m *Machine) (cloud.Deletion, error) {
	account, err := e.Account(ctx, m)
	if err != nil {
		return cloud.Deletion{}, err
	}
	ref, err := e.ref(ctx, account, m)
	if err != nil {
		return cloud.Deletion{}, err
	}
	return e.remove(ctx, account, m.Class.Driver.Traits(), ref)
}

// Discard removes a VM that Ensure returned and that was not recorded.
func (e *Engine) Discard(ctx context.Context, m *Machine, made cloud.VM) (cloud.Deletion, error) {
	account, err := e.Account(ctx, m)
	if err != nil {
		return cloud.Deletion{}, err
	}
	ref := m.Ref()
	ref.ProviderID = made.ProviderID
	return e.remove(ctx, account, m.Class.Driver.Traits(), ref)
}

// deletionMessage says how far a deletion is.
func deletionMessage(d cloud.Deletion) string {
	if len(d.Remaining) == 0 {
		return "VM is being deleted"
	}
	return "VM is being deleted; still there: " + strings.Join(d.Remaining, ", ")
}

// removeSecond removes the VM that a machine has beside the one of its providerID. Two restores
// of the API server can lead there: the first one loses a Machine, whose name and owner ID are
// used again, and the second one brings it back with the providerID of its own VM, which is gone
// by then. So it looks where a deletion has found nothing of that VM from the start. Only a
// VM with the machine's ID is removed, in the place of whichever of the machine's classes shows it.
func (e *Engine) removeSecond(ctx context.Context, m *Machine) (cloud.Deletion, error) {
	if m.ClassErr != nil {
		return cloud.Deletion{}, m.ClassErr
	}
	others, err := m.otherClasses(ctx)
	if err != nil {
		return cloud.Deletion{}, err
	}
	for _, one := range places(append([]class.Resolved{m.Class}, others...)) {
		if d, err := e.removeSecondOf(ctx, m.with(one)); err != nil || !d.Done {
			return d, err
		}
	}
	return cloud.Deletion{Done: true}, nil
}

// removeSecondOf is removeSecond with one class. The VM is looked for until the cloud does not
// show it. An answer that does not pass, as where the machine has several more, ends the search:
// what it has left is an orphan.
func (e *Engine) removeSecondOf(ctx context.Context, m *Machine) (cloud.Deletion, error) {
	account, err := m.Class.Account(ctx)
	if err != nil {
		return cloud.Deletion{}, fmt.Errorf("look for a second VM: %w", err)
	}
	second := *m
	second.State.ProviderID, second.State.Checkpoint = "", "" // the checkpoint is of the VM that is gone
	ref := second.Ref()
	found, err := account.Get(ctx, ref)
	if code := cloud.CodeOf(err); code == cloud.Throttled || code == cloud.Unavailable {
		return cloud.Deletion{}, fmt.Errorf("look for a second VM: %w", err)
	}
	if !isSecond(m, found) {
		return cloud.Deletion{Done: true}, nil
	}
	ref.ProviderID = found.ProviderID
	loggerOf(ctx, ref).Info("Deleting a second VM of the machine", "providerID", ref.ProviderID)
	d, err := account.Delete(ctx, ref)
	if err != nil {
		return cloud.Deletion{}, fmt.Errorf("delete second VM %s: %w", ref.ProviderID, err)
	}
	if !d.Done {
		d.RetryAfter = max(d.RetryAfter, minRetry)
	}
	return d, nil
}

// isSecond reports whether a VM that was found has the machine's ID and is not that of its providerID;
// false for the zero VM.
func isSecond(m *Machine, found cloud.VM) bool {
	return found.OwnerID != "" && found.OwnerID == m.Ref().OwnerID &&
		!sameVM(m.Class, found.ProviderID, m.Ref().ProviderID)
}

// sameVM reports whether two providerIDs, in any known form, name the same VM.
func sameVM(with class.Resolved, one, other string) bool {
	a, known := with.Driver.DecodeProviderID(one)
	b, ok := with.Driver.DecodeProviderID(other)
	return known && ok && a == b
}

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
