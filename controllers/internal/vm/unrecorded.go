package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

const (
	// An adopted VM is completed by the next call: whoever asked for it may not have got that far.
	adoptedRetry = time.Second

	adoptedAge = 5 * time.Minute
)

// findUnrecordedVM returns the VM of a machine that may have one although nothing records that: a
// restore of the API server, or a new object of the same name, has lost the record, and perhaps the
// number of the attempt. The token of an attempt proves only that the class of that attempt made
// nothing in it, so a machine with several classes is looked up in the place of each of them, once
// before this process asks for its VM, and again where the number of its attempt goes back; one with a
// single class where that class showed a VM of its id when this process first asked. A class whose
// credentials the cloud refuses does not keep machines from the others, but as long as it shows
// nothing it is looked at again.
func (e *Engine) findUnrecordedVM(ctx context.Context, m *Machine) (cloud.VM, bool, error) {
	attempt, asked := m.State.Attempt, e.memory(m.Ref().OwnerID)
	// This process has asked for the VM, or looked for it, in that attempt or an earlier one, and no class has refused
	// the look.
	wasAsked := asked.attempt > 0 && asked.attempt <= attempt && !asked.lookRefused
	if m.State.ProviderID != "" || wasAsked {
		return cloud.VM{}, false, nil
	}
	others, err := m.otherClasses(ctx)
	if err != nil {
		return cloud.VM{}, false, err
	}
	if len(others) == 0 {
		before, err := e.madeBefore(ctx, m.Class, m.Ref().OwnerID)
		if err != nil || !before {
			return cloud.VM{}, false, err
		}
	}
	lookRefused := false
	for _, one := range places(append([]class.Resolved{m.Class}, others...)) {
		found, ok, err := e.findWith(ctx, m, one)
		if refusesLookUp(err) && one.Place() != m.Class.Place() {
			lookRefused = true
			continue
		}
		if ok || err != nil {
			return found, ok, err
		}
	}
	e.update(m.Ref().OwnerID, func(n *memory) {
		n.attempt, n.lookRefused = max(n.attempt, attempt), lookRefused
	})
	return cloud.VM{}, false, nil
}

// madeBefore reports whether a class showed a VM of that owner id when this process first asked for one of the class.
// Later ones the engine remembers. Where names are unique, Create finds such a VM by itself.
func (e *Engine) madeBefore(ctx context.Context, with class.Resolved, ownerID string) (bool, error) {
	if !with.Driver.Traits().SharedNames {
		return false, nil
	}
	key := classKey(with.Class) + " " + with.Place()
	e.mu.Lock()
	owners, listed := e.owners[key]
	e.mu.Unlock()
	if listed {
		return owners[ownerID], nil
	}
	account, err := with.Account(ctx)
	if err != nil {
		return false, err
	}
	owners = map[string]bool{}
	for r, err := range account.List(ctx, with.Class, cloud.KindVM) {
		if err != nil {
			return false, fmt.Errorf("look for VMs from MachineClass %s: %w", with.Object.Name, err)
		}
		owners[r.OwnerID] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owners[key] = owners
	return owners[ownerID], nil
}

// findWith is findUnrecordedVM with one class.
func (e *Engine) findWith(ctx context.Context, m *Machine, one class.Resolved) (cloud.VM, bool, error) {
	found, with, err := e.lookUpOwnToo(ctx, m, one)
	if err != nil {
		return cloud.VM{}, false, err
	}
	if found.State == cloud.StateDeleting {
		return cloud.VM{}, false, stillGoing(found)
	}
	if !e.adoptable(m, found) {
		return cloud.VM{}, false, nil
	}
	found.RetryAfter = max(found.RetryAfter, adoptedRetry)
	return found, true, e.adoptForgotten(ctx, m, with)
}

// lookUpOwnToo is lookUp, and returns the class that shows the VM. Two places may be one account of
// the cloud, and a former leader's request may have made the VM since the machine's own class was
// asked. So what another class shows is asked of the own one again, which takes precedence.
func (e *Engine) lookUpOwnToo(ctx context.Context, m *Machine, with class.Resolved) (
	cloud.VM, class.Resolved, error,
) {
	found, err := e.lookUp(ctx, m, with)
	if err != nil || !e.adoptable(m, found) || with.Place() == m.Class.Place() ||
		m.Class.Object == nil || m.Class.Err(cloud.BlocksAll) != nil {
		return found, with, err
	}
	mine, err := e.lookUp(ctx, m, m.Class)
	if err != nil || e.adoptable(m, mine) {
		return mine, m.Class, err
	}
	return found, with, nil
}

// places returns the classes that can be used for a look-up, one for each place.
func places(classes []class.Resolved) []class.Resolved {
	seen := map[string]bool{}
	return slices.DeleteFunc(classes, func(one class.Resolved) bool {
		if seen[one.Place()] || one.Object == nil || one.Err(cloud.BlocksAll) != nil {
			return true
		}
		seen[one.Place()] = true
		return false
	})
}

// lookUp returns the machine's VM as one class shows it, or the zero VM. A cloud that does not answer, or
// refuses, is an error.
func (e *Engine) lookUp(ctx context.Context, m *Machine, with class.Resolved) (cloud.VM, error) {
	found, err := e.Get(ctx, m.with(with))
	switch {
	case err == nil:
		return found, nil
	case cloud.CodeOf(err) == cloud.NotFound:
		return cloud.VM{}, nil
	}
	return cloud.VM{}, fmt.Errorf("look for a VM from MachineClass %s: %w", with.Object.Name, err)
}

// refusesLookUp reports whether a look-up has failed until a user corrects class or credentials.
func refusesLookUp(err error) bool {
	code := cloud.CodeOf(err)
	return code == cloud.Denied || code == cloud.Invalid
}

// stillGoing is why a VM is not asked for: one of the machine's id is still being deleted.
func stillGoing(found cloud.VM) error {
	return &cloud.Error{
		Code: cloud.TokenUsed, Op: "create VM", Reason: "WaitingForDeletion", RetryAfter: minRetry,
		Err: fmt.Errorf("VM %s of the same machine is being deleted", found.ID),
	}
}

// adoptable reports whether a VM that was found is the machine's from now on, in whatever state it is:
// a machine whose VM has failed fails, and its deletion removes the VM. What a refused attempt
// has left is not: the attempt goes on from its checkpoint.
func (e *Engine) adoptable(m *Machine, found cloud.VM) bool {
	if found.ProviderID == "" || found.State == cloud.StateDeleting {
		return false
	}
	if found.State != cloud.StateFailed && found.State != cloud.StateStopped {
		return true
	}
	return m.Ref().State == "" || e.isOld(found)
}

// isOld reports whether a VM exists for longer than one that a refused attempt has left.
func (e *Engine) isOld(found cloud.VM) bool {
	return !found.Created.IsZero() && e.clock.Since(found.Created) >= adoptedAge
}

// adopt records the machine's VM if its class shows one that has run for adoptedAge, and reports
// whether it does: then a refusal that is on record is older than the VM. A young one may be what
// the refused attempt has left.
func (e *Engine) adopt(ctx context.Context, m *Machine) (bool, error) {
	if m.ClassErr != nil || m.Class.Object == nil || m.Class.Err(cloud.BlocksAll) != nil {
		return false, m.ClassErr
	}
	found, err := e.lookUp(ctx, m, m.Class)
	if refusesLookUp(err) {
		return false, nil // removing what the class made fails, too, and says so
	}
	if err != nil || !e.outlivesRefusal(found) {
		return false, err
	}
	found.RetryAfter = adoptedRetry
	if err := e.adoptForgotten(ctx, m, m.Class); err != nil {
		return false, err
	}
	err = e.record(ctx, m, found)
	if errors.Is(err, ErrNotAccepted) {
		return false, nil
	}
	return true, err
}

// outlivesRefusal reports whether a VM that was found has run for so long, and is known well enough,
// that it is none that a refused attempt has left.
func (e *Engine) outlivesRefusal(found cloud.VM) bool {
	return found.State == cloud.StateRunning && found.ProviderID != "" && found.NodeProviderID != "" && e.isOld(found)
}

// adoptForgotten records the intent with which a VM was found. If the machine's own class does not
// show the VM, it would not find it in a deletion either: the machine goes on with the class that does,
// and the error of code TokenUsed says so.
func (e *Engine) adoptForgotten(ctx context.Context, m *Machine, with class.Resolved) error {
	if with.Place() != m.Class.Place() {
		*m.Noted = ""
		err := m.save(ctx, func(s *State) { s.Class, s.Account = with.Object.Name, "" })
		if err != nil {
			return fmt.Errorf("record class %s: %w", with.Object.Name, err)
		}
		return &cloud.Error{
			Code: cloud.TokenUsed, Op: "create VM", Reason: "FoundElsewhere", RetryAfter: time.Millisecond,
			Err: fmt.Errorf("the VM exists and is of MachineClass %s", with.Object.Name),
		}
	}
	if err := m.recordIntent(ctx); err != nil {
		return fmt.Errorf("record intent: %w", err)
	}
	loggerOf(ctx, m.Ref()).Info("VM adopted that no record names", "class", with.Object.Name)
	return nil
}
