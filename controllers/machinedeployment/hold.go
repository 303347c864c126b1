package machinedeployment

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// waiting knows which deployments have been told that they wait for a set or a
// machine that is held. The zero value knows of none.
type waiting struct {
	mu   sync.Mutex
	told map[types.NamespacedName]bool
}

// begins notes that a deployment waits, and reports whether that is new.
func (w *waiting) begins(key types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		w.told = map[types.NamespacedName]bool{}
	}
	was := w.told[key]
	w.told[key] = true
	return !was
}

// ends notes that a deployment does not wait.
func (w *waiting) ends(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.told, key)
}

// waitForHold reports whether a set or a machine of the deployment is being moved to
// another door, or a set that it would adopt. Then nothing is rolled, scaled or
// changed, so that it does not matter in which order a pool is held and released.
func (s *scope) waitForHold() bool {
	s.heldObject = s.firstHeldObject()
	key := client.ObjectKeyFromObject(s.d)
	if s.heldObject == "" {
		s.waiting.ends(key)
		return false
	}
	if s.waiting.begins(key) {
		s.emitNormal(machinev1.EventHeld, "%s", s.heldMessage())
	}
	return true
}

// firstHeldObject names the first set or machine that is held; empty if none is.
func (s *scope) firstHeldObject() string {
	for _, o := range s.sets {
		if machinev1.Held(o.observed) {
			return "MachineSet " + o.observed.Name
		}
		for _, m := range o.machines {
			if machinev1.Held(m) {
				return "Machine " + m.Name
			}
		}
	}
	for _, orphan := range s.orphans {
		if s.selector != nil && s.selector.Matches(labels.Set(orphan.Labels)) && machinev1.Held(orphan) {
			return "MachineSet " + orphan.Name
		}
	}
	return ""
}

func (s *scope) heldMessage() string {
	return fmt.Sprintf("%s is held for a migration, and nothing is created, scaled or changed until annotation %s "+
		"is off it", s.heldObject, machinev1.MigrationHoldAnnotation)
}

// confirmNotHeld makes sure, before a set, a machine or a node is written, that the
// deployment is not held: a process that has just become the leader may have a
// cache from before a hold that another one answered.
func (s *scope) confirmNotHeld(ctx context.Context) error { return s.gate.Confirm(ctx, s.d) }
