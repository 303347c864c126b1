package migration

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// clearOldSide removes what the old side has left, after it has been written to
// the record as a backup.
func (e *Engine) clearOldSide(ctx context.Context, m *move, s *Scene) (string, error) {
	old := m.To.Other()
	if m.BackedUp != m.Hold {
		packed, err := pack(s, old)
		if err != nil {
			return "", err
		}
		m.backup, m.BackedUp = packed, m.Hold
		return "", e.enter(ctx, m, s, PhaseFinishing)
	}
	if m.Phase == PhaseMoved {
		return "", e.enter(ctx, m, s, PhaseFinishing)
	}
	for _, tier := range s.tiers(old) {
		if missing, err := e.rest(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return resting(old, missing), err
		}
	}
	if waiting := s.unprotected(m.To); waiting != "" {
		return waiting, nil
	}
	left := s.remains(old)
	if len(left) == 0 {
		return "", e.enter(ctx, m, s, PhaseFinished)
	}
	return "", e.drop(ctx, left)
}

// unprotected says which class the new side does not hold on to yet. The old side's
// finalizer goes with its last machine, and without a class no VM can be deleted.
func (s *Scene) unprotected(to Door) string {
	finalizer := machinev1.Finalizer
	if to == DoorClusterAPI {
		finalizer = machinev1.InUseFinalizer
	}
	for _, name := range sortedNames(s.Native.Classes) {
		class := s.Native.Classes[name]
		if s.uses(to, name) && !slices.Contains(class.Finalizers, finalizer) {
			return fmt.Sprintf("MachineClass %s has no finalizer %s yet, which the controllers of the %s door put there; do "+
				"they run?", name, finalizer, to)
		}
	}
	return ""
}

// uses reports whether a machine of that door is of a class.
func (s *Scene) uses(d Door, class string) bool {
	if d == DoorNative {
		return slices.ContainsFunc(s.Native.Machines, func(m machinev1.Machine) bool { return m.Spec.Class.Name == class })
	}
	return slices.ContainsFunc(s.ClusterAPI.MCMMachines, func(m infrav1.MCMMachine) bool {
		return m.Spec.MachineClassRef.Name == class
	})
}

// remains are the objects of a door in the order in which they are removed: what
// is owned goes before its owner, so that nothing is collected with it.
func (s *Scene) remains(d Door) []client.Object {
	var out []client.Object
	if d == DoorClusterAPI {
		if check := s.ownCheck(); check != nil {
			out = append(out, check)
		}
		out = append(out, pointers(s.ClusterAPI.MCMMachines)...)
		out = append(out, pointers(s.ClusterAPI.BootstrapSecrets)...)
	}
	out = append(out, s.tiers(d)[2]...)
	out = append(out, s.tiers(d)[1]...)
	out = append(out, s.tiers(d)[0]...)
	if d == DoorClusterAPI {
		out = append(out, pointers(s.ClusterAPI.MachineTemplates)...)
		out = append(out, pointers(s.ClusterAPI.ConfigTemplates)...)
	}
	return out
}

// pack writes what a door has of a pool, without secrets, as JSON in gzip.
func pack(s *Scene, d Door) ([]byte, error) {
	var objects any = s.Native
	if d == DoorClusterAPI {
		c := s.ClusterAPI
		c.BootstrapSecrets = nil
		objects = c
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if err := json.NewEncoder(w).Encode(objects); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	return out.Bytes(), nil
}
