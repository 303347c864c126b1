package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// Exit codes of why, besides 0 and that of a failure, 1.
const (
	exitWaits  = 3 // something is missing, and passes by itself
	exitPerson = 4 // something is missing, and a person has to act
)

// explanations are several of them, for programs.
type explanations struct {
	metav1.TypeMeta `json:",inline"`
	Items           []explain.Explanation `json:"items"`
}

// newWhy is the command that explains objects.
func newWhy(d Deps) *cobra.Command {
	f := &flags{deps: d}
	cmd := &cobra.Command{
		Use: "why OBJECT...", Short: "Explain what an object waits for, who has to act, and what happens next",
		Long: `Explain an object of either API: what was asked for, what is done, the first thing that is
missing, where the cause lies, the remedy, and what happens next and when.

An OBJECT is KIND/NAME, or the NAME alone. KIND is machine, machineset, machinedeployment,
mcmmachine, mcmconfig, mcmcluster, cluster, mcmexternalcontrolplane, node, or a short name. With
a group, e.g. machine.cluster.x-k8s.io/NAME, only that API is looked at. With --selector, OBJECT
is a KIND.

The exit code is 0 if nothing is missing, 3 if what is missing passes by itself, 4 if a person has
to act, and 1 if the command fails.`,
		Example: `  # why is this machine no node yet?
  kubectl mcm why machine/workers-abcde-x2f4d -n garden

  # why does the pool not grow?
  kubectl mcm why machinedeployment/workers -n garden

  # why are the machines of this pool no nodes?
  kubectl mcm why machine -l name=workers -n garden

  # what does this pool wait for now, and now?
  kubectl mcm why machinedeployment/workers -n garden -w

  # the concern alone
  kubectl mcm why cluster/prod -o jsonpath='{.missing.concern}'`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: f.complete(byName...),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := show(f, cmd, view[[]explain.Explanation]{
				source: read.Source{Joining: true, Consoles: true}, print: f.printWhy, warns: true,
				find: func(_ context.Context, facts *explain.Facts) ([]explain.Explanation, error) {
					return f.explain(facts, args)
				},
			})
			if err != nil {
				return err
			}
			return verdict(found)
		},
	}
	f.add(cmd)
	f.addSelector(cmd, "label selector of the objects of a KIND, e.g. name=workers")
	return cmd
}

// explain explains the objects of these names.
func (f *flags) explain(facts *explain.Facts, names []string) (found []explain.Explanation, err error) {
	objects, err := f.named(facts, names)
	for _, o := range objects {
		found = append(found, facts.Why(o))
	}
	return found, err
}

// verdict is the exit code for what was found; nil if nothing is missing.
func verdict(found []explain.Explanation) error {
	code := 0
	for i := range found {
		if m := found[i].Missing; m != nil {
			code = max(code, exitWaits)
			if m.NeedsPerson {
				code = exitPerson
			}
		}
	}
	if code == 0 {
		return nil
	}
	return output.ExitCodeError(code)
}

func (f *flags) printWhy(out io.Writer, found []explain.Explanation, now time.Time) error {
	switch {
	case f.Format == output.Name:
		for i := range found {
			fmt.Fprintln(out, found[i].Object)
		}
		return nil
	case !f.ForPeople() && len(found) == 1:
		return f.Print(out, &found[0])
	case !f.ForPeople():
		return f.Print(out, &explanations{metav1.TypeMeta{APIVersion: explain.Version, Kind: "ExplanationList"}, found})
	}
	for i := range found {
		if i > 0 {
			fmt.Fprintln(out)
		}
		f.printExplanation(out, &found[i], now)
	}
	return nil
}

// printExplanation prints one for people.
func (f *flags) printExplanation(out io.Writer, e *explain.Explanation, now time.Time) {
	fmt.Fprintf(out, "%s in namespace %s (%s)%s\n\n", e.Object, output.Dash(e.Object.Namespace), apiName(e.API), phase(e))
	rows := f.Headers("  STEP", "STATE", "SINCE", "WHAT")
	for i := range e.Steps {
		rows = append(rows, stepRow(&e.Steps[i], now))
	}
	output.PrintTable(out, rows)
	printMissing(out, e.Missing, now)
	printConsoles(out, e, now)
	if f.Format == output.Wide || e.Missing != nil {
		output.Warn(out, e.Unread)
	}
}

func phase(e *explain.Explanation) string {
	if e.Phase == "" {
		return ""
	}
	return ": " + e.Phase
}

func apiName(api explain.API) string {
	if api == explain.ClusterAPI {
		return "Cluster API"
	}
	return "native API"
}

func stepRow(s *explain.Step, now time.Time) []output.Cell {
	since, text := "", s.Message
	if s.Since != nil {
		since = output.Age(s.Since, now)
	}
	shade := map[explain.StepState]output.Colour{explain.StepDone: output.Green, explain.StepMissing: output.Red}[s.State]
	if s.Reason != "" {
		text = s.Reason + ": " + text
	}
	return []output.Cell{
		{Text: "  " + s.Name}, {Text: strings.ToLower(string(s.State)), Colour: shade}, {Text: since}, {Text: text},
	}
}

// printMissing prints what is missing, and what to do about it.
func printMissing(out io.Writer, m *explain.Finding, now time.Time) {
	if m == nil {
		fmt.Fprintln(out, "\nNothing is missing.")
		return
	}
	fmt.Fprintf(out, "\nMissing:  %s\n", output.Paint(out, m.Meaning, colourOf(m)))
	fmt.Fprintf(out, "Object:   %s\n", m.Object)
	fmt.Fprintf(out, "Reason:   %s", m.Reason)
	if m.Condition != "" {
		fmt.Fprintf(out, ", of condition %s", m.Condition)
	}
	fmt.Fprintf(out, "\nConcern:  %s\n", m.Concern)
	fmt.Fprintf(out, "Remedy:   %s\n", m.Remedy)
	for _, command := range m.Commands {
		fmt.Fprintf(out, "          $ %s\n", command)
	}
	fmt.Fprintf(out, "Next:     %s", m.Next)
	if when := m.When(now); when != "" {
		fmt.Fprintf(out, " (%s)", when)
	}
	fmt.Fprintln(out)
}

// printConsoles prints what the consoles of machines said that did not join: the causes, how often
// each was seen, and the newest line that shows it.
func printConsoles(out io.Writer, e *explain.Explanation, now time.Time) {
	title := "Console:  "
	for i, c := range e.Consoles {
		same := func(o explain.Console) bool { return o.Cause == c.Cause }
		if slices.IndexFunc(e.Consoles, same) != i {
			continue // told with the first
		}
		times := 0
		for _, o := range e.Consoles {
			if same(o) {
				times++
			}
		}
		fmt.Fprintf(out, "%s%d of the last %d machines that did not join: %s\n", title, times, len(e.Consoles), c.Summary)
		fmt.Fprintf(out, "          %s, %s ago%s\n", c.Machine, output.Age(&c.Read, now), seen(c.Line))
		fmt.Fprintf(out, "          %s\n", c.Remedy)
		title = "          "
	}
}

// seen is a line of a console behind other text.
func seen(line string) string {
	if line == "" {
		return ""
	}
	return ": " + line
}

// errNoObject is returned for a name that no object has.
var errNoObject = errors.New("no such object; kubectl mcm tree shows all")

// Kept returns the consoles that the manager has kept: of a pool those of its last machines that
// did not join, the newest first; of a machine, which may be gone, its own. None is an error.
func (d Deps) Kept(ctx context.Context, kind, name string) ([]console.Failure, error) {
	clusters, err := d.Connect()
	if err != nil {
		return nil, err
	}
	facts, err := read.Source{
		Control: clusters.Control, Target: clusters.Target, Namespace: clusters.Namespace, Now: d.Now(), AllConsoles: true,
	}.All(ctx)
	if err != nil {
		return nil, err
	}
	var found []console.Failure
	switch wanted, _ := kindOf(kind); wanted {
	case explain.KindMachine, explain.KindMCMMachine:
		found = ofMachine(facts, name)
	case explain.KindDeployment, explain.KindSet:
		objects, err := resolve(facts, kind+"/"+name)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			found = append(found, facts.Failures(o)...)
		}
	default:
		return nil, fmt.Errorf("%s: consoles are kept of machines and their pools; name a machine, machineset or "+
			"machinedeployment", kind)
	}
	if len(found) == 0 {
		return nil, errors.Join(append([]error{errNothingKept}, unread(facts)...)...)
	}
	return found, nil
}

var errNothingKept = errors.New("no console is kept: no machine failed to join while the manager could read its " +
	"console and write Secrets in the namespace; the Event ConsoleRead may name the cause")

// unread are what the reader may not read, as errors.
func unread(f *explain.Facts) []error {
	var all []error
	for _, text := range f.Unread {
		all = append(all, errors.New("not read: "+text))
	}
	return all
}

// ofMachine looks for a machine in what is kept of all pools. The MCMMachine of a Machine has its name.
func ofMachine(f *explain.Facts, name string) []console.Failure {
	var found []console.Failure
	for _, all := range f.Consoles {
		for i := range all {
			if all[i].Machine == name {
				found = append(found, all[i])
			}
		}
	}
	slices.SortFunc(found, func(a, b console.Failure) int { return b.Read.Compare(a.Read) })
	return found
}
