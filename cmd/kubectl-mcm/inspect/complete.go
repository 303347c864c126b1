package inspect

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// complete completes the names of objects of these kinds, and after KIND/ those of any kind.
func (f *flags) complete(kindsOfNames ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		facts, err := f.read(cmd, read.Source{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // a shell has no place for a failure
		}
		prefix, wanted := "", kindsOfNames
		if written, _, hasKind := strings.Cut(begun, "/"); hasKind {
			prefix = written + "/"
			kind, known := kindOf(written)
			if !known {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			wanted = []string{kind}
		}
		found := map[string]bool{}
		for _, name := range namesOf(facts, wanted) {
			if word := prefix + name; strings.HasPrefix(word, begun) && !slices.Contains(args, word) {
				found[word] = true
			}
		}
		return slices.Sorted(maps.Keys(found)), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompletePool completes the name of one MachineDeployment.
func (d Deps) CompletePool(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return (&flags{deps: d}).complete(explain.KindDeployment)(cmd, args, begun)
}

// namesOf are the names of objects of these kinds; of Nodes those that machines have.
func namesOf(f *explain.Facts, wanted []string) []string {
	var names []string
	for _, o := range f.Objects {
		if slices.Contains(wanted, o.Kind) {
			names = append(names, o.Name)
		}
		if slices.Contains(wanted, explain.KindNode) && o.Kind == explain.KindMachine && o.Node != "" {
			names = append(names, o.Node)
		}
	}
	return names
}
