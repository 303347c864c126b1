package machineset

import "testing"

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
