package cloudtest

import (
	"errors"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// scoped opens an account that is compared with what machines record, as the manager opens it. A nil
// class is that of the fixture.
func (k *kit) scoped(creds cloud.Credentials, in *cloud.ClassInput) *guard {
	k.Helper()
	if in == nil {
		in = &k.f.Class
	}
	a, err := k.openFor(*in, creds)
	if err != nil {
		k.Fatalf("open: %v", err)
	}
	a.next = k.f.Another.Scopes(cloud.AccountInfo{}, a.next)
	return a
}

// scope is what an account calls itself, which has to be something, and no secret.
func (k *kit) scope(a *guard, c cloud.Class) string {
	k.Helper()
	scope, err := cloud.Scope(k.Context(), a.next, c)
	if err != nil || scope == "" || scope == cloud.VagueScope("") {
		k.Fatalf("the account names no scope: got %q, %v", scope, err)
	}
	a.checkText("scope", scope)
	return scope
}

// otherAccount is C43: credentials of another account say that a VM is gone, and must not be believed.
func otherAccount(k *kit) {
	k.needs(k.f.Another.Credentials != nil && k.f.Another.Scopes != nil, "Fixture.Another")
	before, m, a := k.ledger(), k.machine(), k.scoped(k.f.Credentials, nil)
	vm := m.running(a)
	recorded := k.scope(a, k.class)
	if again := k.scope(k.scoped(k.f.Credentials, nil), k.class); again != recorded {
		k.Errorf("the scope of one account was %q and is %q", recorded, again)
	}
	there := k.scoped(k.f.Another.Credentials, k.f.Another.Class)
	class := k.class
	if k.f.Another.Class != nil {
		class = k.parse(k.f.Driver(), *k.f.Another.Class)
	}
	if other := k.scope(there, class); other == recorded {
		k.Errorf("two accounts have the scope %q", other)
	}
	with := k.ledger()
	for what, change := range map[string]func(r *cloud.Ref){
		"by providerID": func(*cloud.Ref) {},
		"by the providerID of the Node": func(r *cloud.Ref) {
			if vm.NodeProviderID != "" {
				r.ProviderID = vm.NodeProviderID
			}
		},
		"by name": func(r *cloud.Ref) { r.ProviderID = "" },
	} {
		ref := m.now()
		ref.Scope, ref.Class = recorded, class
		change(&ref)
		k.nothingBelieved(what, there, m, ref)
	}
	for _, id := range k.f.Another.InProviderID {
		ref := m.now()
		ref.Class, ref.ProviderID = class, map[string]string{"mcm": vm.ProviderID, "node": vm.NodeProviderID}[id]
		k.nothingBelieved("by the providerID of "+id+" alone", there, m, ref)
	}
	k.same(with)
	if got, err := k.scoped(k.f.Credentials, nil).Get(k.Context(), m.recorded(recorded)); err != nil || got.ID != vm.ID {
		k.Errorf("with its own credentials again: got %q, %v, want %q", got.ID, err, vm.ID)
	}
	m.ref = m.recorded(recorded)
	m.delete(k.scoped(k.f.Credentials, nil))
	k.same(before)
}

// recorded is the ref of a machine that records where its VM is.
func (m *machine) recorded(scope string) cloud.Ref {
	r := m.now()
	r.Scope = scope
	return r
}

// nothingBelieved fails unless another account is refused, and not even asked for a change.
func (k *kit) nothingBelieved(what string, there *guard, m *machine, ref cloud.Ref) {
	k.Helper()
	n := k.mutations(func() {
		_, err := there.Get(k.Context(), ref)
		k.refused(what+": get", err)
		d, err := there.Delete(k.Context(), ref)
		k.refused(what+": delete", err)
		if d.Done {
			k.Errorf("%s: delete is done in another account", what)
		}
		if ref.Scope == "" {
			return
		}
		request := m.request()
		request.Ref = ref
		_, err = there.Create(k.Context(), request)
		k.refused(what+": create", err)
	})
	if n > 0 {
		k.Errorf("%s: %d mutating calls in another account, want none", what, n)
	}
}

// refused fails unless err says which account is wanted.
func (k *kit) refused(what string, err error) {
	k.Helper()
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Denied || e.Reason != cloud.ReasonWrongScope && e.Reason != cloud.ReasonUnprovenScope {
		k.Errorf("%s: got %v, want Denied for the wrong scope", what, err)
	}
}
