package inspect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// newTop is the command that shows how pools are doing.
func newTop(d Deps) *cobra.Command {
	f := &flags{deps: d}
	var metrics []string
	cmd := &cobra.Command{
		Use:   "top [POOL...]",
		Short: "Show how pools are doing: ready, updated, time to join, failures, what machines wait for",
		Long: `Show MachineDeployments of both APIs, and MachineSets without one: how many machines are ready and of
the newest template, how long it took machines to join (from their creation to that of their
Node), how many failed or went within the last hour, and what machines wait for.

FAILED has machines with a Warning Event, GONE those that had an Event and do not exist any more:
replaced, rolled or scaled away. Both are as old as the Events that the API server keeps.

Queues and calls that a cloud throttled or did not answer are in the metrics of the manager, and
are shown only with --metrics-url: a URL, or a path at the API server, such as that of the
Service's proxy. Queues are served at port 10258, calls to clouds at 10259: name both.`,
		Example: `  # the pools of the namespace
  kubectl mcm top -n garden

  # those of a team in all namespaces, with reasons
  kubectl mcm top -A -l team=a -o wide

  # with the queues of the manager and its calls to clouds, through a port-forward
  kubectl mcm top --metrics-url http://127.0.0.1:10258/metrics --metrics-url http://127.0.0.1:10259/metrics

  # pools by what their machines wait for
  kubectl mcm top -o custom-columns=POOL:.object.name,WAITING:.waiting[*].reason`,
		ValidArgsFunction: f.complete(explain.KindDeployment, explain.KindSet),
		RunE: func(cmd *cobra.Command, args []string) error {
			selector, err := f.labels()
			if err != nil {
				return err
			}
			_, err = show(f, cmd, view[*explain.Top]{
				source: read.Source{Events: true, Joining: true},
				find: func(ctx context.Context, facts *explain.Facts) (*explain.Top, error) {
					top, missing := facts.Top(args, selector)
					if err := noPool("top", missing); err != nil {
						return nil, err
					}
					return &top, f.addManager(ctx, &top, metrics)
				},
				print: f.printTop,
			})
			return err
		},
	}
	f.add(cmd)
	f.addSelector(cmd, "label selector of the pools, e.g. team=a")
	cmd.Flags().StringArrayVar(&metrics, "metrics-url", nil,
		"URL of the manager's metrics, or a path at the API server; can be repeated; none leaves queues and calls out")
	return cmd
}

func (f *flags) printTop(out io.Writer, top *explain.Top, _ time.Time) error {
	switch {
	case f.Format == output.Name:
		for i := range top.Items {
			fmt.Fprintln(out, top.Items[i].Object)
		}
		return nil
	case !f.ForPeople():
		return f.Print(out, top)
	case len(top.Items) == 0:
		fmt.Fprintln(out, "There are no pools.")
	default:
		output.PrintTable(out, f.loadRows(top.Items))
	}
	if top.Manager != nil {
		fmt.Fprintln(out)
		output.PrintTable(out, f.managerRows(top.Manager))
	}
	return nil
}

func (f *flags) loadRows(items []explain.Load) [][]output.Cell {
	titles := []string{"POOL", "READY", "UPDATED", "JOIN P50", "JOIN P95", "FAILED 1H", "GONE 1H", "WAITING"}
	if f.Format == output.Wide {
		titles = append(titles, "API")
	}
	if f.allNamespaces {
		titles = append([]string{"NAMESPACE"}, titles...)
	}
	rows := f.Headers(titles...)
	for i := range items {
		l := &items[i]
		ready := output.Cell{Text: fmt.Sprintf("%d/%d", l.Ready, l.Desired), Colour: output.Green}
		if l.Ready < l.Desired {
			ready.Colour = output.Yellow
		}
		row := append(output.Row(l.Object.Kind+"/"+l.Object.Name), ready)
		row = append(row, output.Row(strconv.Itoa(int(l.Updated)), seconds(l.JoinP50), seconds(l.JoinP95),
			strconv.Itoa(l.Failed), strconv.Itoa(l.Gone))...)
		row = append(row, waitingCell(l.Waiting))
		if f.Format == output.Wide {
			row = append(row, output.Row(string(l.API))...)
		}
		if f.allNamespaces {
			row = append(output.Row(output.Dash(l.Object.Namespace)), row...)
		}
		rows = append(rows, row)
	}
	return rows
}

func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return duration.HumanDuration(time.Duration(*s * float64(time.Second)))
}

// waitingCell is how many machines wait for what, e.g. 2 CapacityExhausted.
func waitingCell(waiting []explain.Waiting) output.Cell {
	var texts []string
	shade := output.Plain
	for _, w := range waiting {
		texts = append(texts, fmt.Sprintf("%d %s", w.Machines, w.Reason))
		switch {
		case w.NeedsPerson:
			shade = output.Red
		case shade == output.Plain:
			shade = output.Yellow
		}
	}
	return output.Cell{Text: output.Dash(strings.Join(texts, ", ")), Colour: shade}
}

func (f *flags) managerRows(m *explain.ManagerLoad) [][]output.Cell {
	rows := f.Headers("MANAGER", "NAME", "NUMBER")
	for _, part := range []struct {
		title  string
		values map[string]float64
	}{{"queued objects", m.QueueDepth}, {"calls throttled or not answered", m.ThrottledCalls}} {
		for _, name := range slices.Sorted(maps.Keys(part.values)) {
			rows = append(rows, output.Row(part.title, name, strconv.FormatFloat(part.values[name], 'f', -1, 64)))
		}
	}
	return rows
}

// The metrics that are shown. MCM's error code 14 is that of calls that were throttled, and of
// those that a cloud did not answer.
const (
	metricQueue  = "workqueue_depth"
	metricFailed = "mcm_cloud_api_driver_requests_failed_total"
	metricPrefix = "mcm_"
	codeThrottle = "14"
)

var errNoMetrics = errors.New("these are no metrics of a manager; it serves queues at --port, 10258 by default, " +
	"and calls to clouds at --machine-controller-port, 10259")

// addManager adds to top what the metrics of a manager at all of these URLs tell, if there are any.
func (f *flags) addManager(ctx context.Context, top *explain.Top, urls []string) error {
	if len(urls) == 0 {
		return nil
	}
	load := &explain.ManagerLoad{QueueDepth: map[string]float64{}, ThrottledCalls: map[string]float64{}}
	for _, url := range urls {
		text, err := f.deps.Fetch(ctx, url)
		if err == nil && !addLoad(load, text) {
			err = errNoMetrics
		}
		if err != nil {
			return fmt.Errorf("--metrics-url=%q: %w", url, err)
		}
	}
	top.Manager = load
	return nil
}

// sample is a line of the text format of metrics, and label a label of one.
var (
	sample = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)`)
	label  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// addLoad adds what a page of metrics tells, and reports whether it is of a manager.
func addLoad(load *explain.ManagerLoad, text []byte) (ours bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		found := sample.FindStringSubmatch(lines.Text())
		if found == nil || found[1] != metricQueue && !strings.HasPrefix(found[1], metricPrefix) {
			continue
		}
		ours = true
		if value, err := strconv.ParseFloat(found[3], 64); err == nil {
			addSample(load, found[1], found[2], value)
		}
	}
	return ours
}

func addSample(load *explain.ManagerLoad, name, labelled string, value float64) {
	labels := map[string]string{}
	for _, l := range label.FindAllStringSubmatch(labelled, -1) {
		labels[l[1]] = l[2]
	}
	switch {
	case name == metricQueue:
		load.QueueDepth[labels["name"]] += value // a series for each priority
	case name == metricFailed && labels["error_code"] == codeThrottle:
		load.ThrottledCalls[labels["provider"]] += value
	}
}
