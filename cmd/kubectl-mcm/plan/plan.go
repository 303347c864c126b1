package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
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

// print prints a plan in the format that is asked for.
func (c *command) print(out io.Writer, p *Plan) error {
	switch {
	case c.Format == output.Name:
		for i := range p.Items {
			fmt.Fprintln(out, p.Items[i].Object)
		}
		return nil
	case !c.ForPeople():
		return c.Print(out, p)
	}
	output.PrintTable(out, c.rows(p))
	for i := range p.Items {
		c.details(out, &p.Items[i])
	}
	if p.Skipped > 0 {
		fmt.Fprintf(out, "\n%s of other kinds not judged\n", count(p.Skipped, "object"))
	}
	return nil
}

func (c *command) rows(p *Plan) [][]output.Cell {
	rows := c.Headers("OBJECT", "ACTION", "MACHINES", "SURGE", "UNAVAILABLE", "ABOUT", "BLOCKERS")
	for i := range p.Items {
		item := &p.Items[i]
		row := append(output.Row(item.Object.Kind+"/"+item.Object.Name), output.Cell{
			Text: string(item.Action), Colour: shade(item),
		})
		row = append(row, output.Row(item.Machines.String(), number(item, maxSurge), number(item, maxUnavailable),
			about(item), output.Dash(nonZero(len(item.Blockers))))...)
		rows = append(rows, row)
	}
	return rows
}

func shade(c *Change) output.Colour {
	switch {
	case c.Action == Refused:
		return output.Red
	case len(c.Blockers) > 0 || c.drains():
		return output.Yellow
	}
	return output.Green
}

// String counts the machines for people, e.g. "3 replaced, 1 created".
func (m *Machines) String() string {
	if m == nil {
		return "-"
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{m.Replaced, "replaced"},
		{m.Created - m.Replaced, "created"},
		{m.Deleted - m.Replaced, "deleted"},
		{m.Updated, "updated in place"},
		{m.Synced, "synced"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return output.Dash(strings.Join(parts, ", "))
}

func maxSurge(r *Rollout) int       { return r.MaxSurge }
func maxUnavailable(r *Rollout) int { return r.MaxUnavailable }

// number is a bound of a rollout that replaces or updates machines.
func number(c *Change, of func(*Rollout) int) string {
	if c.Rollout == nil || c.Machines == nil || c.Machines.Replaced+c.Machines.Updated == 0 {
		return "-"
	}
	return strconv.Itoa(of(c.Rollout))
}

func nonZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// about is how long it takes.
func about(c *Change) string {
	switch {
	case c.Rollout == nil || c.Rollout.Rounds == 0 && (c.Machines == nil || c.Machines.Updated == 0):
		return "-"
	case c.Rollout.Seconds == nil:
		return "unknown"
	}
	return duration.HumanDuration(time.Duration(*c.Rollout.Seconds * float64(time.Second)))
}

// details prints what does not fit into a row.
func (c *command) details(out io.Writer, item *Change) {
	fmt.Fprintf(out, "\n%s/%s\n", item.Object.Kind, item.Object.Name)
	line := func(title, text string) { fmt.Fprintf(out, "  %-9s %s\n", title, text) }
	for _, b := range item.Blockers {
		line("Blocker:", strings.TrimSpace(b.Kind+" "+b.Object)+": "+b.Message)
	}
	if item.Rollout != nil && item.Rollout.Waits != "" {
		line("Waits:", item.Rollout.Waits)
	}
	if len(item.Fields) > 0 {
		line("Fields:", strings.Join(item.Fields, ", "))
	}
	for _, note := range item.Notes {
		line("Note:", note)
	}
	line("Rule:", item.Rule)
	if c.Format == output.Wide && item.Machines != nil && len(item.Machines.Drained) > 0 {
		line("Drained:", strings.Join(item.Machines.Drained, ", "))
	}
}
