package machineset

import (
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestMemoryOfASuccessor(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	first := env.c.memoryOf(newSet(1))
	if env.c.memoryOf(newSet(1)) != first {
		t.Error("a set is remembered")
	}
	second := newSet(1)
	second.UID = "second"
	if env.c.memoryOf(second) == first {
		t.Error("another set of the same name is not remembered")
	}
	if _, err := env.reconcile(); err != nil || len(env.c.memories) != 0 {
		t.Errorf("a set that is gone is forgotten: %v", err)
	}
}

// A request to create a Machine that got no answer may arrive a minute later. The
// name of the Machine stays reserved meanwhile, also where the next reservation,
// for another Machine, was not written: the Machine could be created once more
// after it was deleted.
func TestLostReservationKeepsEarlierOnes(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1))
	var failing string
	env.Fault = func(r harness.Request) error {
		if verbOf(r) == failing {
			failing = ""
			return errBoom
		}
		return nil
	}
	fail := func(verb string) {
		failing = verb
		if _, err := env.reconcile(); err == nil || failing != "" {
			t.Fatalf("a failed %s: got error %v", verb, err)
		}
	}
	fail("create")
	env.settle()
	env.Delete(env.machines()[0])
	fail("patch")
	env.settle()
	if got, want := env.set().Annotations[machinev1.OrdinalsAnnotation], "next=2,open=0"; got != want {
		t.Errorf("got record %q, want %q", got, want)
	}
	env.Advance(fence.Reach)
	env.settle()
	if got, want := env.set().Annotations[machinev1.OrdinalsAnnotation], "next=2"; got != want {
		t.Errorf("once no request can arrive: got record %q, want %q", got, want)
	}
}
