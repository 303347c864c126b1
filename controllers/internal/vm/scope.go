package vm

import (
	"context"
	"fmt"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// scopeUseAge is for how long the records of a class's other machines are not read again.
const scopeUseAge = 30 * time.Second

// scopeUse is which scope machines of a class without a record have, as the others show it.
type scopeUse struct {
	read  time.Time
	now   string // where class and credentials lead
	other string // where the others are; empty if one of them is here, too, or if none has a record
}

// scopeOf names where account and class lead. It is empty where that cannot be told: it is neither
// recorded nor compared then, and a machine with a record has to prove itself (wrap.Scopes).
func scopeOf(ctx context.Context, account cloud.Account, with class.Resolved) string {
	scope, err := cloud.Scope(ctx, account, with.Class)
	if err != nil {
		return ""
	}
	return scope
}

// ref is the Ref of a call that decides about the machine's VM. A machine without a record of its account,
// e.g. because it is new or older than records, has that of the other machines of its class: a class whose
// credentials were exchanged makes no VM elsewhere, and believes none to be gone. One whose account has refused
// every request has no VM there, and follows the credentials.
func (e *Engine) ref(ctx context.Context, account cloud.Account, m *Machine) (cloud.Ref, error) {
	ref, now := m.Ref(), scopeOf(ctx, account, m.Class)
	if ref.ProviderID == "" && ref.State == "" && ref.Scope != now && e.hasRefused(ref.OwnerID, ref.Scope) {
		if err := m.saveAccount(ctx, ""); err != nil {
			return ref, fmt.Errorf("forget the account that refused the VM: %w", err)
		}
		loggerOf(ctx, ref).Info("Account that refused the VM forgotten; what was made there for it before, such as "+
			"a disk, is not looked for", "account", ref.Scope, "now", now)
		ref.Scope = ""
	}
	if ref.Scope != "" || m.insteadOf != nil || cloud.IsVague(now) {
		return ref, nil
	}
	key := classKey(ref.Class)
	e.mu.Lock()
	known := e.scopes[key]
	e.mu.Unlock()
	if known.now != now || e.clock.Since(known.read) >= scopeUseAge {
		peers, err := m.Peers(ctx)
		if err != nil {
			return ref, fmt.Errorf("read the accounts of the class's machines: %w", err)
		}
		known = scopeUse{read: e.clock.Now(), now: now, other: otherScope(peers, now)}
		e.mu.Lock()
		e.scopes[key] = known
		e.mu.Unlock()
	}
	ref.Scope = known.other
	return ref, nil
}

// otherScope returns the least scope in use, unless now is among them or none is known exactly.
func otherScope(peers []Peer, now string) string {
	other := ""
	for i := range peers {
		switch scope := peers[i].Account; {
		case peers[i].ProviderID == "":
		case scope == now:
			return ""
		case !cloud.IsVague(scope) && (other == "" || scope < other):
			other = scope
		}
	}
	return other
}

// noteScope has where a VM is about to be asked for recorded with the intent. An account that has
// definitely refused every request before is not recorded again: no VM is there.
func (e *Engine) noteScope(ctx context.Context, account cloud.Account, m *Machine) {
	scope := scopeOf(ctx, account, m.Class)
	if m.Ref().Scope == "" && !e.hasRefused(m.Ref().OwnerID, scope) {
		*m.Noted = scope
	}
}

// recordAsked keeps the record of where the VM of asked was asked for in line with how that ended, which
// failure says. What may have been made is recorded at once. An account that has definitely refused every
// request has no VM: what refused the class or its credentials is forgotten at once, so that others may follow even
// after a restart, and ref forgets the rest.
func (e *Engine) recordAsked(ctx context.Context, account cloud.Account, m *Machine, asked cloud.Ref,
	failure error,
) error {
	scope := scopeOf(ctx, account, m.Class)
	if scope == "" || m.Ref().ProviderID != "" {
		return nil
	}
	code := cloud.CodeOf(failure)
	switch {
	case failure == nil:
		*m.Noted = scope // goes with the record of the VM
		return nil
	case cloud.OutcomeUnknown(failure):
		e.update(asked.OwnerID, func(n *memory) { n.refusedIn = "" })
		if m.Ref().Scope != "" {
			return nil
		}
		return m.saveAccount(ctx, scope)
	case asked.Scope == "" && code != cloud.TokenUsed: // of which an earlier request may have made the VM
		e.update(asked.OwnerID, func(n *memory) { n.refusedIn = scope })
	}
	if code != cloud.Denied && code != cloud.Invalid || m.Ref().State != "" || !e.hasRefused(asked.OwnerID, scope) {
		return nil
	}
	*m.Noted = ""
	if m.Ref().Scope == "" {
		return nil
	}
	return m.saveAccount(ctx, "")
}

// hasRefused reports whether every request of this process for a VM went to that account, and was definitely
// refused.
func (e *Engine) hasRefused(ownerID, scope string) bool {
	return scope != "" && e.memory(ownerID).refusedIn == scope
}

// Seen notes that the cloud has shown the machine's VM through the account of its class. That proves in
// which account the VM is, and is persisted with the next write where no exact record is.
func (e *Engine) Seen(ctx context.Context, m *Machine, found cloud.VM) {
	ref := m.Ref()
	if m.insteadOf != nil || !cloud.IsVague(ref.Scope) || ref.OwnerID == "" || found.OwnerID != ref.OwnerID {
		return
	}
	account, err := e.Account(ctx, m)
	if err != nil {
		return
	}
	if scope := scopeOf(ctx, account, m.Class); scope != "" && scope != ref.Scope {
		*m.Noted = scope
	}
}
