// Package hold keeps controllers from objects that are being moved to another
// door.
//
// Somebody who moves a Machine, a MachineSet or a MachineDeployment puts a hold
// on it. Its controller answers with the value of the hold, and does nothing
// about it from then on:
//
//	            hold                    answer
//	released ─────────▶ being stopped ─────────▶ held
//	   ▲                                          │
//	   └──────────────────────────────────────────┘
//	                hold and answer go
//
// An object has one worker at a time, so the answer proves that no pass which
// began earlier is still going on. What other controllers do about the same
// object is brought into it by [Visits], and that a process which has just
// become the leader does not act on what its cache showed before the hold by
// [Gate.Confirm].
package hold

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Deps are what a Gate needs; all are required.
type Deps struct {
	Client client.Client // writes the answer
	Live   client.Reader // reads from the API server
	Clock  clock.PassiveClock
	Events record.EventRecorder
}

// Gate is what every pass over an object goes through. It is safe for
// concurrent use.
type Gate struct {
	Deps

	mu        sync.Mutex
	since     time.Time // of the first pass: then this process was the leader
	confirmed map[confirmation]types.UID
}

// skew is how far the clocks of this process and of the API server may be apart.
const skew = time.Minute

// confirmation is what was looked up on the API server.
type confirmation struct {
	kind reflect.Type
	key  types.NamespacedName
}

// New returns a Gate that has seen nothing yet.
func New(d Deps) *Gate { return &Gate{Deps: d, confirmed: map[confirmation]types.UID{}} }

// Answer reports whether o is left alone in this pass: because it is held, or
// because what an earlier hold left behind is taken off it first. A hold that
// has no answer yet gets it, once, with a write that fails on a stale o.
func (g *Gate) Answer(ctx context.Context, o client.Object) (closed bool, err error) {
	g.begin()
	if machinev1.HoldAnswered(o) {
		return true, nil
	}
	changed, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return true, fmt.Errorf("%T is no object of an API", o)
	}
	held := machinev1.Held(o)
	if held {
		g.answer(changed)
	} else if !machinev1.DropHold(changed) {
		return false, nil
	}
	if err := g.Client.Patch(ctx, changed, client.MergeFromWithOptions(o,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return true, client.IgnoreNotFound(fmt.Errorf("answer the hold of %s: %w", o.GetName(), err))
	}
	if held {
		g.Events.Eventf(changed, corev1.EventTypeNormal, machinev1.EventHeld,
			"Left alone, and all that belongs to it, as annotation %s asks: nothing that was begun is still going on",
			machinev1.MigrationHoldAnnotation)
	}
	return true, nil
}

func (g *Gate) answer(o client.Object) {
	all := o.GetAnnotations()
	all[machinev1.MigrationHeldAnnotation] = all[machinev1.MigrationHoldAnnotation]
	all[machinev1.MigrationHeldSinceAnnotation] = g.Clock.Now().UTC().Format(time.RFC3339)
}

// begin notes when the first pass was.
func (g *Gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since.IsZero() {
		g.since = g.Clock.Now()
	}
}

// Confirm asks the API server whether o is held, before the first thing that
// cannot be taken back: once in the life of this process, and only about objects
// that are older than its time as the leader. A hold that comes later is answered
// by this process, which has seen it then. It fails with a conflict if o is held;
// the cache shows it soon.
func (g *Gate) Confirm(ctx context.Context, o client.Object) error {
	id := confirmation{reflect.TypeOf(o), client.ObjectKeyFromObject(o)}
	if g.isConfirmed(id, o) {
		return nil
	}
	live, ok := reflect.TypeAssert[client.Object](reflect.New(id.kind.Elem()))
	if !ok {
		return fmt.Errorf("%T is no object of an API", o)
	}
	err := g.Live.Get(ctx, id.key, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %s on the API server: %w", o.GetName(), err)
	}
	if err == nil && live.GetUID() == o.GetUID() && machinev1.Held(live) {
		return Behind(o.GetName())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.confirmed[id] = o.GetUID()
	return nil
}

func (g *Gate) isConfirmed(id confirmation, o client.Object) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.since.IsZero() && o.GetCreationTimestamp().After(g.since.Add(skew)) {
		return true
	}
	return g.confirmed[id] == o.GetUID() && o.GetUID() != ""
}

// Forget drops what is known of an object that is gone. o says its kind only.
func (g *Gate) Forget(o client.Object, key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.confirmed, confirmation{reflect.TypeOf(o), key})
}

// Behind is the error of a pass that learned from the API server that an object
// is held which the cache does not show as held. It is a conflict: the next pass
// sees the hold.
func Behind(name string) error {
	return apierrors.NewConflict(machinev1.GroupVersion.WithResource("machines").GroupResource(), name,
		errors.New("it is held for a migration"))
}
