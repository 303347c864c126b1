package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/migration"
)

var errUnsafe = errors.New("taking over is not safe yet: see what is blocked above")

// newTakeover is the command about fleets of Machine Controller Manager's.
func newTakeover(c *common) *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use:   "takeover",
		Short: "Give a fleet of Machine Controller Manager's to the native door, and back",
	})
	cmd.AddCommand(&cobra.Command{
		Use: "check", Short: "Say whether the native door can take the namespace over, and whether MCM could have it back; " +
			"changes nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			found, err := c.connect(c)
			if err != nil {
				return err
			}
			around, err := migration.ReadSurroundings(cmd.Context(), found.control, found.namespace)
			if err != nil {
				return err
			}
			managers, err := migration.ReadManagers(cmd.Context(), found.control, found.namespace)
			if err != nil {
				return err
			}
			t := migration.CheckTakeover(around, managers, time.Now())
			if err := printTakeover(cmd.OutOrStdout(), c.output, t); err != nil {
				return err
			}
			if !t.Safe() {
				return errUnsafe
			}
			return nil
		},
	})
	return cmd
}
