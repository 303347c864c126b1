package vm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// ReasonUnprotected is the reason of the error with which Ensure waits for the
// finalizer of a class.
const ReasonUnprotected = "ClassUnprotected"

// unprotectedRetry is when the finalizer of a class is looked for again; its
// arrival wakes the machine sooner.
const unprotectedRetry = 5 * time.Second

// Owner is the object that has the VM, in one pass over it; each API implements
// it once.
type Owner interface {
	Subject
	Identity
	Choice
	Placement
	Recorder
	ScopeRecorder
}

// Subject is what an owner asks for, as the pass has read it and written it since.
type Subject interface {
	// Class is the class of the VM as this pass resolved it, or why it could not be read.
	Class() (class.Resolved, error)
	// Ref identifies the VM. Class is filled in by the engine.
	Ref() cloud.Ref
	// Attempt is the number of the current attempt at the VM, from 1. foreign is set
	// when it was begun without a token of the engine: it is looked up, not repeated.
	Attempt() (number int, foreign bool)
	// Request is what the object asks for beside its class. Ref, Token, UserData and
	// Checkpoint are filled in by the engine, and Zone if it is empty.
	Request() cloud.CreateRequest
	// UserData is the boot data of the attempt, the same bytes each time. spent means
	// that the attempt can have none any more, e.g. because its token has expired.
	UserData(ctx context.Context) (data []byte, spent bool, err error)
}

// Choice is the class of a VM whose owner may have one of several.
type Choice interface {
	// OtherClasses are the classes beside Class; none for most owners.
	OtherClasses(ctx context.Context) ([]class.Resolved, error)
	// RecordClass persists that the VM is of the class of that name. It fails on a stale object.
	RecordClass(ctx context.Context, name string) error
}

// Placement is the zone of a VM whose class has several and whose owner names none.
type Placement interface {
	// Zone is what RecordZone has recorded; empty if nothing.
	Zone() string
	// ZonesInUse returns how many other machines of the class each zone has, as far as
	// caches show it.
	ZonesInUse(ctx context.Context) (map[string]int, error)
	// RecordZone persists the zone that was chosen. It fails on a stale object.
	RecordZone(ctx context.Context, zone string) error
}

// Recorder persists something before Ensure goes on. Its methods fail on a stale
// object, and the Subject shows what they wrote.
type Recorder interface {
	// RecordIntent persists that a VM is about to be created, unless it is known already.
	RecordIntent(ctx context.Context) error
	// RecordAttempt persists the number of the next attempt.
	RecordAttempt(ctx context.Context, number int) error
	// RecordState persists the driver's checkpoint, which Ref returns from then on.
	RecordState(ctx context.Context, state string) error
	// RecordVM persists what identifies the VM. From then on no other is created.
	RecordVM(ctx context.Context, made cloud.VM) error
}

// Account returns the account that the owner's class belongs to, or why there is none.
func (e *Engine) Account(ctx context.Context, o Owner) (cloud.Account, class.Resolved, error) {
	resolved, err := o.Class()
	if err != nil {
		return nil, resolved, err
	}
	account, err := resolved.Account(ctx)
	return account, resolved, err
}

// Get returns the owner's VM as the cloud shows it.
func (e *Engine) Get(ctx context.Context, o Owner) (cloud.VM, error) {
	account, resolved, err := e.Account(ctx, o)
	if err != nil {
		return cloud.VM{}, err
	}
	ref, err := e.ref(ctx, account, o, resolved)
	if err != nil {
		return cloud.VM{}, err
	}
	found, err := account.Get(ctx, ref)
	if cloud.CodeOf(err) == cloud.NotFound {
		switch known, failed := e.identify(ctx, o); {
		case failed != nil:
			return cloud.VM{}, failed
		case known:
			if ref, err = e.ref(ctx, account, o, resolved); err == nil {
				found, err = account.Get(ctx, ref)
			}
		}
	}
	if err == nil {
		e.Seen(ctx, o, found)
	}
	return found, err
}

// Ensure returns the owner's VM, recorded, and creates it if there is none. It
// finds whatever is wrong with class and boot data before it does anything. It
// does not wait: while VM.RetryAfter is positive it wants to be called again. If
// the VM could not be recorded, it is returned together with the error.
func (e *Engine) Ensure(ctx context.Context, o Owner) (cloud.VM, error) {
	account, resolved, err := e.usableClass(ctx, o)
	if err != nil {
		return cloud.VM{}, err
	}
	request := o.Request()
	if len(request.Network) > 0 && o.Ref().ProviderID == "" {
		if err := CheckStaticAddresses(resolved); err != nil {
			return cloud.VM{}, err
		}
	}
	made, forgotten, err := e.findUnrecordedVM(ctx, o, resolved)
	if err == nil && !forgotten {
		made, err = e.inZone(ctx, o, resolved.Class, request.Zone, func(zone string) (cloud.VM, error) {
			request.Zone = zone
			return e.create(ctx, account, resolved, o, request)
		})
	}
	if err != nil {
		return cloud.VM{}, err
	}
	if err := o.RecordVM(ctx, made); err != nil {
		return made, fmt.Errorf("record VM %s: %w", made.ProviderID, err)
	}
	if o.Ref().ProviderID == "" && o.Ref().Scope == "" { // the record of the VM has not taken it along
		if err := o.RecordScope(ctx, scopeOf(ctx, account, resolved)); err != nil {
			return made, fmt.Errorf("record account of VM: %w", err)
		}
	}
	return made, nil
}

// create returns the owner's VM in one zone, and creates it if there is none.
func (e *Engine) create(ctx context.Context, account cloud.Account, resolved class.Resolved, o Owner,
	request cloud.CreateRequest,
) (cloud.VM, error) {
	w := want{Request: request, Next: o.RecordAttempt}
	var err error
	if w.Request.Ref, err = e.ref(ctx, account, o, resolved); err != nil {
		return cloud.VM{}, err
	}
	if others := w.Request.Scope; others != "" && o.Ref().Scope == "" && w.Request.ProviderID == "" {
		return cloud.VM{}, cloud.WrongScope("create VM", others, scopeOf(ctx, account, resolved))
	}
	w.Request.Checkpoint = o.RecordState
	if w.Attempt, w.Spent = o.Attempt(); w.Request.ProviderID == "" {
		if err := e.prepare(ctx, account, resolved, o, &w); err != nil {
			return cloud.VM{}, err
		}
	}
	made, err := e.ensure(ctx, account, resolved.Driver.Traits(), w)
	if cloud.CodeOf(err) == cloud.NotFound {
		switch known, failed := e.identify(ctx, o); {
		case failed != nil:
			return cloud.VM{}, failed
		case known:
			if w.Request.Ref, err = e.ref(ctx, account, o, resolved); err == nil {
				made, err = e.ensure(ctx, account, resolved.Driver.Traits(), w)
			}
		}
	}
	if failed := e.recordAsked(ctx, account, resolved, o, w.Request.Ref, err); failed != nil {
		return cloud.VM{}, fmt.Errorf("record account of VM: %w", failed)
	}
	return made, err
}

// usableClass returns the class of a VM that is to be created, or that exists and
// needs less of its class. No VM is created from a class without finalizer, which
// could vanish at any moment: so an owner whose class does not exist, and that has
// no providerID, has no VM.
func (e *Engine) usableClass(ctx context.Context, o Owner) (cloud.Account, class.Resolved, error) {
	resolved, err := o.Class()
	if err != nil {
		return nil, resolved, err
	}
	exists, blocking := o.Ref().ProviderID != "", cloud.BlocksCreate
	if exists {
		blocking = cloud.BlocksAll
	}
	if err := resolved.Err(blocking); err != nil {
		return nil, resolved, err
	}
	if !exists && !resolved.Protected {
		return nil, resolved, &cloud.Error{
			Code: cloud.Unavailable, Op: "create VM", Reason: ReasonUnprotected, RetryAfter: unprotectedRetry,
			Err: fmt.Errorf("MachineClass %q has no finalizer yet; its controller adds it", resolved.Object.Name),
		}
	}
	account, err := resolved.Account(ctx)
	return account, resolved, err
}

// prepare completes the request for a VM that is not known to exist, and persists
// the intent. Boot data can cost requests, so the account is asked first whether
// it would take the call.
func (e *Engine) prepare(ctx context.Context, account cloud.Account, resolved class.Resolved, o Owner, w *want) error {
	if !w.Spent {
		w.Request.Token = Token(w.Request.OwnerID, w.Attempt)
		if err := cloud.Admit(ctx, account, w.Request); err != nil {
			return err
		}
		var err error
		if w.Request.UserData, w.Spent, err = o.UserData(ctx); err != nil {
			return err
		}
		if err := checkBootData(o, resolved, w.Request.UserData); err != nil {
			return err
		}
	}
	e.noteScope(ctx, account, resolved, o)
	if err := o.RecordIntent(ctx); err != nil {
		return fmt.Errorf("record intent: %w", err)
	}
	return nil
}

// Remove asks for the owner's VM, and all that was created with it, to go, and for a second VM
// with the owner's id that a restore of the API server may have led to. Done is only true when
// it can be believed: where the cloud may not show a VM yet, or a former leader may still
// create it, it waits. An owner id that was lost is read back first; then the deletion begins again, so
// that the VM leaves its load balancers, too. A VM of the owner's providerID that another owner has is
// left, and an error says so.
func (e *Engine) Remove(ctx context.Context, o Owner) (cloud.Deletion, error) {
	if o.Ref().ProviderID == "" {
		if err := e.Recall(ctx, o); err != nil {
			return cloud.Deletion{}, err
		}
	}
	ref := o.Ref()
	if !e.wasAbsent(ref) {
		d, err := e.removeOne(ctx, o)
		if err != nil || !d.Done || d.Found || ref.ProviderID == "" || e.Deleting(ref.OwnerID) {
			return d, err
		}
		e.update(ref.OwnerID, func(n *memory) { n.absent, n.nobodys = ref.ProviderID, false })
	}
	if !e.isNobodys(ref) {
		switch known, err := e.identify(ctx, o); {
		case err != nil:
			return cloud.Deletion{}, err
		case known:
			e.update(ref.OwnerID, func(n *memory) { n.absent = "" })
			return cloud.Deletion{RetryAfter: minRetry, Remaining: []string{"VM " + ref.ProviderID}}, nil
		}
		e.update(ref.OwnerID, func(n *memory) { n.nobodys = true })
	}
	return e.removeSecond(ctx, o)
}

// wasAbsent reports whether a deletion has found nothing of a providerID from the start. That VM
// is not asked for again while a second one is looked for: where many machines wait for the cloud's
// rate limit, these calls would use it up.
func (e *Engine) wasAbsent(r cloud.Ref) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return r.ProviderID != "" && r.OwnerID != "" && e.memories[r.OwnerID].absent == r.ProviderID
}

// isNobodys reports whether the cloud shows no VM of any owner behind a providerID that a deletion has found
// nothing of.
func (e *Engine) isNobodys(r cloud.Ref) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.memories[r.OwnerID].nobodys
}

// removeOne is Remove without the look for a second VM.
func (e *Engine) removeOne(ctx context.Context, o Owner) (cloud.Deletion, error) {
	account, resolved, err := e.Account(ctx, o)
	if err != nil {
		return cloud.Deletion{}, err
	}
	ref, err := e.ref(ctx, account, o, resolved)
	if err != nil {
		return cloud.Deletion{}, err
	}
	return e.remove(ctx, account, resolved.Driver.Traits(), ref)
}

// Discard removes a VM that Ensure returned and that was not recorded.
func (e *Engine) Discard(ctx context.Context, o Owner, made cloud.VM) (cloud.Deletion, error) {
	account, resolved, err := e.Account(ctx, o)
	if err != nil {
		return cloud.Deletion{}, err
	}
	ref := refOf(o, resolved)
	ref.ProviderID = made.ProviderID
	return e.remove(ctx, account, resolved.Driver.Traits(), ref)
}

func refOf(o Owner, r class.Resolved) cloud.Ref {
	ref := o.Ref()
	ref.Class = r.Class
	return ref
}

// DeletionMessage says how far a deletion is.
func DeletionMessage(d cloud.Deletion) string {
	if len(d.Remaining) == 0 {
		return "VM is being deleted"
	}
	return "VM is being deleted; still there: " + strings.Join(d.Remaining, ", ")
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
