package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Reached reports whether the phase is goal or a later one.
func (r *Record) Reached(goal Phase) bool { return r.Phase.rank() >= goal.rank() }

func (p Phase) rank() int {
	for i, known := range []Phase{PhaseHolding, PhaseCopying, PhaseSwitching, PhaseMoved, PhaseFinishing, PhaseFinished} {
		if p == known {
			return i
		}
	}
	return -1
}

// Phase is how far a move is.
type Phase string

// The phases, in their order. Which API is authoritative follows from them, see [Record.Authority].
const (
	PhaseHolding   Phase = "Holding"   // the old side is being told to stop
	PhaseCopying   Phase = "Copying"   // the old side has stopped, the new one is being written, paused
	PhaseSwitching Phase = "Switching" // the new side is the truth, and being started
	PhaseMoved     Phase = "Moved"     // the new side works, the old one is held
	PhaseFinishing Phase = "Finishing" // what the old side left is being removed
	PhaseFinished  Phase = "Finished"  // nothing of the old side is left but its backup
)

// Record is the state of one pool's move. It lives in a ConfigMap beside the
// pool, so that anybody can go on anywhere.
type Record struct {
	Pool    Pool   `json:"pool"`
	To      API    `json:"to"`   // where this move goes
	Origin  API    `json:"home"` // where the pool was before the first move that is not finished; a rollback goes there
	Phase   Phase  `json:"phase"`
	Cluster string `json:"cluster"`
	// Hold is the value of this move's holds, new for each move.
	Hold    string    `json:"hold"`
	Started time.Time `json:"started"`
	Changed time.Time `json:"changed"` // when the phase did last
	// Waiting says what the phase waits for, as it was last seen; empty: nothing.
	Waiting string `json:"waiting,omitempty"`
	// Bounds are the autoscaler's bounds, taken off the old side while the pool is
	// between APIs, by annotation of the native side.
	Bounds map[string]string `json:"bounds,omitempty"`
	// Generation is that of the old side's head when it was copied.
	Generation int64 `json:"generation,omitempty"`
	// BackedUp is the Hold of the move whose old side the ConfigMap has a backup of.
	BackedUp string `json:"backedUp,omitempty"`
	// NoHealthCheck is true when the pool had no MachineHealthCheck on Cluster API, its origin,
	// so that it gets none when it comes back.
	NoHealthCheck bool `json:"unchecked,omitempty"`
	// Options of the move that a successor needs.
	KubeconfigSecret string   `json:"kubeconfigSecret,omitempty"`
	Accept           []string `json:"accept,omitempty"`
	Defaults         Defaults `json:"defaults,omitzero"`
	// Holder is the command, as its Lease names it, that worked on the pool last.
	Holder string `json:"holder,omitempty"`
}

// Authority is the API whose objects say what machines there are to be.
func (r *Record) Authority() API {
	if r.Phase == PhaseHolding || r.Phase == PhaseCopying {
		return r.To.Other()
	}
	return r.To
}

// Keys of the ConfigMap that holds a Record.
const (
	RecordKey = "record.json"
	BackupKey = "backup.json.gz"
)

// RecordName is the name of the ConfigMap of a pool.
func RecordName(p Pool) string { return "mcm-migration-" + string(p.Kind) + "-" + p.Name }

// DecodeRecord reads the Record that a ConfigMap holds.
func DecodeRecord(object *corev1.ConfigMap) (Record, error) {
	var r Record
	if err := json.Unmarshal([]byte(object.Data[RecordKey]), &r); err != nil {
		return r, fmt.Errorf("ConfigMap %s/%s data[%s]: %w; it says how far a migration is: restore it, nothing is done "+
			"without it",
			object.Namespace, object.Name, RecordKey, err)
	}
	return r, nil
}

// Records returns the records of all pools of a namespace, empty is all
// namespaces, in the order of their names. What cannot be read is an error.
func Records(ctx context.Context, c client.Reader, namespace string) ([]Record, error) {
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{machinev1.MigrationLabel}); err != nil {
		return nil, fmt.Errorf("list the records of migrations: %w", err)
	}
	var out []Record
	for i := range list.Items {
		r, err := DecodeRecord(&list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// cluster is the Cluster of a move that is not finished.
func (r *Record) cluster() string {
	if r == nil || r.Phase == PhaseFinished {
		return ""
	}
	return r.Cluster
}
