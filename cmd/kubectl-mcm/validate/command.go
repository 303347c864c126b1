// Package validate judges manifests without a cluster and without a cloud: by the schemas and rules
// that the API server has, and with the functions that the controllers and drivers use.
package validate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/clouds"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/manifest"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// Exit codes, besides 0.
const (
	exitProblems = 1
	exitUsage    = 2 // nothing was judged: wrong flags, or files that cannot be read
)

// command are the flags.
type command struct {
	output.Flags
	files             []string
	recursive, strict bool
	drivers           clouds.Options
	namespace         func() string
}

// New returns the command. namespace is that of objects without one.
func New(namespace func() string) *cobra.Command {
	c := &command{namespace: namespace}
	cmd := &cobra.Command{
		Use: "validate -f FILE...", Short: "Judge manifests without a cluster and without a cloud",
		Long: `Judge MachineClasses with the Secrets that they name, the other kinds of the native API, and the
kinds of this project's providers for Cluster API. Schemas and rules are those of this version, the
provider spec of a class is judged by its driver, and objects of other kinds are skipped. Nothing
is asked over the network, and no value of a Secret is printed.

An Error is refused or does not work. A Warning is ignored, such as an unknown field. A Note is
about what is in none of the files, such as the Secret of a class.

The exit code is 0 without errors, 1 with errors, or with anything at all under --strict, and 2 if
flags are wrong or a file cannot be read.`,
		Example: `  # the manifests of a folder
  kubectl mcm validate -f config/pools/

  # what kustomize makes, as a step of CI
  kubectl kustomize overlays/prod | kubectl mcm validate -f - --strict

  # the fields that are wrong, for a program
  kubectl mcm validate -f class.yaml -f secret.yaml -o jsonpath='{.problems[*].field}'`,
		Args: func(cmd *cobra.Command, args []string) error { return asUsage(cobra.NoArgs(cmd, args)) },
		RunE: c.run,
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&c.files, "filename", "f", nil, "file, folder, or - for what comes from a pipe; repeatable")
	flags.BoolVarP(&c.recursive, "recursive", "R", false, "look into the folders of folders too")
	flags.BoolVar(&c.strict, "strict", false, "warnings and notes make the command fail too")
	flags.BoolVar(&c.drivers.Ambient, "ambient-credentials", false,
		"the manager has this flag too: Secrets may lack credentials")
	flags.StringSliceVar(&c.drivers.TokenFolders, "token-folders", nil,
		"the manager has this flag too: Secrets may name files with tokens in these folders")
	c.Add(cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return asUsage(err) })
	return cmd
}

func (c *command) run(cmd *cobra.Command, _ []string) error {
	if err := c.Validate(); err != nil {
		return asUsage(err)
	}
	if len(c.files) == 0 {
		return asUsage(fmt.Errorf("--filename is missing: name files, a folder, or -"))
	}
	report, err := c.judge(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return asUsage(err)
	}
	if c.ForPeople() {
		report.print(cmd.OutOrStdout())
	} else if err := c.printForPrograms(cmd.OutOrStdout(), report); err != nil {
		return err
	}
	if report.count(Error) > 0 || c.strict && len(report.Problems) > 0 {
		return output.ExitCodeError(exitProblems)
	}
	return nil
}

func (c *command) printForPrograms(out io.Writer, report *Report) error {
	if c.Format != output.Name {
		return c.Print(out, report)
	}
	for i := range report.Problems {
		if o := report.Problems[i].Object; o != nil {
			fmt.Fprintln(out, o)
		}
	}
	return nil
}

// judge reads the files and judges what is in them.
func (c *command) judge(ctx context.Context, in io.Reader) (*Report, error) {
	documents, files, err := manifest.Read(c.files, c.recursive, in)
	if err != nil {
		return nil, err
	}
	registry, err := cloud.NewRegistry(clouds.Offline(c.drivers), time.Now)
	if err != nil {
		return nil, err
	}
	known, err := loadSchemas()
	if err != nil {
		return nil, err
	}
	j := &judge{
		namespace: c.namespace(), clouds: registry, schemas: known, manifests: newManifests(),
		report: &Report{
			TypeMeta: metav1.TypeMeta{APIVersion: explain.Version, Kind: "ValidationReport"}, Files: files,
			Problems: []Problem{},
		},
	}
	return j.report, j.all(ctx, documents)
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &output.CodedError{Code: exitUsage, Err: err}
}

// Report is what is wrong with manifests.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Files           int       `json:"files"`
	Judged          int       `json:"judged"`  // objects
	Skipped         int       `json:"skipped"` // objects of kinds of others
	Problems        []Problem `json:"problems"`
}

// Severity is what a problem does.
type Severity string

// The severities.
const (
	Error   Severity = "Error"   // the object is refused, or does not work
	Warning Severity = "Warning" // it is ignored
	Note    Severity = "Note"    // it cannot be judged here
)

// Problem is something wrong with an object.
type Problem struct {
	File     string       `json:"file"`
	Object   *explain.Ref `json:"object,omitempty"` // none: the file has none there
	Field    string       `json:"field,omitempty"`
	Severity Severity     `json:"severity"`
	Message  string       `json:"message"` // what is wrong, and the remedy
}

// String is the line of a problem.
func (p *Problem) String() string {
	parts := []string{p.File}
	if p.Object != nil {
		parts = append(parts, p.Object.Kind+"/"+cmp.Or(p.Object.Name, "(no name)"))
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// count is how many problems have a severity.
func (r *Report) count(s Severity) int {
	n := 0
	for i := range r.Problems {
		if r.Problems[i].Severity == s {
			n++
		}
	}
	return n
}

// sort puts the worst first, and otherwise keeps the order of the files.
func (r *Report) sort() {
	order := []Severity{Error, Warning, Note}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
}

func (r *Report) print(out io.Writer) {
	shades := map[Severity]output.Colour{Error: output.Red, Warning: output.Yellow, Note: output.Plain}
	for i := range r.Problems {
		p := &r.Problems[i]
		fmt.Fprintf(out, "%s %s\n", output.Paint(out, string(p.Severity)+":", shades[p.Severity]), p)
	}
	fmt.Fprintf(out, "%s, %s, %s in %s; %s not judged\n", number(r.count(Error), "error"),
		number(r.count(Warning), "warning"), number(r.count(Note), "note"), number(r.Judged, "object"),
		number(r.Skipped, "object of another kind", "objects of other kinds"))
}

// number is a count with its word, which has a plural of its own or one with an s.
func number(n int, words ...string) string {
	if n == 1 {
		return "1 " + words[0]
	}
	return fmt.Sprintf("%d %s", n, append(words, words[0]+"s")[1])
}
