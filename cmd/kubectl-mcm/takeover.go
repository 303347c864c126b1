package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/takeover"
)

var errUnsafe = errors.New("taking over is not safe yet: see what is blocked above")

// newTakeover is the command about fleets of Machine Controller Manager's.
func newTakeover(c *common) *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use:   "takeover",
		Short: "Give a fleet of Machine Controller Manager's to the native API, and back",
	})
	var drivers []string
	check := &cobra.Command{
		Use: "check", Short: "Report whether the native API can take the namespace over, and whether MCM could have it " +
			"back; " +
			"changes nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			found, err := c.connect(c)
			if err != nil {
				return err
			}
			around, err := migration.ReadNamespace(cmd.Context(), found.control, found.namespace)
			if err != nil {
				return err
			}
			managers, err := takeover.ReadManagers(cmd.Context(), found.control, found.namespace)
			if err != nil {
				return err
			}
			managers.Drivers = drivers
			if managers.SecretTypes, err = takeover.ReadSecretTypes(cmd.Context(), found.target); err != nil {
				return err
			}
			t := takeover.Check(around, managers, time.Now())
			if err := printTakeover(cmd.OutOrStdout(), c.output, t); err != nil {
				return err
			}
			if !t.Safe() {
				return errUnsafe
			}
			return nil
		},
	}
	check.Flags().StringSliceVar(&drivers, "drivers", nil,
		"names of the drivers of the manager that takes over, as it logs them when it starts; classes of other clouds are "+
			"then blocked")
	cmd.AddCommand(check)
	return cmd
}
