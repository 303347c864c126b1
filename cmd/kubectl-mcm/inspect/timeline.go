package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// formatTrace is the Trace Event Format, which Perfetto and Chrome open.
const formatTrace = "chrome-trace"

// newTimeline is the command that shows what happened, in order.
func newTimeline(d Deps) *cobra.Command {
	f := &flags{deps: d}
	cmd := &cobra.Command{
		Use: "timeline OBJECT", Short: "Show what happened to an object and what belongs to it, in order and with durations",
		Long: `Show what happened to an object of either API, to the objects that it controls, and to their Nodes:
from the time stamps of the objects, their conditions, and Events. Of a condition only the last
change is known, and most API servers keep Events for an hour.

An OBJECT is named as for kubectl mcm why.`,
		Example: `  # where did the time go before this machine was ready?
  kubectl mcm timeline machine/workers-abcde-x2f4d -n garden

  # the same of a pool, for Perfetto (https://ui.perfetto.dev)
  kubectl mcm timeline machinedeployment/workers -n garden -o chrome-trace > workers.json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: f.complete(byName...),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := show(f, cmd, view[*explain.Timeline]{
				source: read.Source{Events: true}, print: f.printTimeline,
				find: func(_ context.Context, facts *explain.Facts) (*explain.Timeline, error) {
					return timelineOf(facts, args[0])
				},
			})
			return err
		},
	}
	f.Also = []string{formatTrace}
	f.add(cmd)
	return cmd
}

// timelineOf returns the timeline of the one object of that name.
func timelineOf(facts *explain.Facts, name string) (*explain.Timeline, error) {
	objects, err := resolve(facts, name)
	if err != nil {
		return nil, err
	}
	if len(objects) > 1 {
		return nil, fmt.Errorf("%s: %s and %s have that name; name one with its group", name, objects[0], objects[1])
	}
	timeline := facts.Timeline(objects[0])
	return &timeline, nil
}

func (f *flags) printTimeline(out io.Writer, t *explain.Timeline, _ time.Time) error {
	if f.Format == output.Name {
		_, err := fmt.Fprintln(out, t.Object)
		return err
	}
	if f.Format == formatTrace {
		return json.NewEncoder(out).Encode(explain.TraceOf(t))
	}
	if !f.ForPeople() {
		return f.Print(out, t)
	}
	if t.TraceID != "" && !f.NoHeaders {
		if _, err := fmt.Fprintf(out, "Trace ID: %s\n\n", t.TraceID); err != nil {
			return err
		}
	}
	rows := f.Headers("TIME", "AFTER", "FOR", "SOURCE", "OBJECT", "WHAT", "MESSAGE")
	for i := range t.Entries {
		e := &t.Entries[i]
		rows = append(rows, output.Row(
			e.Time.UTC().Format(time.RFC3339), duration.HumanDuration(e.Time.Sub(t.Entries[0].Time.Time)),
			duration.HumanDuration(time.Duration(e.Seconds*float64(time.Second))), sourceOf(e), e.Object.Kind+"/"+e.Object.Name,
			whatOf(e), e.Message,
		))
	}
	output.PrintTable(out, rows)
	return nil
}

// sourceOf is who tells, with the writer of an Event.
func sourceOf(e *explain.Entry) string {
	if e.By == "" {
		return e.Source
	}
	return e.Source + " of " + e.By
}

func whatOf(e *explain.Entry) string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times)", e.What, e.Count)
	}
	return e.What
}
