package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery/steps"
)

var errNotRecovered = errors.New("not every VM can be recovered yet: see what is blocked above")

// recovering are the flags of commands that recover machines.
type recovering struct {
	recovery.Options
	timeout time.Duration
}

// newRecover is the command that recreates the Machines of VMs.
func newRecover(c *common) *cobra.Command {
	o := &recovering{}
	cmd := onlyHelps(&cobra.Command{
		Use: "recover", Short: "Recreate the Machines of VMs whose Machines were lost, e.g. by a restore of etcd",
		Long: `Recreate the Machines (for Cluster API: Machines and MCMMachines) of VMs whose Machines
were lost, e.g. because etcd was restored from a backup. The VMs are those that
"kubectl mcm orphans list" shows. No VM is created, replaced or deleted: the new Machine
has the name, the owner ID and the providerID of the VM, and joins its MachineSet, whose
replicas grow if they are too few.`,
	})
	plan := &cobra.Command{
		Use: "plan [VM...]", Short: "Show what would be created and changed, and change nothing; without a VM, for all",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.VMs = args
			_, err := o.plan(cmd, c)
			return err
		},
	}
	apply := &cobra.Command{
		Use: "apply [VM...]", Short: "Recover VMs; the same command goes on after an interruption; without a VM, all",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.VMs = args
			return o.apply(cmd, c)
		},
	}
	o.addFlags(plan.Flags())
	o.addFlags(apply.Flags())
	o.addTimeout(apply.Flags())
	cmd.AddCommand(plan, apply)
	return cmd
}

// newAdopt is the command that recovers VMs one has decided about.
func newAdopt(c *common) *cobra.Command {
	o := &recovering{}
	var every, dryRun bool
	cmd := &cobra.Command{
		Use: "adopt (VM... | --all)", Short: "Recreate the Machines of VMs, as kubectl mcm recover does",
		Example: "  kubectl mcm orphans adopt -n garden i-0123456789abcdef0 --dry-run\n" +
			"  kubectl mcm orphans adopt -n garden --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if every == (len(args) > 0) {
				return errChoose
			}
			o.VMs = args
			if dryRun {
				_, err := o.plan(cmd, c)
				return err
			}
			return o.apply(cmd, c)
		},
	}
	cmd.Flags().BoolVar(&every, "all", false, "all VMs that are listed")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be created and changed, and change nothing")
	o.addFlags(cmd.Flags())
	o.addTimeout(cmd.Flags())
	return cmd
}

func (o *recovering) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Set, "set", "", "MachineSet of the VMs whose name does not tell theirs")
	flags.StringVar(&o.Class, "class", "",
		"MachineClass of VMs that belong to no MachineSet: each gets a Machine of its own; native API only")
	flags.BoolVar(&o.AcceptRollout, "accept-rollout", false,
		"recover machines also into a MachineSet that its MachineDeployment is replacing by a newer one")
}

func (o *recovering) addTimeout(flags *pflag.FlagSet) {
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long to wait for controllers")
}

// plan prints the plan. It fails if a VM is blocked.
func (o *recovering) plan(cmd *cobra.Command, c *common) (*clusters, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	found, err := c.connect(c)
	if err != nil {
		return nil, err
	}
	state, err := recovery.Read(cmd.Context(), found.control, found.target, found.namespace)
	if err != nil {
		return nil, err
	}
	p := recovery.Of(state, o.Options)
	if unknown := p.Unknown(o.Options); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: no such VM is listed; see kubectl mcm orphans list", strings.Join(unknown, ", "))
	}
	if err := printRecovery(cmd.OutOrStdout(), c.output, p); err != nil {
		return nil, err
	}
	if p.Count(recovery.Blocked) > 0 {
		err = errNotRecovered
	}
	return found, err
}

// apply prints the plan and carries it out. VMs that are blocked are left out, and it fails
// at the end.
func (o *recovering) apply(cmd *cobra.Command, c *common) error {
	found, refused := o.plan(cmd, c)
	if refused != nil && !errors.Is(refused, errNotRecovered) {
		return refused
	}
	progress := cmd.ErrOrStderr()
	engine := steps.New(steps.Deps{
		Control: found.control, Target: found.target, Clock: clock.RealClock{}, Wait: wait, Name: uuid.NewString,
		Progress: func(text string) { fmt.Fprintf(progress, "%s  %s\n", time.Now().Format(time.TimeOnly), text) },
	})
	n, err := o.run(cmd.Context(), engine, found.namespace)
	fmt.Fprintf(progress, "%d machines recovered.\n", n)
	return errors.Join(err, refused)
}

func (o *recovering) run(ctx context.Context, engine *steps.Engine, namespace string) (int, error) {
	return engine.Run(ctx, namespace, o.Options, o.timeout)
}

// printRecovery prints a plan: the VMs, then the pools that change.
func printRecovery(out io.Writer, format string, p recovery.Plan) error {
	if done, err := printed(out, format, p); done {
		return err
	}
	if len(p.VMs) == 0 && len(p.Pools) == 0 && len(p.Held) == 0 {
		_, err := fmt.Fprintln(out, "No VM has lost its machine, as far as MachineClasses list them.")
		return err
	}
	if err := printVMs(out, p.VMs); err != nil {
		return err
	}
	for i := range p.Pools {
		printPool(out, &p.Pools[i])
	}
	if p.Unlisted > 0 {
		fmt.Fprintf(out, "%d more VMs are listed once these are recovered; then use the command again.\n", p.Unlisted)
	}
	if len(p.Held) > 0 {
		fmt.Fprintf(out, "%d objects are still held by an earlier run; apply releases them.\n", len(p.Held))
	}
	return nil
}

// printVMs prints what becomes of VMs, and what a person should know or do first.
func printVMs(out io.Writer, vms []recovery.VMPlan) error {
	rows := [][]string{{"VM", "MACHINE", "API", "MACHINESET", "NODE", "VERDICT"}}
	for i := range vms {
		v := &vms[i]
		rows = append(rows, []string{v.ID, dash(v.Machine), string(v.API), dash(v.Set), dash(v.Node), string(v.Verdict)})
	}
	if err := table(out, "", rows); err != nil {
		return err
	}
	for i := range vms {
		v := &vms[i]
		if v.Verdict == recovery.Blocked {
			fmt.Fprintf(out, "VM %s is blocked: %s; %s\n", v.ID, v.Reason, v.Remedy)
		}
		for _, note := range v.Notes {
			fmt.Fprintf(out, "VM %s: %s\n", v.ID, note)
		}
	}
	return nil
}

func printPool(out io.Writer, p *recovery.PoolPlan) {
	fmt.Fprintf(out, "MachineSet %s: %d machines, and %d recovered\n", p.Set, p.Machines, p.Recovered)
	if c := p.Replicas; c != nil {
		fmt.Fprintf(out, "  spec.replicas of the MachineSet: %d, becomes %d; else machines would be deleted\n", c.From, c.To)
	}
	if c := p.DeploymentReplicas; c != nil {
		fmt.Fprintf(out, "  spec.replicas of MachineDeployment %s: %d, becomes %d; change it where it is applied from, too\n",
			p.Deployment, c.From, c.To)
	}
	if c := p.Ordinals; c != nil {
		fmt.Fprintf(out, "  names of machines: the next %d are skipped, as some of them are in use\n", c.To-c.From)
	}
	for _, note := range p.Notes {
		fmt.Fprintf(out, "  %s\n", note)
	}
}

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
