// Package inspect has the verbs of kubectl mcm that only read the clusters: tree, why, timeline and top.
// They need no credentials of a cloud, and only the permissions of config/rbac/reader_role.yaml.
package inspect

import (
	"fmt"
	"net/http"
	"net/url"
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
