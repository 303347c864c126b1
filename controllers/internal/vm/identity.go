package vm

import (
	"context"
	"errors"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// Recall gives a machine without owner id, which may have asked for a VM when it had one, the id of that
// VM: the one that its providerID names, or else that the cloud shows by its name. It does nothing where
// there is none, and of those that it finds by name, where it is another object's. An error is one of the
// cloud's, or says why it is not known whose the VM is; nothing may be created, or believed to be gone,
// before that is settled.
func (e *Engine) Recall(ctx context.Context, m *Machine) error {
	if m.State.OwnerID != "" {
		return nil
	}
	if m.Ref().ProviderID != "" {
		_, err := e.identify(ctx, m)
		return err
	}
	account, err := e.Account(ctx, m)
	if err != nil || m.Class.Driver.Traits().Legacy {
		return err
	}
	ref, err := e.ref(ctx, account, m)
	if err != nil {
		return err
	}
	found, err := account.Get(ctx, cloud.Ref{Name: ref.Name, Class: ref.Class, Scope: ref.Scope})
	switch {
	case cloud.CodeOf(err) == cloud.NotFound:
		return nil
	case err != nil:
		return fmt.Errorf("look for the VM whose owner id was lost: %w", err)
	case found.OwnerID == "" || found.OwnerID == m.Ref().OwnerID:
		return nil
	}
	other, err := m.Claimant(ctx, found.OwnerID, found.ProviderID, found.NodeProviderID)
	if err != nil || other != "" {
		return err // a namesake's
	}
	return e.takeBack(ctx, account, m, found)
}

// identify asks what is behind the providerID of a machine where the cloud shows no VM with its owner
// id: that there is nothing is only believed when nothing is shown for any owner. A VM whose owner
// id was lost gives it back; then known is true, and the call is worth repeating. The VM of
// another owner is an error of code Denied.
func (e *Engine) identify(ctx context.Context, m *Machine) (known bool, err error) {
	ref := m.Ref()
	account, err := e.Account(ctx, m)
	if err != nil || ref.ProviderID == "" || ref.OwnerID == "" || m.Class.Driver.Traits().Legacy {
		return false, err
	}
	if ref, err = e.ref(ctx, account, m); err != nil {
		return false, err
	}
	named, err := account.Get(ctx, cloud.Ref{ProviderID: ref.ProviderID, Class: ref.Class, Scope: ref.Scope})
	switch {
	case cloud.CodeOf(err) == cloud.NotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask whose VM %s is: %w", ref.ProviderID, err)
	case named.OwnerID == ref.OwnerID, named.OwnerID == "" && named.Name == ref.Name:
		return true, nil // it is shown by now
	}
	return true, e.takeBack(ctx, account, m, named)
}

// identified calls call with the machine's Ref. Where the cloud shows no VM of that, and the VM turns out to have
// another owner id, which was lost and is taken back, it calls once more.
func identified[T any](ctx context.Context, e *Engine, account cloud.Account, m *Machine, ref cloud.Ref,
	call func(cloud.Ref) (T, error),
) (T, error) {
	answer, err := call(ref)
	if cloud.CodeOf(err) != cloud.NotFound {
		return answer, err
	}
	known, failed := e.identify(ctx, m)
	if failed == nil && known {
		if ref, failed = e.ref(ctx, account, m); failed == nil {
			return call(ref)
		}
	}
	if failed != nil {
		err = failed
	}
	return answer, err
}

// takeBack records the owner id of a VM as the machine's, if its tags prove that it is the machine's. Else
// the error says what keeps it from that.
func (e *Engine) takeBack(ctx context.Context, account cloud.Account, m *Machine, found cloud.VM) error {
	lost := m.Ref()
	why, err := notProved(ctx, account, m, found)
	if err != nil {
		return err
	}
	if why != "" {
		return &cloud.Error{
			Code: cloud.Denied, Op: "identify VM", Reason: machinev1.ReasonVMOfAnotherOwner,
			Err: fmt.Errorf("VM %s has owner id %q in its tags, not %q, and %s; it is neither used nor deleted: if it is this "+
				"object's, set annotation %s to the id in the tags", found.ProviderID, found.OwnerID, lost.OwnerID, why,
				machinev1.OwnerIDAnnotation),
		}
	}
	if err := m.save(ctx, func(s *State) { s.OwnerID = found.OwnerID }); err != nil {
		return fmt.Errorf("record owner id %s: %w", found.OwnerID, err)
	}
	e.Forget(lost.OwnerID)
	loggerOf(ctx, m.Ref()).Info("Owner id read back from the tags of the VM", "providerID", found.ProviderID,
		"insteadOf", lost.OwnerID)
	return nil
}

// notProved returns why a VM is not proved to be the machine's; empty if it is: the tags name the machine's
// machine and Cluster, and no other object has its id.
func notProved(ctx context.Context, account cloud.Account, m *Machine, found cloud.VM) (why string, err error) {
	switch {
	case !m.mayHaveLostOwnerID():
		return "the object has an owner id of its own", nil
	case found.OwnerID == "" || found.Name != m.Ref().Name:
		return fmt.Sprintf("is tagged as the VM of machine %q", found.Name), nil
	}
	other, err := m.Claimant(ctx, found.OwnerID)
	if err != nil {
		return "", err
	}
	if other != "" {
		return "is claimed by " + other, nil
	}
	cluster, err := clusterOf(ctx, account, m.Class, found)
	if err != nil {
		return "", err
	}
	if want := m.Cluster; want != "" && cluster != "" && cluster != want {
		return fmt.Sprintf("belongs to a Cluster with id %q, not %q", cluster, want), nil
	}
	return "", nil
}

// errNotListed is why it is not known which Cluster a VM is of.
var errNotListed = errors.New("the VM is not in the listing of its class")

// clusterOf returns the id of the Cluster that a VM is tagged with; empty for none.
func clusterOf(ctx context.Context, account cloud.Account, with class.Resolved, vm cloud.VM) (string, error) {
	for r, err := range account.List(ctx, with.Class, cloud.KindVM) {
		if err != nil {
			return "", fmt.Errorf("read the tags of VM %s: %w", vm.ID, err)
		}
		if r.ID == vm.ID {
			return r.Tags[machinev1.ClusterIDTag], nil
		}
	}
	return "", &cloud.Error{
		Code: cloud.Unavailable, Op: "identify VM", Reason: "NotListed", RetryAfter: unprotectedRetry, Err: errNotListed,
	}
}
