package plan

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// Plan is what changes will do.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Change `json:"items"`
	Skipped         int      `json:"skipped"` // objects of kinds that are not judged
	Unread          []string `json:"unread,omitempty"`
}

// Action is what the worst is that a change does.
type Action string

// The actions, from harmless to not.
const (
	Nothing  Action = "Nothing"  // the object is so already
	Metadata Action = "Metadata" // the object changes, and no machine does
	InPlace  Action = "InPlace"  // machines change, and keep their VMs
	Scale    Action = "Scale"    // machines are created or deleted
	Replace  Action = "Replace"  // machines are replaced
	Refused  Action = "Refused"  // the API server refuses the change, or the controllers do nothing about it
)

// Change is what the change of one object does.
type Change struct {
	Object explain.Ref `json:"object"`
	API    explain.API `json:"api"`
	File   string      `json:"file,omitempty"`
	Action Action      `json:"action"`
	// Rule is what the action was decided by.
	Rule string `json:"rule"`
	// Fields are the paths that change.
	Fields []string `json:"fields,omitempty"`
	// Checked is true if the API server has judged the change: its admission, and the rules of the CRD.
	Checked  bool      `json:"checked"`
	Machines *Machines `json:"machines,omitempty"`
	Rollout  *Rollout  `json:"rollout,omitempty"`
	Blockers []Blocker `json:"blockers,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
}

// Machines are how many machines of a pool a change concerns.
type Machines struct {
	Present  int `json:"present"`
	Created  int `json:"created"` // those that take the place of others included
	Deleted  int `json:"deleted"` // those that are replaced included
	Replaced int `json:"replaced"`
	// Updated keep their VMs, and are drained and updated in place; Synced only get other labels,
	// timeouts or limits.
	Updated int      `json:"updatedInPlace"`
	Synced  int      `json:"synced"`
	Drained []string `json:"drained,omitempty"` // names of those that are deleted or updated in place
}

// Rollout is how a change is made.
type Rollout struct {
	Strategy       string `json:"strategy"`
	MaxSurge       int    `json:"maxSurge"`
	MaxUnavailable int    `json:"maxUnavailable"`
	Rounds         int    `json:"rounds"` // how often new machines have to join before the next step
	// JoinSeconds is the median time to join of the pool's machines, Seconds that of all rounds
	// together, without drains; absent: no machine of the pool has been seen to join.
	JoinSeconds *float64 `json:"joinSeconds,omitempty"`
	Seconds     *float64 `json:"seconds,omitempty"`
	// Waits is why it does not come to its end; empty: it does.
	Waits string `json:"waits,omitempty"`
}

// Blocker is something known that will be in the way.
type Blocker struct {
	Kind    string `json:"kind"` // PodDisruptionBudget, Capacity, Quota, MachineClass, ...
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
}

func (c *Change) block(kind, object, message string) {
	b := Blocker{kind, object, message}
	if !slices.Contains(c.Blockers, b) {
		c.Blockers = append(c.Blockers, b)
	}
}

func (c *Change) refuse(rule, kind, message string) {
	c.Action, c.Rule, c.Machines, c.Rollout = Refused, rule, nil, nil
	c.block(kind, "", message)
}

// drains reports whether pods have to leave machines.
func (c *Change) drains() bool {
	return c.Machines != nil && (c.Machines.Deleted > 0 || c.Machines.Updated > 0)
}

// makes reports whether machines are created.
func (c *Change) makes() bool { return c.Machines != nil && c.Machines.Created > 0 }

// settle decides the action from the numbers of machines.
func (c *Change) settle() {
	m := c.Machines
	if m == nil {
		m = &Machines{}
	}
	switch {
	case m.Replaced > 0:
		c.Action = Replace
	case m.Created+m.Deleted > 0:
		c.Action = Scale
	case m.Updated+m.Synced > 0:
		c.Action = InPlace
	case len(c.Fields) > 0:
		c.Action = Metadata
	default:
		c.Action = Nothing
	}
}

// Exit codes, besides 0: nothing that runs is interrupted.
const (
	exitRefused = 1
	exitMoves   = 3 // machines are deleted, replaced, or drained for an update
	exitBlocked = 4 // machines change, and something known will be in the way
)

// code is the exit code of a plan.
func (p *Plan) code() int {
	code := 0
	for i := range p.Items {
		c := &p.Items[i]
		switch {
		case c.Action == Refused:
			return exitRefused
		case len(c.Blockers) > 0:
			code = exitBlocked
		case c.drains():
			code = cmp.Or(code, exitMoves)
		}
	}
	return code
}
