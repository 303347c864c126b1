package vm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// offer is what the machine asks the cloud for.
func (m *Machine) offer() fallback.Offer {
	return fallback.OfferOf(m.Class, m.Object.GetNamespace(), m.ClassName, m.Request.Zone)
}

// FallBack records with which class of its pool the machine goes on after the cloud has refused its present one, if
// there is one: then SwitchClass follows. message says so, or else why the others of the pool are not used; empty:
// there are none. A machine that has its VM, and a failure after which no other class would serve, changes nothing.
func (e *Engine) FallBack(ctx context.Context, m *Machine, failure error) (message string, goesOn bool, err error) {
	if m.State.ProviderID != "" || !outcome.IsCloud(failure) {
		return "", false, nil
	}
	pool, err := m.Pool(ctx)
	if err != nil {
		return "", false, err
	}
	names := make([]string, len(pool))
	for i := range pool {
		names[i] = pool[i].Name
	}
	refusal := fallback.Refusal(failure, names, m.ClassName)
	if refusal == nil {
		return "", false, nil
	}
	next, ok := e.fallback.Leave(m.offer(), refusal, pool, m.Ref().OwnerID, m.ClassName)
	if !ok {
		return e.fallback.Describe(pool, m.ClassName), false, nil
	}
	if err := m.save(ctx, func(s *State) { s.NextClass = next.Name }); err != nil {
		return "", false, fmt.Errorf("record next class %s: %w", next.Name, err)
	}
	m.Emit(corev1.EventTypeNormal, machinev1.EventClassFallback, fallback.LeaveMessage(m.ClassName, next.Name, refusal))
	return fallback.SwitchMessage(m.ClassName, next.Name), true, nil
}

// SwitchClass gives the machine the class to once nothing is left of the VM that was asked for from its present one,
// believed as in a deletion: a token means nothing in another account. Done means that the machine goes on: with the
// other class, or with its own, where keeps is set and a VM of that runs after all, as after a restore of the API
// server. One write changes class and attempt, so that the class on record is always that of whatever was asked for.
//
//nolint:revive // keeps is a fact about the class, not a mode
func (e *Engine) SwitchClass(ctx context.Context, m *Machine, to string, keeps bool) (Upkeep, error) {
	done := Upkeep{Done: true, RetryAfter: time.Millisecond}
	if to != m.State.Class {
		if keeps {
			adopted, err := e.adopt(ctx, m)
			if err != nil {
				return Upkeep{}, err
			}
			if adopted {
				return done, m.save(ctx, func(s *State) { s.NextClass = "" })
			}
		}
		if left, err := e.Delete(ctx, m); err != nil || !left.Done {
			return left, err
		}
	}
	*m.Noted = "" // what follows is asked for in the place of the next class
	return done, m.save(ctx, func(s *State) {
		s.Class, s.Attempt, s.Foreign = to, s.Attempt+1, false
		s.NextClass, s.Zone, s.Account, s.Checkpoint = "", "", "", ""
	})
}
