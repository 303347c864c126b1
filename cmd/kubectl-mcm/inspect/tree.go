package inspect

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// newTree is the command that shows what belongs to pools.
func newTree(d Deps) *cobra.Command {
	f := &flags{deps: d}
	var all bool
	cmd := &cobra.Command{
		Use: "tree [POOL...]", Short: "Show pools with their sets, machines and nodes, and what is not healthy",
		Long: `Show MachineDeployments with their MachineSets, Machines and Nodes, of both APIs. For Cluster
API that includes Clusters, MCMClusters, MCMConfigs and MCMMachines. Healthy machines of a
set are one line; each other machine has the reason and the next step.

A POOL is the name of a Cluster, MachineDeployment, MachineSet or Machine.`,
		Example: `  # all pools of the namespace
  kubectl mcm tree -n garden

  # one pool, with every machine
  kubectl mcm tree workers -n garden --all

  # the pools again and again, while they are rolled
  kubectl mcm tree -n garden -w

  # the pools of a team in all namespaces, for a program
  kubectl mcm tree -A -l team=a -o json`,
		ValidArgsFunction: f.complete(explain.KindCluster, explain.KindDeployment, explain.KindSet, explain.KindMachine),
		RunE: func(cmd *cobra.Command, args []string) error {
			selector, err := f.labels()
			if err != nil {
				return err
			}
			options := explain.TreeOptions{Pools: args, Selector: selector, All: all || f.Format == output.Name}
			_, err = show(f, cmd, view[*explain.Tree]{
				source: read.Source{Joining: true},
				find: func(_ context.Context, facts *explain.Facts) (*explain.Tree, error) {
					tree, missing := facts.Tree(options)
					return &tree, noPool("tree", missing)
				},
				print: f.printTree,
			})
			return err
		},
	}
	f.add(cmd)
	f.addSelector(cmd, "label selector of the pools, e.g. team=a")
	cmd.Flags().BoolVar(&all, "all", false, "show healthy machines one by one, and MachineSets without machines")
	return cmd
}

// noPool is the error that a verb finds no pools of these names; nil if there are none.
func noPool(verb string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: no pool has that name; kubectl mcm %s shows all", strings.Join(names, ", "), verb)
}

func (f *flags) printTree(out io.Writer, tree *explain.Tree, now time.Time) error {
	if f.Format == output.Name {
		printNames(out, tree.Items)
		return nil
	}
	if !f.ForPeople() {
		return f.Print(out, tree)
	}
	if len(tree.Items) == 0 {
		_, err := fmt.Fprintln(out, "There are no pools.")
		return err
	}
	p := &treePrinter{flags: f, now: now}
	if !f.NoHeaders {
		p.rows = append(p.rows, p.header())
	}
	for _, b := range tree.Items {
		p.branch(b, "", "")
	}
	output.PrintTable(out, p.rows)
	return nil
}

// printNames prints the objects as kubectl does with -o name.
func printNames(out io.Writer, branches []*explain.Branch) {
	for _, b := range branches {
		if b.Healthy == 0 {
			fmt.Fprintln(out, b.Object)
		}
		printNames(out, b.Children)
	}
}

// treePrinter collects the rows of a tree.
type treePrinter struct {
	flags *flags
	now   time.Time
	rows  [][]output.Cell
}

func (p *treePrinter) header() []output.Cell {
	titles := []string{"NAME", "READY", "STATUS", "AGE", "REASON", "NEXT STEP"}
	if p.flags.Format == output.Wide {
		titles = append(titles, "API", "CLASS", "PROVIDERID")
	}
	if p.flags.allNamespaces {
		titles = append([]string{"NAMESPACE"}, titles...)
	}
	return output.Row(titles...)
}

// branch adds the row of an object and those below it. first leads its own row, rest the others.
func (p *treePrinter) branch(b *explain.Branch, first, rest string) {
	reason, next, shade := reasonOf(b)
	cells := []output.Cell{
		{Text: first + title(b)},
		{Text: readyOf(b)},
		{Text: output.Dash(b.Status), Colour: shade},
		{Text: output.Age(b.Created, p.now)},
		{Text: reason, Colour: shade},
		{Text: next},
	}
	if p.flags.Format == output.Wide {
		cells = append(cells, output.Row(string(b.API), output.Dash(b.Class), output.Dash(b.ProviderID))...)
	}
	if p.flags.allNamespaces {
		cells = append(output.Row(output.Dash(b.Object.Namespace)), cells...)
	}
	p.rows = append(p.rows, cells)
	for i, child := range b.Children {
		if i == len(b.Children)-1 {
			p.branch(child, rest+"└─", rest+"  ")
			continue
		}
		p.branch(child, rest+"├─", rest+"│ ")
	}
}

// title is an object by kind and name, or the number of healthy machines.
func title(b *explain.Branch) string {
	switch {
	case b.Healthy == 1:
		return "1 healthy machine"
	case b.Healthy > 1:
		return fmt.Sprintf("%d healthy machines", b.Healthy)
	}
	return b.Object.Kind + "/" + b.Object.Name
}

func readyOf(b *explain.Branch) string {
	if b.Desired == nil || b.Ready == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", *b.Ready, *b.Desired)
}

// reasonOf is what a branch lacks, with the next step where that is about the object itself:
// a pool whose machine lacks something refers to the machine.
func reasonOf(b *explain.Branch) (reason, next string, shade output.Colour) {
	m := b.Missing
	switch {
	case m == nil && b.Object.Kind == explain.KindNode:
		return "", "", nodeColour(b.Status)
	case m == nil:
		return "", "", output.Green
	case m.Object != b.Object && len(b.Children) > 0:
		return m.Reason, "", colourOf(m)
	}
	return m.Reason, m.Remedy, colourOf(m)
}

func colourOf(m *explain.Finding) output.Colour {
	if m.NeedsPerson {
		return output.Red
	}
	return output.Yellow
}

func nodeColour(status string) output.Colour {
	if status == "Ready" {
		return output.Green
	}
	return output.Yellow
}
