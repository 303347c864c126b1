package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/steps"
)

// newMigrate is the command that moves pools.
func newMigrate(c *common) *cobra.Command {
	o := &migration.Options{}
	cmd := onlyHelps(&cobra.Command{
		Use: "migrate", Short: "Move pools between the native API and Cluster API without touching a VM",
		Long: "Move pools between the native API and Cluster API without touching a VM.\n\n" +
			"A pool is named NAME or machinedeployment/NAME, machineset/NAME or machine/NAME; the latter two belong to " +
			"nothing above them.",
	})
	cmd.PersistentFlags().DurationVar(&o.Timeout, "timeout", 10*time.Minute,
		"how long one step of apply, rollback or finish may wait for controllers")
	planning, applying := newPlan(c, o), newApply(c, o)
	addMoveFlags(planning.Flags(), o)
	addMoveFlags(applying.Flags(), o)
	cmd.AddCommand(planning, applying, newStatus(c), newRollback(c, o), newFinish(c, o))
	return cmd
}

// addMoveFlags adds what a person decides about a move.
func addMoveFlags(flags *pflag.FlagSet, o *migration.Options) {
	flags.StringVar((*string)(&o.To), "to", string(migration.ClusterAPI), "API to move to: clusterapi or native")
	flags.StringVar(&o.Cluster, "cluster", "",
		"name of the Cluster, in the namespace of the pools, that the machines are to belong to; one that does not exist "+
			"is made. --to native finds it on the pools")
	flags.StringVar(&o.KubeconfigSecret, "kubeconfig-secret", "",
		"Secret, in the namespace of the pools, with the kubeconfig of the cluster with the nodes; empty means the cluster "+
			"with the objects")
	flags.StringSliceVar(&o.Accept, "accept", nil, "fields whose loss is accepted, as a plan spells them")
	d := &o.Defaults
	flags.DurationVar(&d.DrainTimeout, "machine-drain-timeout", 2*time.Hour, "the manager's flag of this name")
	flags.DurationVar(&d.HealthTimeout, "machine-health-timeout", 10*time.Minute, "the manager's flag of this name")
	flags.DurationVar(&d.CreationTimeout, "machine-creation-timeout", 20*time.Minute, "the manager's flag of this name")
	flags.DurationVar(&d.PvDetachTimeout, "machine-pv-detach-timeout", 2*time.Minute, "the manager's flag of this name")
	flags.StringVar(&d.NodeConditions, "node-conditions", "", "the manager's flag of this name; empty means MCM's default")
	flags.StringVar(&d.KubeletVersion, "kubelet-version", "",
		"version that the kubelets of pools without nodes will report, e.g. v1.36.3")
}

// prepare checks what no flag can check for itself, and reaches the clusters.
func prepare(ctx context.Context, c *common, o *migration.Options) (*clusters, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if o.To != migration.ClusterAPI && o.To != migration.Native {
		return nil, fmt.Errorf("--to=%q is neither %s nor %s", o.To, migration.ClusterAPI, migration.Native)
	}
	o.Now = time.Now()
	found, err := c.connect(c)
	if err != nil {
		return nil, err
	}
	o.Apart, err = migration.Apart(ctx, found.control, found.target)
	return found, err
}

// parsePools reads the arguments, each pool once; none are none.
func parsePools(namespace string, args []string) ([]migration.Pool, error) {
	var pools []migration.Pool
	for _, arg := range args {
		p, err := migration.ParsePool(namespace, arg)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(pools, p) {
			pools = append(pools, p)
		}
	}
	return pools, nil
}

var errBlocked = errors.New("not everything can be moved yet: see what is blocked or lost above; --accept=<field> " +
	"accepts a loss")

// newPlan is the command that says what a move would do.
func newPlan(c *common, o *migration.Options) *cobra.Command {
	return &cobra.Command{
		Use: "plan [POOL...]", Short: "Say what a move would do, and change nothing; without a pool, for all of the " +
			"namespace",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := prepare(cmd.Context(), c, o)
			if err != nil {
				return err
			}
			pools, err := parsePools(found.namespace, args)
			if err != nil {
				return err
			}
			plans, err := planPools(cmd.Context(), found, *o, pools)
			if err != nil {
				return err
			}
			if err := printPlans(cmd.OutOrStdout(), c.output, plans); err != nil {
				return err
			}
			for _, p := range plans {
				if len(p.Blocked()) > 0 {
					return errBlocked
				}
			}
			return nil
		},
	}
}

// planPools plans pools; none are all that are on the API to move from.
func planPools(ctx context.Context, c *clusters, o migration.Options, pools []migration.Pool) ([]plan.Plan, error) {
	from := migration.Readers{Control: c.control, Target: c.target}
	fleet, err := migration.ReadFleet(ctx, from, c.namespace, o.Cluster, pools...)
	if err != nil {
		return nil, err
	}
	if len(pools) == 0 {
		fleet = fleet.On(o.To.Other())
	}
	return plan.All(fleet, o), nil
}

// newEngine is an engine that works on the clusters and tells out what it does.
func newEngine(c *clusters, out io.Writer) *steps.Engine {
	timer := clock.RealClock{}
	return steps.New(steps.Deps{
		Control: c.control, Target: c.target, Clock: timer, Wait: wait, Name: uuid.NewString, Identity: identity(),
		Emit: func(about client.Object, reason, message string) {
			emit(c.control, timer.Now(), about, reason, message)
		},
		Progress: func(p steps.Progress) {
			text := string(p.Phase)
			if p.Waiting != "" {
				text += ": waits: " + p.Waiting
			}
			fmt.Fprintf(out, "%s  %s  to %s  %s\n", timer.Now().Format(time.TimeOnly), p.Pool, p.To, text)
		},
	})
}

// identity is the host that the command runs on, as other holders of Leases say it.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		return component
	}
	return host
}

// wait waits for so long, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var (
	errNoPools = errors.New("name the pools, or say --all")
	errAllAnd  = errors.New("name the pools or say --all, not both")
	errRefused = errors.New("see what is blocked or lost above; --accept=<field> accepts a loss")
)

// act is one of the engine's verbs as a command.
type act struct {
	use, short string
	do         func(*steps.Engine, context.Context, migration.Pool, migration.Options) error
	all        func(context.Context, *clusters, migration.Options) ([]migration.Pool, error) // pools of --all
}

// newAct is the command that does a to each pool, one after the other. It stops at
// the first that fails: what is wrong with one is often wrong with all. Of all pools it
// leaves out those that are refused, and fails at the end.
func newAct(c *common, o *migration.Options, a act) *cobra.Command {
	var every bool
	cmd := &cobra.Command{Use: a.use + " POOL...", Short: a.short}
	cmd.Flags().BoolVar(&every, "all", false,
		"all pools of the namespace; those that are refused are left out, with exit code 1")
	cmd.Flags().BoolVar(&o.TakeOver, "take-over", false,
		"go on at once although another command was at the pool a moment ago; only if that is gone for certain")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := prepare(cmd.Context(), c, o)
		if err != nil {
			return err
		}
		pools, err := choose(found.namespace, args, every, func() ([]migration.Pool, error) {
			return a.all(cmd.Context(), found, *o)
		})
		if err != nil {
			return err
		}
		engine := newEngine(found, cmd.ErrOrStderr())
		var refused error
		for _, p := range pools {
			err := explained(cmd.ErrOrStderr(), interrupted(cmd.Context(), p, a.do(engine, cmd.Context(), p, *o)))
			if every && errors.Is(err, errRefused) {
				refused = err
				continue
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(printStatus(cmd.Context(), cmd.OutOrStdout(), c.output, found, pools), refused)
	}
	return cmd
}

// choose are the pools that are named, or all.
func choose(namespace string, args []string, every bool, all func() ([]migration.Pool, error)) ([]migration.Pool,
	error,
) {
	switch {
	case every && len(args) > 0:
		return nil, errAllAnd
	case every:
		return all()
	case len(args) == 0:
		return nil, errNoPools
	}
	return parsePools(namespace, args)
}

// explained prints why a pool is refused, with what is said of many machines once.
func explained(out io.Writer, err error) error {
	refused, ok := errors.AsType[*steps.RefusedError](err)
	if !ok {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", refused.Pool)
	printFindings(out, refused.Findings, nil)
	return fmt.Errorf("%s is not moved: %w", refused.Pool, errRefused)
}

// interrupted says what becomes of a pool whose command was stopped.
func interrupted(ctx context.Context, p migration.Pool, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("stopped while at %s; nothing is lost: the same command goes on, rollback goes back: %w", p, err)
}

func newApply(c *common, o *migration.Options) *cobra.Command {
	return newAct(c, o, act{
		use: "apply", short: "Move pools; the same command goes on after an interruption", do: (*steps.Engine).Apply,
		all: func(ctx context.Context, found *clusters, o migration.Options) ([]migration.Pool, error) {
			plans, err := planPools(ctx, found, o, nil)
			if err != nil {
				return nil, err
			}
			// The new side may be the truth already, so that a plan does not find the pool on the old one any more.
			pools, err := poolsOf(ctx, found, func(r *migration.Record) bool {
				return r.To == o.To && slices.Contains([]migration.Phase{
					migration.PhaseHolding, migration.PhaseCopying, migration.PhaseSwitching,
				}, r.Phase)
			})
			if err != nil {
				return nil, err
			}
			for _, p := range plans {
				if !slices.Contains(pools, p.Pool) {
					pools = append(pools, p.Pool)
				}
			}
			return pools, nil
		},
	})
}

func newRollback(c *common, o *migration.Options) *cobra.Command {
	return newAct(c, o, act{
		use: "rollback", short: "Bring pools back to where their move began, from any phase that is not Finished",
		do: (*steps.Engine).Rollback,
		all: inPhases(migration.PhaseHolding, migration.PhaseCopying, migration.PhaseSwitching, migration.PhaseMoved,
			migration.PhaseFinishing),
	})
}

func newFinish(c *common, o *migration.Options) *cobra.Command {
	return newAct(c, o, act{
		use: "finish", short: "Remove what moves have left on the old API, after a backup",
		do: (*steps.Engine).Finish, all: inPhases(migration.PhaseMoved, migration.PhaseFinishing),
	})
}

// inPhases are the pools whose move is in one of these phases.
func inPhases(phases ...migration.Phase) func(context.Context, *clusters, migration.Options) ([]migration.Pool, error) {
	return func(ctx context.Context, c *clusters, _ migration.Options) ([]migration.Pool, error) {
		return poolsOf(ctx, c, func(r *migration.Record) bool { return slices.Contains(phases, r.Phase) })
	}
}

// poolsOf are the pools of records that are wanted.
func poolsOf(ctx context.Context, c *clusters, wanted func(*migration.Record) bool) ([]migration.Pool, error) {
	records, err := migration.Records(ctx, c.control, c.namespace)
	var pools []migration.Pool
	for i := range records {
		if wanted(&records[i]) {
			pools = append(pools, records[i].Pool)
		}
	}
	return pools, err
}

// newStatus is the command that says how far moves are.
func newStatus(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "status [POOL...]", Short: "Say how far moves are",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			found, err := c.connect(c)
			if err != nil {
				return err
			}
			pools, err := parsePools(found.namespace, args)
			if err != nil {
				return err
			}
			return printStatus(cmd.Context(), cmd.OutOrStdout(), c.output, found, pools)
		},
	}
}

// printStatus prints the records of pools; no pools are all of the namespace.
func printStatus(ctx context.Context, out io.Writer, format string, c *clusters, pools []migration.Pool) error {
	records, err := migration.Records(ctx, c.control, c.namespace)
	if err != nil {
		return err
	}
	records = recordsOf(records, pools)
	people := format == formatTable || format == formatWide
	if len(records) > 0 || len(pools) == 0 || !people {
		if err := printRecords(out, format, records); err != nil || !people {
			return err
		}
	}
	for _, p := range pools {
		if !slices.ContainsFunc(records, func(r migration.Record) bool { return r.Pool == p }) {
			fmt.Fprintf(out, "%s was never moved.\n", p)
		}
	}
	return nil
}

// recordsOf are the records of pools; no pools are all.
func recordsOf(records []migration.Record, pools []migration.Pool) []migration.Record {
	if len(pools) == 0 {
		return records
	}
	return slices.DeleteFunc(records, func(r migration.Record) bool { return !slices.Contains(pools, r.Pool) })
}

func printRecords(out io.Writer, format string, records []migration.Record) error {
	if records == nil {
		records = []migration.Record{}
	}
	if done, err := printed(out, format, records); done {
		return err
	}
	if len(records) == 0 {
		_, err := fmt.Fprintln(out, "No pool has been moved.")
		return err
	}
	rows := [][]string{{"POOL", "TO", "PHASE", "TRUTH", "CLUSTER", "SINCE", "WAITING"}}
	for _, r := range records {
		rows = append(rows, []string{
			r.Pool.String(), string(r.To), string(r.Phase), string(r.Authority()), dash(r.Cluster),
			r.Changed.UTC().Format(time.RFC3339), dash(r.Waiting),
		})
	}
	return table(out, "", rows)
}

const (
	component    = "kubectl-mcm"
	eventTimeout = 10 * time.Second
)

// emit writes an Event at once: a command may end right after. An Event that
// cannot be written is worth no failure; the record says the same.
func emit(c client.Client, at time.Time, about client.Object, reason, message string) {
	gvk, err := apiutil.GVKForObject(about, c.Scheme())
	if err != nil {
		return
	}
	now := metav1.NewTime(at)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: about.GetNamespace(), Name: fmt.Sprintf("%s.%x", about.GetName(), now.UnixNano()),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: about.GetNamespace(), Name: about.GetName(),
			UID: about.GetUID(),
		},
		Type: corev1.EventTypeNormal, Reason: reason, Message: message, Source: corev1.EventSource{Component: component},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	_ = c.Create(ctx, event)
}
