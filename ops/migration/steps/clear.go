package steps

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
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// clearOldSide removes what the old side has left, after it has been written to
// the record as a backup.
func (e *Engine) clearOldSide(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	old := m.To.Other()
	if m.BackedUp != m.Hold {
		packed, err := backup(s, old)
		if err != nil {
			return "", err
		}
		m.backup, m.BackedUp = packed, m.Hold
		return "", e.enter(ctx, m, s, migration.PhaseFinishing)
	}
	if m.Phase == migration.PhaseMoved {
		return "", e.enter(ctx, m, s, migration.PhaseFinishing)
	}
	for _, tier := range s.Tiers(old) {
		if missing, err := e.pause(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return pausePending(old, missing), err
		}
	}
	if waiting := unprotected(s, m.To); waiting != "" {
		return waiting, nil
	}
	left := remains(s, old)
	if len(left) == 0 {
		return "", e.enter(ctx, m, s, migration.PhaseFinished)
	}
	return "", e.remove(ctx, left)
}

// unprotected says which class the new side does not hold on to yet. The old side's
// finalizer goes with its last machine, and without a class no VM can be deleted.
func unprotected(s *migration.PoolState, to migration.API) string {
	finalizer := machinev1.Finalizer
	if to == migration.ClusterAPI {
		finalizer = machinev1.InUseFinalizer
	}
	for _, name := range objects.Keys(s.Native.Classes) {
		class := s.Native.Classes[name]
		if uses(s, to, name) && !slices.Contains(class.Finalizers, finalizer) {
			return fmt.Sprintf("MachineClass %s has no finalizer %s yet, which the controllers of %s put there; do "+
				"they run?", name, finalizer, to.Title())
		}
	}
	return ""
}

// uses reports whether a machine of that API is of a class.
func uses(s *migration.PoolState, d migration.API, class string) bool {
	if d == migration.Native {
		return slices.ContainsFunc(s.Native.Machines, func(m machinev1.Machine) bool { return m.Spec.Class.Name == class })
	}
	return slices.ContainsFunc(s.ClusterAPI.MCMMachines, func(m infrav1.MCMMachine) bool {
		return m.Spec.MachineClassRef.Name == class
	})
}

// remains are the objects of an API in the order in which they are removed: what
// is owned goes before its owner, so that nothing is collected with it.
func remains(s *migration.PoolState, d migration.API) []client.Object {
	var out []client.Object
	if d == migration.ClusterAPI {
		if check := s.OwnCheck(); check != nil {
			out = append(out, check)
		}
		out = append(out, objects.Pointers(s.ClusterAPI.MCMMachines)...)
		out = append(out, objects.Pointers(s.ClusterAPI.BootstrapSecrets)...)
	}
	out = append(out, s.Tiers(d)[2]...)
	out = append(out, s.Tiers(d)[1]...)
	out = append(out, s.Tiers(d)[0]...)
	if d == migration.ClusterAPI {
		out = append(out, objects.Pointers(s.ClusterAPI.MachineTemplates)...)
		out = append(out, objects.Pointers(s.ClusterAPI.ConfigTemplates)...)
	}
	return out
}

// backup writes what an API has of a pool, without secrets, as JSON in gzip.
func backup(s *migration.PoolState, d migration.API) ([]byte, error) {
	var objects any = s.Native
	if d == migration.ClusterAPI {
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
