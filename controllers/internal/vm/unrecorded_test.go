package vm

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// TestForgottenVMIsOfOwnClass: a former leader's request makes the VM between the look-ups with the
// owner's class and with another one. Both show the same account, so the class stays.
func TestForgottenVMIsOfOwnClass(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	o := env.object
	late := cloud.VM{ID: "vm-1", ProviderID: "sim:///sim-1/vm-1", OwnerID: "owner", State: cloud.StatePending}
	looks := 0
	own := o.class
	own.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: func(r cloud.Ref) (cloud.VM, error) {
			if looks++; looks == 1 {
				return notFound(r)
			}
			return late, nil
		}}, nil
	}
	other := elsewhere(o.class)
	other.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: func(cloud.Ref) (cloud.VM, error) { return late, nil }}, nil
	}
	o.class, o.others = own, []class.Resolved{other}
	found, ok, err := env.engine.findUnrecordedVM(t.Context(), o.machine())
	if err != nil || !ok || found.ID != late.ID {
		t.Fatalf("got VM %q, %v, %v, want %s", found.ID, ok, err, late.ID)
	}
	if len(o.steps) != 1 || o.steps[0] != "intent" {
		t.Errorf("recorded %v, want the intent with the owner's class", o.steps)
	}
}

// TestForgottenVMInAnyState: no second VM is asked for because the first one has failed, stopped or
// is on its way out. What a refused attempt may have left is its own business.
func TestForgottenVMInAnyState(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason     string
		state      cloud.State
		checkpoint string
		age        time.Duration
		want       string // "adopt", "wait" or "ask"
	}{
		"Running":        {"It serves.", cloud.StateRunning, "", 0, "adopt"},
		"Failed":         {"The machine fails, and its deletion removes the VM.", cloud.StateFailed, "", 0, "adopt"},
		"Stopped":        {"As one that has failed.", cloud.StateStopped, "", 0, "adopt"},
		"FailedAttempt":  {"The attempt of the checkpoint goes on.", cloud.StateFailed, "disk", time.Minute, "ask"},
		"StoppedAttempt": {"It was not started yet.", cloud.StateStopped, "disk", time.Minute, "ask"},
		"FailedOld":      {"It is older than any attempt that goes on.", cloud.StateFailed, "disk", adoptedAge, "adopt"},
		"Deleting":       {"Until it is gone the machine would have two.", cloud.StateDeleting, "", time.Hour, "wait"},
		"DeletingLeft":   {"The attempt is asked for again once it is gone.", cloud.StateDeleting, "disk", 0, "wait"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			o := env.object
			o.ref.State, o.others = tc.checkpoint, []class.Resolved{elsewhere(o.class)}
			found := cloud.VM{
				ID: "vm-1", ProviderID: "sim:///sim-1/vm-1", OwnerID: "owner", State: tc.state,
				Created: env.engine.clock.Now().Add(-tc.age),
			}
			o.class.Account = func(context.Context) (cloud.Account, error) {
				return &account{get: func(cloud.Ref) (cloud.VM, error) { return found, nil }}, nil
			}
			_, ok, err := env.engine.findUnrecordedVM(t.Context(), o.machine())
			got := "ask"
			switch {
			case cloud.CodeOf(err) == cloud.TokenUsed:
				got = "wait"
			case err != nil:
				t.Fatal(err)
			case ok:
				got = "adopt"
			}
			if got != tc.want {
				t.Errorf("it would %s, want %s: %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestRefusedLooksAreRepeated: a class whose credentials the cloud refuses may have made the VM, as before a
// restore of the API server. The others are used meanwhile, but nothing is asked for while the own one is
// refused, and the VM is found as soon as the credentials are back.
func TestRefusedLooksAreRepeated(t *testing.T) {
	t.Parallel()
	denied := cloud.Errorf(cloud.Denied, "get VM", "Unauthorized", "the key is not valid")
	there := cloud.VM{ID: "vm-1", ProviderID: "sim:///sim-1/vm-1", OwnerID: "owner", State: cloud.StateRunning}
	env := newLifeEnv(t)
	o := env.object
	var ownErr, otherErr error = denied, denied
	own, other := o.class, elsewhere(o.class)
	own.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: func(r cloud.Ref) (cloud.VM, error) {
			if ownErr != nil {
				return cloud.VM{}, ownErr
			}
			return notFound(r)
		}}, nil
	}
	other.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: func(cloud.Ref) (cloud.VM, error) { return there, otherErr }}, nil
	}
	o.class, o.others = own, []class.Resolved{other}
	look := func() (bool, error) {
		_, ok, err := env.engine.findUnrecordedVM(t.Context(), o.machine())
		return ok, err
	}
	if ok, err := look(); ok || cloud.CodeOf(err) != cloud.Denied {
		t.Errorf("all are refused: got %v, %v, want the refusal", ok, err)
	}
	ownErr = nil
	if ok, err := look(); ok || err != nil {
		t.Errorf("the other class is refused: got %v, %v, want to go on with the own one", ok, err)
	}
	otherErr = nil
	want := []string{"class " + other.Object.Name}
	if _, err := look(); cloud.CodeOf(err) != cloud.TokenUsed || !slices.Equal(o.steps, want) {
		t.Errorf("the credentials are back: got %v, recorded %v, want the class that shows the VM", err, o.steps)
	}
}

// TestAttemptThatARestoreTookBack: the second attempt made the VM, and a restore of the API server has lost its
// number. The cloud takes another VM of that name, and the key of the first attempt was never used.
func TestAttemptThatARestoreTookBack(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.object.attempt = 2
	made := env.create()
	env.Advance(time.Minute)
	env.engine = New(env.Clock, noFormerLeader, nil)
	env.object.attempt, env.object.ref.ProviderID = 1, ""
	again, err := env.engine.Ensure(t.Context(), env.object.machine())
	if err != nil || again.ID != made.ID {
		t.Errorf("got VM %q, %v, want %s", again.ID, err, made.ID)
	}
	if n := len(env.cloud.VMs()); n != 1 {
		t.Errorf("%d VMs, want 1", n)
	}
}
