package plan

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
)

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
