package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
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
