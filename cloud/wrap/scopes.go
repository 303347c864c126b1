package wrap

import (
	"context"
	"sync"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Scopes keeps what another account of the cloud says about a machine from being believed: there its VM
// does not exist, and nothing of it can be removed. A Ref that records where its VM is (Ref.Scope) is
// compared with where class and credentials lead (cloud.Scoper), before the cloud is asked for anything:
//
//   - equal ones, and a Ref without a record, pass;
//   - different ones are Denied (cloud.ReasonWrongScope);
//   - where one of them is vague, or the account cannot be named now, only a VM that is shown with the
//     machine's owner id proves that it is the account. That holds for all machines with that record.
//     Until then a VM that is not found is Denied (cloud.ReasonUnprovenScope), and nothing is done.
func Scopes() cloud.Middleware {
	return func(_ cloud.AccountInfo, next cloud.Account) cloud.Account {
		return &scoped{layer: layer{next}, proven: map[scopePair]bool{}}
	}
}

type scoped struct {
	layer

	mu     sync.Mutex
	proven map[scopePair]bool
}

// scopePair is a record, and what the account was called when a VM with that record was seen in it.
type scopePair struct{ recorded, now string }

// compare returns a nil error if the account is the one of r's record, and certain if that is sure. The
// name of the account is empty where it cannot be told.
func (a *scoped) compare(ctx context.Context, op string, r cloud.Ref) (pair scopePair, certain bool, err error) {
	if r.Scope == "" {
		return pair, true, nil
	}
	now, failure := cloud.Scope(ctx, a.Account, r.Class)
	if failure != nil {
		now = ""
	}
	pair = scopePair{r.Scope, now}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case now == r.Scope, a.proven[pair]:
		return pair, true, nil
	case cloud.IsVague(now), cloud.IsVague(r.Scope):
		return pair, false, nil
	}
	return pair, false, cloud.WrongScope(op, r.Scope, now)
}

// unproven is the error for a VM that is not found and of which nothing proves that it would be.
func unproven(op string, pair scopePair) error {
	now := pair.now
	if now == "" {
		now = "an account that cannot be named now"
	}
	return cloud.Errorf(cloud.Denied, op, cloud.ReasonUnprovenScope, "the VM is in %s and is not found in %s, which may "+
		"be another account: give the class credentials that show the VM; if it is gone for certain, remove the "+
		"annotation %s from the machine", pair.recorded, now, cloud.ScopeRecord)
}

// prove fails unless the account is the one of r's record.
func (a *scoped) prove(ctx context.Context, op string, r cloud.Ref) error {
	pair, certain, err := a.compare(ctx, op, r)
	if certain || err != nil {
		return err
	}
	_, err = a.look(ctx, op, r, pair)
	return err
}

// look returns the VM of r, which proves that the account is the one of its record. A VM without the
// machine's owner id, and none, prove nothing.
func (a *scoped) look(ctx context.Context, op string, r cloud.Ref, pair scopePair) (cloud.VM, error) {
	found, err := a.Account.Get(ctx, r)
	switch {
	case cloud.CodeOf(err) == cloud.NotFound:
		return cloud.VM{}, unproven(op, pair)
	case err != nil:
		return cloud.VM{}, err
	case r.OwnerID == "" || found.OwnerID != r.OwnerID:
		return cloud.VM{}, unproven(op, pair)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proven[pair] = true
	return found, nil
}

// Create makes no VM beside one that may be in another account.
func (a *scoped) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	if err := a.prove(ctx, opCreate, r.Ref); err != nil {
		return cloud.VM{}, err
	}
	return a.Account.Create(ctx, r)
}

// Get returns the VM of r as the account of its record shows it.
func (a *scoped) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	pair, certain, err := a.compare(ctx, OpGet, r)
	switch {
	case err != nil:
		return cloud.VM{}, err
	case certain:
		return a.Account.Get(ctx, r)
	}
	return a.look(ctx, OpGet, r, pair)
}

// Delete removes, and calls gone, only what was in this account.
func (a *scoped) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	if err := a.prove(ctx, opDelete, r); err != nil {
		return cloud.Deletion{}, err
	}
	return a.Account.Delete(ctx, r)
}

// SetTags changes nothing in another account.
func (a *scoped) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	if err := a.prove(ctx, opTags, r); err != nil {
		return err
	}
	return cloud.SetTags(ctx, a.Account, r, obsolete)
}

// Reboot boots nothing in another account.
func (a *scoped) Reboot(ctx context.Context, r cloud.Ref) error {
	if err := a.prove(ctx, opReboot, r); err != nil {
		return err
	}
	return cloud.Reboot(ctx, a.Account, r)
}

// Console reads no console in another account.
func (a *scoped) Console(ctx context.Context, r cloud.Ref) (string, error) {
	if err := a.prove(ctx, opConsole, r); err != nil {
		return "", err
	}
	return cloud.Console(ctx, a.Account, r)
}

// RemoveBootData removes, and calls gone, only what was in this account.
func (a *scoped) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	if err := a.prove(ctx, opBootData, r); err != nil {
		return err
	}
	return cloud.RemoveBootData(ctx, a.Account, r)
}

// Register registers nothing in another account.
func (a *scoped) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	if err := a.prove(ctx, opRegister, r); err != nil {
		return cloud.Registration{}, err
	}
	return cloud.Register(ctx, a.Account, r, places)
}

// Deregister believes of no other account that a VM has left its load balancers.
func (a *scoped) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	if err := a.prove(ctx, opDeregister, r); err != nil {
		return cloud.Registration{}, err
	}
	return cloud.Deregister(ctx, a.Account, r, places)
}
