package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/takeover"
)

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
