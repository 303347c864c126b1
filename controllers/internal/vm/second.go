package vm

import (
	"context"
	"fmt"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

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
