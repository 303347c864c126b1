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
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/steps"
)

// newEngine is an engine that works on the clusters and tells out what it does.
func newEngine(c *clusters, out io.Writer) *steps.Engine {
	timer := clock.RealClock{}
	return steps.New(steps.Deps{
		Control: c.control, Target: c.target, Clock: timer, Wait: wait, Name: uuid.NewString, Identity: identity(),
		Events: &recorder{client: c.control, clock: timer},
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
			pools, err := begun(ctx, found, o.To)
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

// begun are the pools on their way to an API: the new side may be the truth already,
// so that a plan does not find them on the old one any more.
func begun(ctx context.Context, found *clusters, to migration.API) ([]migration.Pool, error) {
	records, err := migration.Records(ctx, found.control, found.namespace)
	if err != nil {
		return nil, err
	}
	var pools []migration.Pool
	for _, r := range records {
		if r.To == to && slices.Contains([]migration.Phase{
			migration.PhaseHolding, migration.PhaseCopying,
			migration.PhaseSwitching,
		}, r.Phase) {
			pools = append(pools, r.Pool)
		}
	}
	return pools, nil
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
		records, err := migration.Records(ctx, c.control, c.namespace)
		if err != nil {
			return nil, err
		}
		var pools []migration.Pool
		for _, r := range records {
			for _, p := range phases {
				if r.Phase == p {
					pools = append(pools, r.Pool)
				}
			}
		}
		return pools, nil
	}
}
