package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

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
