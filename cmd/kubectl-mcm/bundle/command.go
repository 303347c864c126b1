// Package bundle has kubectl mcm support-bundle: everything that somebody else needs to understand
// a problem, in one archive, without what looks like a secret.
package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/internal/redact"
)

// stdout stands for standard output in --output.
const stdout = "-"

// errNothing is returned for an archive without objects.
var errNothing = errors.New("no object was read: errors.txt in the bundle has the causes; check the namespace, and " +
	"your permissions with kubectl auth can-i list machines")

type options struct {
	deps          inspect.Deps
	version       string
	allNamespaces bool
	file          string
	metricsURLs   []string
}

// New is the command. version is that of the plugin.
func New(d inspect.Deps, version string) *cobra.Command {
	o := &options{deps: d, version: version}
	cmd := &cobra.Command{
		Use: "support-bundle", Short: "Collect what others need to understand a problem, without secrets",
		Long: `Write an archive with the objects of both APIs, their Events, the Nodes and PodDisruptionBudgets,
what tree, why and timeline print, versions, and the manager's Deployments with logs.

Secrets are not read, but those with consoles of machines that did not join, which the manager has
redacted. What looks like a secret is replaced by [redacted]: values of
fields and variables that are called like one, boot data, keys, tokens, and signatures of URLs. Look
through the archive before you give it away: a secret that looks like any other word stays.

What cannot be read is left out, and told in errors.txt.`,
		Example: `  # the namespace of a cluster
  kubectl mcm support-bundle -n garden

  # everything, with the metrics of the manager through a port-forward
  kubectl mcm support-bundle -A --metrics-url http://127.0.0.1:10258/metrics

  # look through it before it exists as a file
  kubectl mcm support-bundle -n garden -o - | tar xzO | less`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "read the objects of all namespaces")
	flags.StringVarP(&o.file, "output", "o", "",
		"file to write; - is standard output, empty a file in this directory whose name has the time")
	flags.StringArrayVar(&o.metricsURLs, "metrics-url", nil,
		"URL of the manager's metrics, or a path at the API server; can be repeated; none leaves them out")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	clusters, err := o.deps.Connect()
	if err != nil {
		return err
	}
	if o.allNamespaces {
		clusters.Namespace = ""
	}
	c := &collector{
		options: o, Clusters: clusters, now: o.deps.Now(), files: map[string]string{}, Redactor: redact.New(),
	}
	c.all(cmd.Context())
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	name := "kubectl-mcm-bundle-" + c.now.UTC().Format("20060102T150405Z")
	file := cmp.Or(o.file, name+".tar.gz")
	archive, err := c.archive(name)
	if err != nil {
		return err
	}
	if err := write(cmd.OutOrStdout(), file, archive); err != nil {
		return fmt.Errorf("--output=%q: %w", file, err)
	}
	list := cmd.OutOrStdout()
	if file == stdout {
		list = cmd.ErrOrStderr()
	}
	c.list(list, file)
	if c.objects == 0 && len(c.errors) > 0 {
		return errNothing
	}
	return nil
}

// write writes an archive that only its owner may read, all of it or none.
func write(out io.Writer, file string, archive []byte) error {
	if file == stdout {
		_, err := out.Write(archive)
		return err
	}
	begun, err := os.CreateTemp(filepath.Dir(file), ".kubectl-mcm-bundle-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = begun.Write(archive)
	if err = errors.Join(err, begun.Close()); err == nil {
		err = os.Rename(begun.Name(), file)
	}
	if err != nil {
		_ = os.Remove(begun.Name())
	}
	return err
}

// archive is a tar.gz of the files in a directory of that name.
func (c *collector) archive(name string) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, file := range slices.Sorted(maps.Keys(c.files)) {
		header := &tar.Header{
			Name: name + "/" + file, Mode: 0o600, Size: int64(len(c.files[file])), ModTime: c.now.Truncate(time.Second),
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(archive, c.files[file]); err != nil {
			return nil, err
		}
	}
	err := errors.Join(archive.Close(), compressed.Close())
	return out.Bytes(), err
}

// list tells what is in the archive.
func (c *collector) list(out io.Writer, file string) {
	rows := [][]output.Cell{output.Row("FILE", "BYTES")}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		rows = append(rows, output.Row(name, strconv.Itoa(len(c.files[name]))))
	}
	output.PrintTable(out, rows)
	fmt.Fprintln(out)
	if n := len(c.errors); n > 0 {
		fmt.Fprintf(out, "Warning: not read, see errors.txt: %d of what was asked for\n", n)
	}
	if file != stdout {
		fmt.Fprintf(out, "Written: %s\n", file)
	}
	fmt.Fprintln(out, "No Secret was read but those with consoles, and what looks like a secret is redacted. Look "+
		"through it before you give it away.")
}
