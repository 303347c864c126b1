package logging

import (
	"context"
	"errors"
	"io"
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Account is a cloud.Middleware that logs calls that fail, with the wait before the next
// try where the cloud asks for one. It belongs around the one that redacts errors.
func Account(info cloud.AccountInfo, next cloud.Account) cloud.Account {
	return loggedAccount{next, info.Driver.Name}
}

type loggedAccount struct {
	cloud.Account
	provider string
}

// Admit asks the account below.
func (a loggedAccount) Admit(ctx context.Context, r cloud.CreateRequest) error {
	return cloud.Admit(ctx, a.Account, r)
}

// Scope asks the account below.
func (a loggedAccount) Scope(ctx context.Context, c cloud.Class) (string, error) {
	return cloud.Scope(ctx, a.Account, c)
}

// Close closes the account below if it can be closed.
func (a loggedAccount) Close() error {
	if c, ok := a.Account.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Create creates a VM.
func (a loggedAccount) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	made, err := a.Account.Create(ctx, r)
	a.failed(ctx, "create VM", r.Ref, err)
	return made, err
}

// Get returns a VM. That there is none is an answer.
func (a loggedAccount) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	found, err := a.Account.Get(ctx, r)
	if cloud.CodeOf(err) != cloud.NotFound {
		a.failed(ctx, "get VM", r, err)
	}
	return found, err
}

// Delete deletes a VM and what was made with it.
func (a loggedAccount) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	d, err := a.Account.Delete(ctx, r)
	a.failed(ctx, "delete VM", r, err)
	if err == nil && !d.Done {
		log.FromContext(ctx).V(verbosityRetries).Info("VM is still being deleted", "provider", a.provider, "machine", r.Name,
			"ownerID", r.OwnerID, "providerID", r.ProviderID, "remaining", d.Remaining, "retryAfter", d.RetryAfter)
	}
	return d, err
}

// SetTags changes the tags of a VM.
func (a loggedAccount) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	err := cloud.SetTags(ctx, a.Account, r, obsolete)
	a.failed(ctx, "set tags", r, err)
	return err
}

// RecordRetention tags parts of VMs.
func (a loggedAccount) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	err := cloud.RecordRetention(ctx, a.Account, c, parts)
	a.failed(ctx, "record retention", cloud.Ref{Class: c}, err)
	return err
}

// Reboot reboots a VM.
func (a loggedAccount) Reboot(ctx context.Context, r cloud.Ref) error {
	err := cloud.Reboot(ctx, a.Account, r)
	a.failed(ctx, "reboot VM", r, err)
	return err
}

// Console reads the console of a VM.
func (a loggedAccount) Console(ctx context.Context, r cloud.Ref) (string, error) {
	text, err := cloud.Console(ctx, a.Account, r)
	a.failed(ctx, "read console", r, err)
	return text, err
}

// RemoveBootData removes the boot data that is kept for a VM.
func (a loggedAccount) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	err := cloud.RemoveBootData(ctx, a.Account, r)
	a.failed(ctx, "remove boot data", r, err)
	return err
}

// Register registers a VM with load balancers.
func (a loggedAccount) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	done, err := cloud.Register(ctx, a.Account, r, places)
	a.failed(ctx, "register VM", r, err)
	return done, err
}

// Deregister takes a VM out of load balancers.
func (a loggedAccount) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	done, err := cloud.Deregister(ctx, a.Account, r, places)
	a.failed(ctx, "deregister VM", r, err)
	return done, err
}

// List yields resources until the first error.
func (a loggedAccount) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		for r, err := range a.Account.List(ctx, c, kinds...) {
			a.failed(ctx, "list resources", cloud.Ref{Class: c}, err)
			if !yield(r, err) {
				return
			}
		}
	}
}

// failed logs a call that failed; nil is none.
func (a loggedAccount) failed(ctx context.Context, operation string, r cloud.Ref, err error) {
	l := log.FromContext(ctx).V(verbosityRetries)
	if err == nil || !l.Enabled() {
		return
	}
	values := []any{
		"provider", a.provider, "operation", operation, "class", r.Class.Name, "machine", r.Name, "ownerID", r.OwnerID,
		"providerID", r.ProviderID, "code", cloud.CodeOf(err).String(), "cause", err.Error(),
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		values = append(values, "reason", e.Reason, "retryAfter", e.RetryAfter)
	}
	l.Info("Cloud call failed", values...)
}
