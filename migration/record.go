package migration

import "time"

// Phase is how far a move is.
type Phase string

// The phases, in their order. Truth follows from them, see [Record.Truth].
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
	To      Door   `json:"to"`   // where this move goes
	Home    Door   `json:"home"` // where the pool was before the first move that is not finished; a rollback goes there
	Phase   Phase  `json:"phase"`
	Cluster string `json:"cluster"`
	// Hold is the value of this move's holds, new for each move.
	Hold    string    `json:"hold"`
	Started time.Time `json:"started"`
	Changed time.Time `json:"changed"` // when the phase did last
	// Waiting says what the phase waits for, as it was last seen; empty: nothing.
	Waiting string `json:"waiting,omitempty"`
	// Bounds are the autoscaler's bounds, taken off the old side while the pool is
	// between doors, by annotation of the native side.
	Bounds map[string]string `json:"bounds,omitempty"`
	// Generation is that of the old side's head when it was copied.
	Generation int64 `json:"generation,omitempty"`
	// BackedUp is the Hold of the move whose old side the ConfigMap has a backup of.
	BackedUp string `json:"backedUp,omitempty"`
	// Unchecked says that the pool had no MachineHealthCheck at home on Cluster API,
	// so that it gets none when it comes back.
	Unchecked bool `json:"unchecked,omitempty"`
	// Options of the move that a successor needs.
	KubeconfigSecret string   `json:"kubeconfigSecret,omitempty"`
	Accept           []string `json:"accept,omitempty"`
	Defaults         Defaults `json:"defaults,omitzero"`
	// Runner is the command that works on it, Renewed when it was last seen to.
	// Empty: none does.
	Runner  string    `json:"runner,omitempty"`
	Renewed time.Time `json:"renewed,omitzero"`
}

// Truth is the door whose objects say what machines there are to be.
func (r *Record) Truth() Door {
	if r.Phase == PhaseHolding || r.Phase == PhaseCopying {
		return r.To.Other()
	}
	return r.To
}
