package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
)

var errChoose = errors.New("name the VMs, or use --all for those that kubectl mcm orphans list shows")

// newOrphans is the command for orphan VMs that the collector does not remove by itself.
func newOrphans(c *common) *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use: "orphans", Short: "Show and decide about VMs without a machine that are held because they are many",
		Long: `The manager removes VMs that have no machine. Where they are more than three and more
than a tenth of an account's VMs, it removes none and waits: the objects are more likely
lost than the VMs, e.g. after a restore of the API server's backup.`,
	})
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the VMs that wait for a decision", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return c.withClasses(cmd, func(_ context.Context, _ *clusters, found []recovery.Listing) error {
					return printHeld(cmd.OutOrStdout(), c.output, found)
				})
			},
		},
		newDecide(c, "approve", "Have VMs removed", machinev1.ApprovedOrphansAnnotation),
		newAdopt(c),
		newDecide(c, "keep", "Have VMs left alone for good", machinev1.KeptOrphansAnnotation),
	)
	return cmd
}

// newDecide is a command that adds VMs to an annotation of their class.
func newDecide(c *common, verb, short, annotation string) *cobra.Command {
	var every bool
	cmd := &cobra.Command{
		Use: verb + " (VM... | --all)", Short: short,
		Example: fmt.Sprintf("  kubectl mcm orphans %[1]s -n garden i-0123456789abcdef0\n"+
			"  kubectl mcm orphans %[1]s -n garden --all", verb),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every == (len(args) > 0) {
				return errChoose
			}
			return c.withClasses(cmd, func(ctx context.Context, found *clusters, held []recovery.Listing) error {
				return decision{annotation, args}.write(ctx, cmd.OutOrStdout(), found, held)
			})
		},
	}
	cmd.Flags().BoolVar(&every, "all", false, "all VMs that are listed")
	return cmd
}

// withClasses calls do with what the classes of the namespace list of VMs.
func (c *common) withClasses(cmd *cobra.Command, do func(context.Context, *clusters, []recovery.Listing) error) error {
	if err := c.validate(); err != nil {
		return err
	}
	found, err := c.connect(c)
	if err != nil {
		return err
	}
	var list machinev1.MachineClassList
	if err := found.control.List(cmd.Context(), &list, client.InNamespace(found.namespace)); err != nil {
		return fmt.Errorf("list MachineClasses: %w", err)
	}
	held, err := recovery.Listings(list.Items)
	if err != nil {
		return err
	}
	return do(cmd.Context(), found, held)
}

func printHeld(out io.Writer, format string, held []recovery.Listing) error {
	if done, err := printed(out, format, held); done {
		return err
	}
	if len(held) == 0 {
		_, err := fmt.Fprintln(out, "No VM waits for a decision.")
		return err
	}
	rows := [][]string{{"VM", "MACHINE", "CLASS", "WHY"}}
	for _, h := range held {
		fmt.Fprintf(out, "MachineClass %s: %d of %d VMs have no machine; %s.\n", h.Class, h.Count, h.VMs, removal(h))
		for _, o := range h.Orphans {
			rows = append(rows, []string{o.ID, dash(o.Machine), h.Class, o.Why})
		}
		if more := h.Count - len(h.Orphans); more > 0 {
			fmt.Fprintf(out, "%d more are listed once these are decided.\n", more)
		}
	}
	fmt.Fprintln(out)
	return table(out, "", rows)
}

// removal is what the collector does about orphans without a decision.
func removal(h recovery.Listing) string {
	if h.ReportOnly {
		return "the orphan collector only reports, so none is removed"
	}
	return fmt.Sprintf("up to %d would be removed without a decision", h.Limit)
}

// decision is one about VMs; no VMs are all that are listed.
type decision struct {
	annotation string
	vms        []string
}

// write adds the VMs to the annotation of the classes that list them.
func (d decision) write(ctx context.Context, out io.Writer, c *clusters, held []recovery.Listing) error {
	left := slices.Clone(d.vms)
	for _, h := range held {
		var ids []string
		for _, o := range h.Orphans {
			if len(d.vms) == 0 || slices.Contains(d.vms, o.ID) {
				ids = append(ids, o.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		if err := addIDs(ctx, c, h.Class, d.annotation, ids); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(id string) bool { return slices.Contains(ids, id) })
		fmt.Fprintf(out, "MachineClass %s: annotation %s has %d more VMs.\n", h.Class, d.annotation, len(ids))
	}
	if len(left) > 0 || len(held) == 0 {
		return fmt.Errorf("%s: no such VM waits for a decision; see kubectl mcm orphans list", dash(strings.Join(left, ", ")))
	}
	return nil
}

func addIDs(ctx context.Context, c *clusters, class, annotation string, ids []string) error {
	object := &machinev1.MachineClass{}
	if err := c.control.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: class}, object); err != nil {
		return fmt.Errorf("read MachineClass %s: %w", class, err)
	}
	before := object.DeepCopy()
	all := append(machinev1.OrphanIDs(object.Annotations[annotation]), ids...)
	slices.Sort(all)
	machinev1.SetAnnotation(object, annotation, strings.Join(slices.Compact(all), ","))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.control.Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("write MachineClass %s: %w", class, err)
	}
	return nil
}
