// Package plan tells what a change of manifests does before it is applied: which machines it creates,
// replaces or updates, and what will be in its way. Nothing is written: every request that would is a
// dry run of the API server.
package plan

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/clouds"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/manifest"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
)

// Clusters are the two clusters that the APIs work on.
type Clusters struct {
	Control   client.Client
	Target    client.Reader
	Namespace string
}

// Deps are what the command uses.
type Deps struct {
	Connect func() (Clusters, error)
	Now     func() time.Time
	// Complete completes the names of MachineDeployments.
	Complete cobra.CompletionFunc
}

// command are the flags.
type command struct {
	output.Flags
	Deps
	files     []string
	recursive bool
	class     string
	drivers   clouds.Options
}

// New returns the command.
func New(d Deps) *cobra.Command {
	c := &command{Deps: d}
	cmd := &cobra.Command{
		Use: "plan -f FILE... | plan POOL --class CLASS", Short: "Tell what a change does before it is applied",
		Long: `Tell what a change will do before it is applied: nothing, a change of the object alone, of machines in
place, or machines that are created, deleted or replaced; with which surge, about how long, and what
is known to be in its way: PodDisruptionBudgets, missing capacity or quota, and a MachineClass that
is missing or invalid.

Files are sent to the API server as a dry run, merged as kubectl apply does, so that its admission and the
rules of the CRDs judge them. What the controllers do then is decided with their own functions. Without the
right to change the objects, the change is made here, and a warning says so. Nothing is written.

The exit code is 0 if no machine that runs is touched, 1 if the change is refused, 3 if machines are
deleted, replaced or drained, and 4 if something known will be in the way.`,
		Example: `  # what would these manifests do?
  kubectl mcm plan -f pools/ -n garden

  # what would another class do to this pool?
  kubectl mcm plan workers --class workers-v2 -n garden

  # a step of CI that stops where machines are replaced
  kubectl kustomize overlays/prod | kubectl mcm plan -f - || exit 1

  # the machines that would be drained, for a program
  kubectl mcm plan -f pool.yaml -o jsonpath='{.items[*].machines.drained[*]}'`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: d.Complete, RunE: c.run,
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&c.files, "filename", "f", nil, "file, folder, or - for what comes from a pipe; repeatable")
	flags.BoolVarP(&c.recursive, "recursive", "R", false, "look into the folders of folders too")
	flags.StringVar(&c.class, "class", "", "MachineClass that the pool would get, e.g. workers-v2")
	flags.BoolVar(&c.drivers.Ambient, "ambient-credentials", false,
		"the manager has this flag too: Secrets may lack credentials")
	c.Add(cmd)
	return cmd
}

func (c *command) run(cmd *cobra.Command, args []string) error {
	if err := c.validate(args); err != nil {
		return err
	}
	clusters, err := c.Connect()
	if err != nil {
		return err
	}
	p, err := c.planner(clusters)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		err = p.withClass(cmd.Context(), args[0], c.class)
	} else {
		var documents []manifest.Document
		if documents, _, err = manifest.Read(c.files, c.recursive, cmd.InOrStdin()); err == nil {
			err = p.withFiles(cmd.Context(), documents)
		}
	}
	if err != nil {
		return err
	}
	output.Warn(cmd.ErrOrStderr(), p.plan.Unread)
	for _, text := range p.warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", text)
	}
	if err := c.print(cmd.OutOrStdout(), &p.plan); err != nil {
		return err
	}
	if code := p.plan.code(); code != 0 {
		return output.ExitCodeError(code)
	}
	return nil
}

// validate refuses flags that name no change, or two.
func (c *command) validate(args []string) error {
	switch {
	case len(args) == 0 && c.class != "":
		return fmt.Errorf("--class=%s names no pool: add its name", c.class)
	case len(args) == 0 && len(c.files) == 0:
		return fmt.Errorf("no change is named: name files with -f, or a pool and its --class")
	case len(args) == 1 && len(c.files) > 0:
		return fmt.Errorf("both %s and -f are named: name one of them", args[0])
	case len(args) == 1 && c.class == "":
		return fmt.Errorf("%s: no change is named: add --class, or use -f", args[0])
	}
	return c.Validate()
}
