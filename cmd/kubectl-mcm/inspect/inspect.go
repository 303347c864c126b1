// Package inspect has the verbs of kubectl mcm that only read the clusters: tree, why, timeline and top.
// They need no credentials of a cloud, and only the permissions of config/rbac/reader_role.yaml.
package inspect

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// Clusters are the two clusters that the APIs work on.
type Clusters struct {
	Control, Target client.Reader
	Namespace       string
}

// Deps are what the commands use.
type Deps struct {
	Connect func() (Clusters, error)
	Now     func() time.Time
	// APIServer is a client for any path of the API server with the objects, and its URL.
	APIServer func() (*http.Client, *url.URL, error)
}

// Commands returns the commands.
func Commands(d Deps) []*cobra.Command {
	return []*cobra.Command{newTree(d), newWhy(d), newTimeline(d), newTop(d)}
}

// flags are those of every command here.
type flags struct {
	deps          Deps
	allNamespaces bool
	selector      string
	watch         bool
	output.Flags
}

// add adds the flags to a command. Its --output takes the place of that of other commands.
func (f *flags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "read the objects of all namespaces")
	set.BoolVarP(&f.watch, "watch", "w", false, "print again whenever something changes, until the command is interrupted")
	f.Add(cmd)
}

// addSelector adds the flag of commands about several objects.
func (f *flags) addSelector(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", usage)
}

// read reads the facts that a command needs; events and joining are read on request.
func (f *flags) read(cmd *cobra.Command, source read.Source) (*explain.Facts, error) {
	source, err := f.sourceOf(source)
	if err != nil {
		return nil, err
	}
	return source.All(cmd.Context())
}

// sourceOf adds the clusters to what a command needs of them.
func (f *flags) sourceOf(source read.Source) (read.Source, error) {
	if err := f.Validate(); err != nil {
		return source, err
	}
	clusters, err := f.deps.Connect()
	if err != nil {
		return source, err
	}
	source.Control, source.Target, source.Namespace = clusters.Control, clusters.Target, clusters.Namespace
	source.Now = f.deps.Now()
	if f.allNamespaces {
		source.Namespace = ""
	}
	return source, nil
}

// labels returns the selector; nil if there is none.
func (f *flags) labels() (labels.Selector, error) {
	if f.selector == "" {
		return nil, nil //nolint:nilnil // no selector selects everything
	}
	parsed, err := labels.Parse(f.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector=%q: %w", f.selector, err)
	}
	return parsed, nil
}

// Limits of a request for text.
const (
	fetchTimeout = 20 * time.Second
	fetchMax     = 64 << 20
)

// Fetch reads text, such as metrics, from a URL or from a path at the API server, which may have
// a query.
func (d Deps) Fetch(ctx context.Context, at string) ([]byte, error) {
	server := http.DefaultClient
	if strings.HasPrefix(at, "/") {
		proxy, base, err := d.APIServer()
		if err != nil {
			return nil, err
		}
		path, query, _ := strings.Cut(at, "?")
		found := base.JoinPath(path)
		found.RawQuery = query
		server, at = proxy, found.String()
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := server.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, fetchMax))
}

// kinds are the words for a kind: its name in the singular or plural, and its short names.
var kinds = map[string]string{
	"machine": explain.KindMachine, "mc": explain.KindMachine, "ma": explain.KindMachine,
	"machineset": explain.KindSet, "mcs": explain.KindSet, "ms": explain.KindSet,
	"machinedeployment": explain.KindDeployment, "mcd": explain.KindDeployment, "md": explain.KindDeployment,
	"cluster": explain.KindCluster, "cl": explain.KindCluster,
	"mcmcluster": explain.KindMCMCluster, "mcmmachine": explain.KindMCMMachine, "mcmconfig": explain.KindMCMConfig,
	"mcmexternalcontrolplane": explain.KindControlPlane,
	"node":                    explain.KindNode, "no": explain.KindNode,
}

// byName are the kinds that a name without kind is looked for in, the largest first.
var byName = []string{
	explain.KindCluster, explain.KindDeployment, explain.KindSet, explain.KindMachine, explain.KindMCMMachine,
}

// named finds the objects that the words of a command line name, or with --selector those of
// the kinds that they name.
func (f *flags) named(facts *explain.Facts, words []string) ([]*explain.Object, error) {
	selector, err := f.labels()
	if err != nil {
		return nil, err
	}
	var all []*explain.Object
	for _, word := range words {
		var found []*explain.Object
		if selector == nil {
			found, err = resolve(facts, word)
		} else {
			found, err = selected(facts, word, selector)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// selected returns the objects of a kind that a selector matches. Both APIs may have some.
func selected(f *explain.Facts, word string, selector labels.Selector) ([]*explain.Object, error) {
	kind, known := kindOf(word)
	if !known || kind == explain.KindNode {
		return nil, fmt.Errorf("%s: with --selector name a kind, and no object; use machine, machineset, "+
			"machinedeployment, mcmmachine or cluster", word)
	}
	var found []*explain.Object
	for _, o := range f.Objects {
		if o.Kind == kind && inGroup(o, word) && selector.Matches(labels.Set(o.Labels)) {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s with labels %s: %w", word, selector, errNoObject)
	}
	return found, nil
}

// inGroup reports whether an object is of the API that a word names with its kind; true without one.
func inGroup(o *explain.Object, word string) bool {
	_, group, _ := strings.Cut(strings.ToLower(word), ".")
	return group == "" || strings.HasPrefix(o.APIVersion, strings.TrimPrefix(group, "v1.")+"/")
}

// resolve finds the objects that a word of the command line names. Both APIs may have one.
func resolve(f *explain.Facts, word string) ([]*explain.Object, error) {
	written, name, hasKind := strings.Cut(word, "/")
	if !hasKind {
		for _, kind := range byName {
			if found := f.Find(kind, word); len(found) > 0 {
				return found, nil
			}
		}
		return nil, fmt.Errorf("%s: %w", word, errNoObject)
	}
	kind, known := kindOf(written)
	if !known {
		return nil, fmt.Errorf("%s: kind %q is not known; use machine, machineset, machinedeployment, mcmmachine, cluster "+
			"or node", word, written)
	}
	found := f.Find(kind, name)
	if kind == explain.KindNode {
		found = f.MachinesOfNode(name)
	}
	found = slices.DeleteFunc(slices.Clone(found), func(o *explain.Object) bool { return !inGroup(o, written) })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", word, errNoObject)
	}
	return found, nil
}

// kindOf is the kind that a word stands for, with or without a group.
func kindOf(written string) (kind string, known bool) {
	short, _, _ := strings.Cut(strings.ToLower(written), ".")
	if kind, known = kinds[short]; !known {
		kind, known = kinds[strings.TrimSuffix(short, "s")]
	}
	return kind, known
}

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
