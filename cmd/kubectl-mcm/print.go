package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/takeover"
)

// Formats of what is printed.
const (
	formatTable = "table"
	formatWide  = "wide" // with a line for each machine
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML}

// printed prints v as JSON or YAML; false if the format is for people.
func printed(out io.Writer, format string, v any) (bool, error) {
	switch format {
	case formatJSON:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return true, encoder.Encode(v)
	case formatYAML:
		text, err := yaml.Marshal(v)
		if err != nil {
			return true, err
		}
		_, err = out.Write(text)
		return true, err
	}
	return false, nil
}

// printPlans prints plans: a line for each pool, then what is to be known about it.
func printPlans(out io.Writer, format string, plans []plan.Plan) error {
	if done, err := printed(out, format, plans); done {
		return err
	}
	rows := [][]string{{"POOL", "TO", "MACHINES", "KEPT", "BLOCKED", "KUBELET", "PROVIDERID", "VERDICT"}}
	for _, p := range plans {
		rows = append(rows, poolRow(p))
	}
	if len(plans) == 0 {
		_, err := fmt.Fprintln(out, "There are no pools to move.")
		return err
	}
	if err := table(out, "", rows); err != nil {
		return err
	}
	for _, p := range plans {
		if err := printPlan(out, format, p); err != nil {
			return err
		}
	}
	return nil
}

func poolRow(p plan.Plan) []string {
	versions, forms := map[string]int{}, map[string]int{}
	blocked := 0
	for _, m := range p.Machines {
		if m.KubeletVersion != "" {
			versions[m.KubeletVersion]++
		}
		forms[formText(m.ProviderIDForm)]++
		if m.Verdict == plan.VerdictBlocked {
			blocked++
		}
	}
	verdict := "can be moved"
	if n := len(p.Blocked()); n > 0 {
		verdict = fmt.Sprintf("blocked (%d)", n)
	}
	if p.Phase != "" {
		verdict = string(p.Phase) + ", " + verdict
	}
	return []string{
		p.Pool.String(), string(p.To), fmt.Sprint(len(p.Machines)), fmt.Sprint(len(p.Machines) - blocked),
		fmt.Sprint(blocked),
		counts(versions), counts(forms), verdict,
	}
}

func formText(form string) string {
	switch form {
	case plan.FormNode:
		return "becomes the Node's"
	case plan.FormMCM:
		return "becomes MCM's"
	}
	return "stays"
}

// counts is "a (2), b" with the numbers where there is more than one kind.
func counts(all map[string]int) string {
	var texts []string
	for _, key := range sorted(all) {
		if len(all) == 1 {
			return key
		}
		texts = append(texts, fmt.Sprintf("%s (%d)", key, all[key]))
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}

// printPlan prints what a plan says of one pool.
func printPlan(out io.Writer, format string, p plan.Plan) error {
	fmt.Fprintf(out, "\n%s\n", p.Pool)
	if format == formatWide {
		rows := [][]string{{"MACHINE", "SET", "NODE", "PHASE", "VERDICT", "KUBELET", "PROVIDERID"}}
		for _, m := range p.Machines {
			rows = append(rows, []string{
				m.Name, dash(m.Set), dash(m.Node), dash(m.Phase), string(m.Verdict),
				dash(m.KubeletVersion), dash(m.ProviderID),
			})
		}
		if err := table(out, "  ", rows); err != nil {
			return err
		}
	}
	printFindings(out, p.Findings, p.Accepted)
	if len(p.Creates) > 0 {
		fmt.Fprintln(out, "  creates")
		for _, o := range p.Creates {
			fmt.Fprintf(out, "    %d %s: %s\n", len(o.Names), o.Kind, few(o.Names))
		}
	}
	if len(p.Finalizers) > 0 {
		fmt.Fprintln(out, "  finalizers")
		for _, f := range p.Finalizers {
			fmt.Fprintf(out, "    %s on %s: %s\n", f.Name, f.On, f.Text)
		}
	}
	return nil
}

// table prints rows in columns, the first being the header.
func table(out io.Writer, indent string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, "%s%s\n", indent, strings.Join(row, "\t"))
	}
	return w.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// headings of the levels, from bad to good.
var headings = []struct {
	level migration.Level
	text  string
}{
	{migration.Blocked, "blocked: to be dealt with first"},
	{migration.Lost, "lost: has no counterpart; --accept=<field> accepts it"},
	{migration.Advised, "advised: not in the way, and better done"},
	{migration.Replaced, "replaced: something else does the same"},
	{migration.Kept, "kept: means the same"},
}

// group are findings that say the same of several objects.
type group struct {
	migration.Finding
	kind  string
	names []string
}

// printFindings prints findings by level; what is said of many objects, once.
func printFindings(out io.Writer, all []migration.Finding, accepted []string) {
	groups := grouped(all)
	for _, h := range headings {
		first := true
		for _, g := range groups {
			if g.Level != h.level {
				continue
			}
			if first {
				fmt.Fprintf(out, "  %s\n", h.text)
				first = false
			}
			printGroup(out, g, slices.Contains(accepted, g.Field))
		}
	}
}

func printGroup(out io.Writer, g *group, accepted bool) {
	line := strings.TrimSpace(g.kind + " " + few(g.names))
	if g.Field != "" {
		line += "  " + g.Field
	}
	if accepted && g.Level == migration.Lost {
		line += "  (accepted)"
	}
	fmt.Fprintf(out, "    %s\n      %s\n", line, g.Text)
	if g.Remedy != "" {
		fmt.Fprintf(out, "      first: %s\n", g.Remedy)
	}
}

func grouped(all []migration.Finding) []*group {
	var groups []*group
	at := map[migration.Finding]*group{}
	for _, f := range all {
		kind, name := "", f.Object
		if k, n, ok := strings.Cut(f.Object, " "); ok && strings.Contains(n, "/") && !strings.Contains(n, " ") {
			kind, name = k, n
		}
		key := f
		key.Object = kind
		if kind == "" {
			key.Object = name
		}
		if g := at[key]; g != nil {
			g.names = append(g.names, name)
			continue
		}
		g := &group{Finding: f, kind: kind, names: []string{name}}
		at[key], groups = g, append(groups, g)
	}
	return groups
}

// few are the first names of a list, and how many more there are.
func few(names []string) string {
	const most = 3
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func sorted[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }

// printTakeover prints whether a fleet can change hands.
func printTakeover(out io.Writer, format string, t takeover.Report) error {
	if done, err := printed(out, format, takeoverOutput{t, t.Safe(), t.BackSafe()}); done {
		return err
	}
	fmt.Fprintf(out, "namespace %s: %d Machines\n\nto the native API: %s\n", t.Namespace, t.Machines, verdict(t.Safe()))
	printFindings(out, t.There, nil)
	fmt.Fprintf(out, "\nback to MCM: %s\n", verdict(t.BackSafe()))
	printFindings(out, t.Back, nil)
	return nil
}

// takeoverOutput is a Takeover with what follows from it.
type takeoverOutput struct {
	takeover.Report
	Safe     bool `json:"safe"`
	BackSafe bool `json:"backSafe"`
}

func verdict(safe bool) string {
	if safe {
		return "safe"
	}
	return "not safe"
}

var errUnsafe = errors.New("taking over is not safe yet: see what is blocked above")

// newTakeover is the command about fleets of Machine Controller Manager's.
func newTakeover(c *common) *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use:   "takeover",
		Short: "Give a fleet of Machine Controller Manager's to the native API, and back",
	})
	var drivers []string
	check := &cobra.Command{
		Use: "check", Short: "Report whether the native API can take the namespace over, and whether MCM could have it " +
			"back; " +
			"changes nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			found, err := c.connect(c)
			if err != nil {
				return err
			}
			around, err := migration.ReadNamespace(cmd.Context(), found.control, found.namespace)
			if err != nil {
				return err
			}
			managers, err := takeover.ReadManagers(cmd.Context(), found.control, found.namespace)
			if err != nil {
				return err
			}
			managers.Drivers = drivers
			if managers.SecretTypes, err = takeover.ReadSecretTypes(cmd.Context(), found.target); err != nil {
				return err
			}
			t := takeover.Check(around, managers, time.Now())
			if err := printTakeover(cmd.OutOrStdout(), c.output, t); err != nil {
				return err
			}
			if !t.Safe() {
				return errUnsafe
			}
			return nil
		},
	}
	check.Flags().StringSliceVar(&drivers, "drivers", nil,
		"names of the drivers of the manager that takes over, as it logs them when it starts; classes of other clouds are "+
			"then blocked")
	cmd.AddCommand(check)
	return cmd
}
