package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
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
