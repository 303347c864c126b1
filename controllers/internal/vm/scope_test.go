package vm

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

const (
	demoScope      = "account demo, region sim-1"
	otherScopeName = "account other, region sim-1"
)

// exchange gives the class the credentials of another account, which has nothing.
func (env *lifeEnv) exchange(accountID string) {
	env.Helper()
	env.cloud.Change(func(s *sim.Settings) {
		s.Accounts = slices.DeleteFunc(s.Accounts, func(a sim.Tenant) bool { return a.ID == "other" })
		s.Accounts = append(s.Accounts, sim.Tenant{ID: "other", SecretKeys: []string{"demo-secret"}})
	})
	secret := &corev1.Secret{}
	secret.Name, secret.Namespace = "s", "n"
	env.Must(env.Raw.Get(env.Context(), client.ObjectKeyFromObject(secret), secret))
	secret.Data["accountID"] = []byte(accountID)
	env.Must(env.Raw.Update(env.Context(), secret))
	env.useClass(func(*machinev1.MachineClass) {})
}

// TestAnotherAccount exchanges the credentials of a class for those of another account while a machine
// has a VM: there the VM does not exist, which must not count as gone, and nothing may be made beside it.
func TestAnotherAccount(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reason string
		given  func(o *object)
	}{
		"Recorded": {"the machine knows its account", func(*object) {}},
		"OfBefore": {"the other machines of the class know it", func(o *object) {
			o.ref.Scope, o.scopes = "", []string{demoScope}
		}},
		"NoVMKnown": {"the request may have made a VM there", func(o *object) { o.ref.ProviderID = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			env.create()
			if env.object.ref.Scope != demoScope {
				t.Fatalf("recorded %q, want %q", env.object.ref.Scope, demoScope)
			}
			row.given(env.object)
			env.exchange("other")
			_, err := env.engine.Get(t.Context(), env.object.machine())
			env.denied(row.reason+": get", err)
			d, err := env.engine.Remove(t.Context(), env.object.machine())
			env.denied(row.reason+": remove", err)
			if d.Done {
				t.Errorf("%s: done in another account", row.reason)
			}
			_, err = env.engine.Ensure(t.Context(), env.object.machine())
			env.denied(row.reason+": ensure", err)
			if n := len(env.cloud.VMs()); n != 1 {
				t.Errorf("%s: %d VMs, want 1", row.reason, n)
			}
			env.exchange("demo")
			if _, err := env.engine.Get(t.Context(), env.object.machine()); err != nil {
				t.Errorf("%s: with its own credentials again: %v", row.reason, err)
			}
		})
	}
}

func (env *lifeEnv) denied(what string, err error) {
	env.Helper()
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Denied || e.Reason != cloud.ReasonWrongScope {
		env.Errorf("%s: got %v, want Denied %s", what, err, cloud.ReasonWrongScope)
	}
}

// TestNoVMInAnotherAccount has a new machine of a class whose other machines are in another account.
func TestNoVMInAnotherAccount(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.object.scopes = []string{"", otherScopeName}
	_, err := env.engine.Ensure(t.Context(), env.object.machine())
	env.denied("create", err)
	env.object.scopes = []string{otherScopeName, demoScope}
	env.Advance(scopeUseAge)
	if _, err := env.engine.Ensure(t.Context(), env.object.machine()); err != nil {
		t.Errorf("with one that is here: %v", err)
	}
}

// TestRefusedAccount has the first request for a VM refused by an account that was the wrong one: no VM is
// there, so that corrected credentials make it.
func TestRefusedAccount(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.exchange("other")
	undo := env.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultBefore, Code: sim.CodeAccessDenied, Count: 9})
	for range 2 {
		if _, err := env.engine.Ensure(t.Context(), env.object.machine()); cloud.CodeOf(err) != cloud.Denied {
			t.Fatalf("got %v, want Denied", err)
		}
		if got := env.object.ref.Scope; got != "" {
			t.Errorf("recorded %q, want nothing: the request was refused", got)
		}
	}
	undo()
	env.exchange("demo")
	if _, err := env.engine.Ensure(t.Context(), env.object.machine()); err != nil {
		t.Errorf("with the right credentials: %v", err)
	}
}

// TestUnansweredAccount has the answer to a request lost: where it was sent is recorded before anything
// else, since a VM may be there.
func TestUnansweredAccount(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultAfter, Count: 1})
	if _, err := env.engine.Ensure(t.Context(), env.object.machine()); !cloud.OutcomeUnknown(err) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	if env.object.ref.Scope != demoScope {
		t.Errorf("recorded %q, want %q", env.object.ref.Scope, demoScope)
	}
	env.exchange("other")
	_, err := env.engine.Remove(t.Context(), env.object.machine())
	env.denied("remove", err)
}

// TestFullAccount has the wrong account have no room in any zone: it is on
// record by then, with a zone, and corrected credentials find that there is no VM, and make it.
func TestFullAccount(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.exchange("other")
	env.in("sim-1a", "sim-1b")
	undo := env.cloud.AddFault(sim.Fault{
		Op: sim.OpCreateVM, Mode: sim.FaultBefore, Code: sim.CodeInsufficientCapacity, Count: 9,
	})
	if _, err := env.engine.Ensure(t.Context(), env.object.machine()); cloud.CodeOf(err) != cloud.Exhausted {
		t.Fatalf("got %v, want Exhausted", err)
	}
	undo()
	if env.object.ref.Scope != otherScopeName {
		t.Errorf("recorded %q, want the account that was asked, with the zone", env.object.ref.Scope)
	}
	env.exchange("demo")
	if _, err := env.engine.Get(t.Context(), env.object.machine()); cloud.CodeOf(err) != cloud.NotFound {
		t.Errorf("get with the right credentials: %v, want NotFound", err)
	}
	if _, err := env.engine.Ensure(t.Context(), env.object.machine()); err != nil {
		t.Errorf("with the right credentials: %v", err)
	}
}
