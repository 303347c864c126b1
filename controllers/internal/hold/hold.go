// Package hold keeps controllers from objects that are being moved to another
// group.
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
// object is brought into it by [Visits]. A new leader sees every hold that the
// former one answered, since it waits for its caches (fresh.CatchUp).
package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Deps are what a Gate needs; all are required.
type Deps struct {
	Client client.Client // writes the answer
	Clock  clock.PassiveClock
	Events record.EventRecorder
}

// Gate is what every pass over an object goes through. It is safe for
// concurrent use.
type Gate struct {
	Deps
}

// New returns a Gate that has seen nothing yet.
func New(d Deps) *Gate { return &Gate{d} }

// Answer reports whether o is left alone in this pass: because it is held, or
// because what an earlier hold left behind is taken off it first. A hold that
// has no answer yet gets it, once, with a write that fails on a stale o.
func (g *Gate) Answer(ctx context.Context, o client.Object) (closed bool, err error) {
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
			"Reconciliation paused by annotation %s: no operation on this object, its VM or its Node is in progress",
			machinev1.MigrationHoldAnnotation)
	}
	return true, nil
}

func (g *Gate) answer(o client.Object) {
	all := o.GetAnnotations()
	all[machinev1.MigrationHeldAnnotation] = all[machinev1.MigrationHoldAnnotation]
	all[machinev1.MigrationHeldSinceAnnotation] = g.Clock.Now().UTC().Format(time.RFC3339)
}

// Behind is the error of a pass that learned from the API server that an object
// is held which the cache does not show as held. It is a conflict: the next pass
// sees the hold.
func Behind(name string) error {
	return apierrors.NewConflict(machinev1.GroupVersion.WithResource("machines").GroupResource(), name,
		errors.New("it is held for a migration"))
}
