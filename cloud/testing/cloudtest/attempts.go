package cloudtest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Scarcity is a kind of capacity that a cloud can be out of while it has all others (C44, C46).
type Scarcity struct {
	Class cloud.ClassInput // whose VMs there are none of
	Zone  string           // that its machine wants; empty leaves it to the class

	// SellOut makes the cloud refuse them until restore is called.
	SellOut func(t testing.TB) (restore func())

	// Free is a class whose VMs there are still, and FreeZone the zone that its machine wants. They differ from Class
	// and Zone in the scarce kind alone; for a zone the classes are the same.
	Free     cloud.ClassInput
	FreeZone string // empty leaves it to Free, which has a name of its own then
}

// scopes are the kinds of capacity that run out apart.
func scopes() []string { return []string{"Spot", "Regular", "Zone", "Group", "Accelerators"} }

// scarceKinds is C46: a shortage of one kind of capacity is remembered as one of that kind alone.
func scarceKinds(k *kit) {
	for _, scope := range scopes() {
		k.part(scope, func(k *kit) {
			k.renew()
			s, there := k.f.Scarce[scope]
			k.needs(there && k.f.Memory != nil, "Fixture.Scarce["+scope+"] or Fixture.Memory")
			k.f.Wrap = append(k.f.Wrap, k.f.Memory)
			before, a := k.ledger(), k.account()
			short, free := k.machine(), k.machine()
			restore := k.runOut(a, short, s)
			defer restore()
			free.ref.Class, free.zone = k.other(s), s.FreeZone
			vm, err := free.patiently(a)
			if err != nil {
				k.Errorf("create while another kind of capacity is sold out: got %v, want a VM", err)
			}
			if s.FreeZone != "" && vm.Zone != s.FreeZone {
				k.Errorf("create in zone %s: got a VM in %q", s.FreeZone, vm.Zone)
			}
			free.delete(a)
			short.delete(a)
			k.same(before)
		})
	}
}

// other is the class of which there is capacity still: one of another name, unless only the zone differs.
func (k *kit) other(s Scarcity) cloud.Class {
	k.Helper()
	in := copyInput(s.Free)
	if s.FreeZone == "" {
		in.Name = "free"
	}
	return k.parse(k.f.Driver(), in)
}

// runOut lets a kind of capacity run out, and the creation of m be refused for it.
func (k *kit) runOut(a cloud.Account, m *machine, s Scarcity) (restore func()) {
	k.Helper()
	m.ref.Class, m.zone = k.parse(k.f.Driver(), s.Class), s.Zone
	restore = s.SellOut(k.T)
	if _, err := m.patiently(a); cloud.CodeOf(err) != cloud.Exhausted {
		k.Fatalf("create of what is sold out: got %v, want Exhausted", err)
	}
	return restore
}

// patiently calls Create until it is finished or refused; errors that pass are borne.
func (m *machine) patiently(a cloud.Account) (vm cloud.VM, err error) {
	m.k.Helper()
	m.k.until("an answer to create "+m.ref.Name, func() (bool, error) {
		vm, err = m.attempt(a)
		return err == nil || !passes(err), nil
	})
	return vm, err
}

// leftOver is C44: what is left of an earlier attempt, or has the name that a part is to get, is no obstacle for ever.
func leftOver(k *kit) {
	k.part("OtherZone", func(k *kit) {
		k.renew()
		s, there := k.f.Scarce["Zone"]
		k.needs(there, "Fixture.Scarce[Zone]")
		before, m, a := k.ledger(), k.machine(), k.account()
		m.records = true
		defer k.runOut(a, m, s)()
		m.ref.Class, m.zone, m.token = k.other(s), s.FreeZone, randomID()
		was, is := cmp.Or(s.Zone, k.parse(k.f.Driver(), s.Class).Zone), cmp.Or(s.FreeZone, m.ref.Class.Zone)
		if vm := m.running(a); vm.Zone != is {
			k.Errorf("create in zone %s after a refusal in %s: got a VM in %q", is, was, vm.Zone)
		}
		k.whole(before, m, a)
	})
	k.part("Failed", func(k *kit) {
		k.renew()
		k.needs(k.f.Backend.FailPart != nil, "Backend.FailPart")
		before, m, a := k.ledger(), k.machine(), k.account()
		k.f.Backend.FailPart(k.T)
		m.attempts(a)
		m.running(a)
		k.whole(before, m, a)
	})
	k.part("Name", nameTaken)
}

// attempts creates the VM of m as the engine does: after an answer that ends an attempt, a new one begins.
func (m *machine) attempts(a cloud.Account) {
	m.k.Helper()
	m.k.until("create "+m.ref.Name+" in some attempt", func() (bool, error) {
		_, err := m.attempt(a)
		if code := cloud.CodeOf(err); code == cloud.TokenUsed || code == cloud.Exhausted {
			m.token = randomID()
		}
		if err != nil {
			m.k.Logf("attempt: %v", err)
		}
		return err == nil, nil
	})
}

// whole fails unless m has one VM, which goes without a trace.
func (k *kit) whole(before []cloud.Resource, m *machine, a *guard) {
	k.Helper()
	m.only()
	m.delete(a)
	k.same(before)
}

// nameTaken lets somebody else have the names of what is to be made: nothing of theirs is taken or changed, and the
// error names what is in the way, until it has gone.
func nameTaken(k *kit) {
	k.renew()
	k.needs(k.f.Backend.Occupy != nil, "Backend.Occupy")
	before, m, a := k.ledger(), k.machine(), k.account()
	free := k.f.Backend.Occupy(k.T, m.ref.Name)
	theirs := k.ledger()
	for range 3 { // the engine tries again
		vm, err := m.attempt(a)
		switch {
		case err == nil && slices.ContainsFunc(theirs, func(r cloud.Resource) bool { return r.ID == vm.ID }):
			k.Errorf("create takes the VM of somebody else: %+v", vm)
		case err != nil && !strings.Contains(err.Error(), m.ref.Name):
			k.Errorf("create while its names are taken: got %v, want an error that names %s", err, m.ref.Name)
		}
		k.pass(time.Minute)
	}
	if d, err := a.Delete(k.Context(), m.now()); err != nil {
		k.Errorf("delete while its names are taken: got %+v, %v", d, err)
	}
	has := keys(k.ledger())
	for _, r := range theirs {
		if !has[key(r)] {
			k.Errorf("what somebody else has is gone: %s", key(r))
		}
	}
	free()
	m.attempts(a)
	m.running(a)
	k.whole(before, m, a)
}

// lasting is C49: an answer that passes by itself leaves no trace once it has passed, and one that a person has to mend
// stays one until then, and ends with it.
func lasting(k *kit) {
	for _, row := range k.h.Errors {
		if row.Op != "create" {
			continue
		}
		name := "Person_"
		if passes(&cloud.Error{Code: row.Code}) || row.Code == cloud.Exhausted || row.Code == cloud.TokenUsed {
			name = "Time_"
		}
		k.part(name+strings.ReplaceAll(row.Name, "/", "_"), func(k *kit) {
			k.renew()
			before, m, a := k.ledger(), k.machine(), k.account()
			match := row.Match
			if match == nil {
				match = Mutating
			}
			answer := k.proxy.Inject(Fault{Kind: Answer, Match: match, Times: Forever, Reply: row.Reply})
			for range 2 {
				if _, err := m.attempt(a); cloud.CodeOf(err) != row.Code {
					k.Errorf("create while the cloud answers so: got %v, want %v each time", err, row.Code)
				}
				k.pass(row.After)
			}
			answer.Undo()
			m.token = randomID() // the engine begins a new attempt at the latest when the class changes
			m.attempts(a)
			m.running(a)
			k.whole(before, m, a)
		})
	}
}

// parts are what a VM may still lack after the cloud has accepted it.
func parts() []string { return []string{"Network", "Disk", "Import"} }

// unfinished is C45: a VM that lacks a part is waited for, and is finished once it has come.
func unfinished(k *kit) {
	for _, what := range parts() {
		k.part(what, func(k *kit) {
			k.renew()
			hold := k.f.Backend.Late[what]
			k.needs(hold != nil, "Backend.Late["+what+"]")
			before, m, a := k.ledger(), k.machine(), k.account()
			arrive := hold(k.T)
			var passed time.Duration
			for passed < lateness {
				vm, err := a.Create(k.Context(), m.request())
				if err != nil && !passes(err) || err == nil && vm.RetryAfter == 0 {
					k.Fatalf("create %v after the request, without its %s: got %+v, %v, want a wait", passed,
						strings.ToLower(what), vm, err)
				}
				if vm, _ := a.Get(k.Context(), m.now()); what == "Network" && reachable(vm) {
					k.Errorf("get a VM without its network: it has the addresses %v, want no InternalIP", vm.Addresses)
				}
				k.pass(time.Minute)
				passed += time.Minute
			}
			arrive()
			vm := m.running(a)
			if what == "Network" && !reachable(vm) {
				k.Errorf("a VM whose network has come has no InternalIP: %v", vm.Addresses)
			}
			k.whole(before, m, a)
		})
	}
}

// reachable reports whether a VM has an address in its networks.
func reachable(vm cloud.VM) bool {
	return slices.ContainsFunc(vm.Addresses, func(x cloud.Address) bool { return x.Kind == "InternalIP" })
}

// lateness is how long a part of a VM does not come in C45.
const lateness = 10 * time.Minute
