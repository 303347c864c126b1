package vm

import (
	"context"
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// ReasonUnprotected is the reason of the error with which Ensure waits for the
// finalizer of a class.
const ReasonUnprotected = "ClassUnprotected"

// unprotectedRetry is when the finalizer of a class is looked for again; its
// arrival wakes the machine sooner.
const unprotectedRetry = 5 * time.Second

// Account returns the account that the machine's class belongs to, or why there is none.
func (e *Engine) Account(ctx context.Context, m *Machine) (cloud.Account, error) {
	if m.ClassErr != nil {
		return nil, m.ClassErr
	}
	return m.Class.Account(ctx)
}

// Get returns the machine's VM as the cloud shows it.
func (e *Engine) Get(ctx context.Context, m *Machine) (cloud.VM, error) {
	account, err := e.Account(ctx, m)
	if err != nil {
		return cloud.VM{}, err
	}
	ref, err := e.ref(ctx, account, m)
	if err != nil {
		return cloud.VM{}, err
	}
	found, err := identified(ctx, e, account, m, ref, func(r cloud.Ref) (cloud.VM, error) { return account.Get(ctx, r) })
	if err == nil {
		e.Seen(ctx, m, found)
	}
	return found, err
}

// Ensure returns the machine's VM, recorded, and creates it if there is none. It
// finds whatever is wrong with class and boot data before it does anything. It
// does not wait: while VM.RetryAfter is positive it wants to be called again. If
// the VM could not be recorded, it is returned together with the error.
func (e *Engine) Ensure(ctx context.Context, m *Machine) (cloud.VM, error) {
	first := m.State.ProviderID == ""

	// 1. Class and credentials can be used.
	account, err := e.usableClass(ctx, m)
	if err != nil {
		return cloud.VM{}, err
	}

	// 2. There may be a VM that nothing records. Else it is asked for, in one zone after the other.
	made, isForgotten, err := e.findUnrecordedVM(ctx, m)
	if err == nil && !isForgotten {
		made, err = e.inZone(ctx, m, func(zone string) (cloud.VM, error) { return e.create(ctx, account, m, zone) })
	}
	if err != nil {
		return cloud.VM{}, err
	}

	// 3. It is recorded. From then on no other is created.
	if err := e.record(ctx, m, made); err != nil {
		return made, err
	}
	switch {
	case first && m.State.ProviderID != "":
		e.fallback.Made(m.offer())
	case m.State.ProviderID == "" && m.State.Account == "": // the record of the VM has not taken the account along
		if err := m.saveAccount(ctx, scopeOf(ctx, account, m.Class)); err != nil {
			return made, fmt.Errorf("record account of VM: %w", err)
		}
	}
	return made, nil
}

// usableClass returns the account of a class of which a VM can be created, or of a VM that exists and
// needs less of its class. No VM is created from a class without finalizer, which
// could vanish at any moment: so a machine whose class does not exist, and that has
// no providerID, has no VM.
func (e *Engine) usableClass(ctx context.Context, m *Machine) (cloud.Account, error) {
	blocking := cloud.BlocksCreate
	if m.State.ProviderID != "" {
		blocking = cloud.BlocksAll
	}
	if m.ClassErr != nil {
		return nil, m.ClassErr
	}
	if err := m.Class.Err(blocking); err != nil {
		return nil, err
	}
	if m.State.ProviderID == "" {
		if !m.Class.Protected {
			return nil, &cloud.Error{
				Code: cloud.Unavailable, Op: "create VM", Reason: ReasonUnprotected, RetryAfter: unprotectedRetry,
				Err: fmt.Errorf("MachineClass %q has no finalizer yet; its controller adds it", m.Class.Object.Name),
			}
		}
		if len(m.Request.Network) > 0 {
			if err := CheckStaticAddresses(m.Class); err != nil {
				return nil, err
			}
		}
	}
	return m.Class.Account(ctx)
}

// create returns the machine's VM in one zone, and creates it if there is none.
func (e *Engine) create(ctx context.Context, account cloud.Account, m *Machine, zone string) (cloud.VM, error) {
	w := want{Request: m.Request, Attempt: m.State.Attempt, Spent: m.State.Foreign}
	w.Request.Zone = zone
	w.Request.Checkpoint = func(ctx context.Context, checkpoint string) error {
		return m.save(ctx, func(s *State) { s.Checkpoint = checkpoint })
	}
	w.Next = func(ctx context.Context, attempt int) error {
		return m.save(ctx, func(s *State) { s.Attempt, s.Foreign = attempt, false })
	}
	var err error
	if w.Request.Ref, err = e.ref(ctx, account, m); err != nil {
		return cloud.VM{}, err
	}

	if m.State.ProviderID == "" {
		// 1. The account is where the other machines of the class are, and takes the call. Boot data can cost requests.
		if others := w.Request.Scope; others != "" && m.State.Account == "" {
			return cloud.VM{}, cloud.WrongScope("create VM", others, scopeOf(ctx, account, m.Class))
		}
		if !w.Spent {
			w.Request.Token = Token(w.Request.OwnerID, w.Attempt)
			if err := cloud.Admit(ctx, account, w.Request); err != nil {
				return cloud.VM{}, err
			}
			// 2. Its boot data.
			if w.Request.UserData, w.Spent, err = m.UserData(ctx); err != nil {
				return cloud.VM{}, err
			}
			if err := checkBootData(m, w.Request.UserData); err != nil {
				return cloud.VM{}, err
			}
		}
		// 3. The intent is on record before the first call.
		e.noteScope(ctx, account, m)
		if err := m.recordIntent(ctx); err != nil {
			return cloud.VM{}, err
		}
	}

	// 4. The call, and in which account it may have made something.
	made, err := identified(ctx, e, account, m, w.Request.Ref, func(r cloud.Ref) (cloud.VM, error) {
		w.Request.Ref = r
		return e.ensure(ctx, account, m.Class.Driver.Traits(), w)
	})
	if failed := e.recordAsked(ctx, account, m, w.Request.Ref, err); failed != nil {
		return cloud.VM{}, fmt.Errorf("record account of VM: %w", failed)
	}
	return made, err
}

// recordIntent persists that a VM is about to be asked for, from which class, which tags it may get, and whether the
// cloud will keep its boot data.
func (m *Machine) recordIntent(ctx context.Context) error {
	err := m.save(ctx, func(s *State) {
		s.Tags = recordForCreate(m.Class, s.Tags, !s.Requested)
		s.BootData = s.BootData || keepsBootData(m.Class)
		s.Requested, s.Class = true, m.ClassName
	})
	if err != nil {
		return fmt.Errorf("record intent: %w", err)
	}
	return nil
}

// record is Record for a VM that was made or found for the machine, which it may not accept.
func (e *Engine) record(ctx context.Context, m *Machine, made cloud.VM) error {
	if m.Accepts != nil {
		if err := m.Accepts(ctx, made); err != nil {
			return fmt.Errorf("record VM %s: %w", made.ProviderID, err)
		}
	}
	return e.Record(ctx, m, made)
}

// Record persists what identifies the machine's VM, once the cloud tells it. From then on no other is created.
func (e *Engine) Record(ctx context.Context, m *Machine, made cloud.VM) error {
	providerID := m.ProviderIDOf(made)
	if providerID == "" {
		return nil
	}
	if err := m.save(ctx, func(s *State) { *s = s.found(providerID, made) }); err != nil {
		return fmt.Errorf("record VM %s: %w", made.ProviderID, err)
	}
	return nil
}

// StateMessage appends the cloud's explanation of a VM's state to text.
func StateMessage(text string, v cloud.VM) string {
	for _, more := range []string{v.Reason, v.Message} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// CheckStaticAddresses returns an error of code Invalid if the cloud of a class cannot
// give VMs static addresses.
func CheckStaticAddresses(r class.Resolved) error {
	if r.Driver == nil || r.Driver.Traits().StaticAddresses {
		return nil // an unknown provider is a problem of the class
	}
	const field = "spec.network"
	message := fmt.Sprintf("MachineClass %s is of provider %s, which does not support static addresses; remove the field "+
		"from the MCMMachineTemplate, or name a class of another provider", r.Class.Name, r.Driver.Traits().Name)
	return &cloud.Error{
		Code: cloud.Invalid, Op: "create VM", Reason: infrav1.ReasonNoStaticAddresses,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + ": " + message),
	}
}

// Console returns the end of the console of the machine's VM, without the account's secrets. It
// changes nothing, and takes no longer than wrap.Timeout lets it.
func (e *Engine) Console(ctx context.Context, m *Machine) (string, error) {
	account, err := e.Account(ctx, m)
	if err != nil {
		return "", err
	}
	return cloud.Console(ctx, account, m.Ref())
}
