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

// waits reports whether a set or a machine of the deployment is being moved to
// another door, or a set that it would adopt. Then nothing is rolled, scaled or
// changed, so that it does not matter in which order a pool is held and released.
func (p *pass) waits() bool {
	p.held = p.firstHeld()
	key := client.ObjectKeyFromObject(p.d)
	if p.held == "" {
		p.waiting.ends(key)
		return false
	}
	if p.waiting.begins(key) {
		p.normal(machinev1.EventHeld, "%s", p.heldText())
	}
	return true
}

// firstHeld names the first set or machine that is held; empty if none is.
func (p *pass) firstHeld() string {
	for _, o := range p.pools {
		if machinev1.Held(o.seen) {
			return "MachineSet " + o.seen.Name
		}
		for _, m := range o.machines {
			if machinev1.Held(m) {
				return "Machine " + m.Name
			}
		}
	}
	for _, orphan := range p.orphans {
		if p.selector != nil && p.selector.Matches(labels.Set(orphan.Labels)) && machinev1.Held(orphan) {
			return "MachineSet " + orphan.Name
		}
	}
	return ""
}

func (p *pass) heldText() string {
	return fmt.Sprintf("%s is held for a migration, and nothing is created, scaled or changed until annotation %s "+
		"is off it", p.held, machinev1.MigrationHoldAnnotation)
}

// released makes sure, before a set, a machine or a node is written, that the
// deployment is not held: a process that has just become the leader may have a
// cache from before a hold that another one answered.
func (p *pass) released(ctx context.Context) error { return p.gate.Confirm(ctx, p.d) }
