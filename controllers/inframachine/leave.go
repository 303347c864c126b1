package inframachine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// delete removes the VM with all that was made with it, and lets the MCMMachine
// go. Nothing is drained: Cluster API has done that, or decided not to.
func (c *Controller) delete(ctx context.Context, f *facts) error {
	if !slices.Contains(f.object.Finalizers, machinev1.MCMMachineFinalizer) {
		return nil
	}
	done, err := c.ensureVMDeleted(ctx, f)
	if err != nil || !done {
		return err
	}
	if err := c.removeNode(ctx, f); err != nil {
		f.deletionWaitsFor = conditionFalse(machinev1.ReasonDeletingNode, "The Node could not be deleted: "+err.Error())
		return err
	}
	if err := capi.DropFinalizer(ctx, c.Client, f.object.DeepCopy(), machinev1.MCMMachineFinalizer); err != nil {
		return err
	}
	f.finalizerRemoved = true
	if !f.vmRetained && f.object.Spec.ProviderID != "" {
		f.events = append(f.events, kubeEvent{corev1.EventTypeNormal, eventDeleted, "VM " + f.object.Spec.ProviderID +
			" is gone"})
	}
	return nil
}

// ensureVMDeleted reports whether nothing is left to be removed, or is to be left.
func (c *Controller) ensureVMDeleted(ctx context.Context, f *facts) (bool, error) {
	if f.object.Annotations[machinev1.RetainVMAnnotation] == "true" {
		return true, c.retainVM(ctx, f)
	}
	if neverCreated(f.object) {
		return true, nil
	}
	other, err := c.otherMachineWithSameVM(ctx, f)
	if err != nil {
		return false, err
	}
	if other != "" {
		f.vmRetained = true
		warn(f, eventRetained, fmt.Sprintf("VM %q stays: spec.providerID of MCMMachine %s names it too, and that one is "+
			"not being deleted", f.object.Spec.ProviderID, other))
		return true, nil
	}
	done, err := c.deleteVM(ctx, f)
	switch {
	case err == nil && !done:
		return false, nil
	case err == nil:
		return true, nil
	case !isCloud(err):
		return false, err
	}
	if f.object.Annotations[machinev1.ReleaseAnnotation] == "true" && isPermanent(err) {
		f.vmRetained = true
		warn(f, eventReleased, fmt.Sprintf("Released by annotation %s; VM %q may still exist", machinev1.ReleaseAnnotation,
			f.object.Spec.ProviderID))
		return true, nil
	}
	f.deletionWaitsFor = conditionFalse(reasonOf(err), deletionMessage(err))
	n := c.updateLookups(f.object, func(n *lookups) { n.failures++ })
	requeueAfter(f, min(c.retryAfter(f, err, n), longRetry)) // class and Secrets are watched
	return false, nil
}

// otherMachineWithSameVM is another MCMMachine of the same VM that stays: two that were made by
// hand can adopt it both. The one that goes may not take it along. Empty if there
// is none. Both come from one watch, in order: whoever goes last sees the first go.
func (c *Controller) otherMachineWithSameVM(ctx context.Context, f *facts) (string, error) {
	if f.object.Spec.ProviderID == "" {
		return "", nil
	}
	var list infrav1.MCMMachineList
	if err := c.Client.List(ctx, &list, client.MatchingFields{index.MCMMachineByProviderID: f.object.Spec.ProviderID}); err != nil {
		return "", fmt.Errorf("look up MCMMachines by providerID: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].UID != f.object.UID && list.Items[i].DeletionTimestamp.IsZero() {
			return client.ObjectKeyFromObject(&list.Items[i]).String(), nil
		}
	}
	return "", nil
}

// neverCreated reports whether no VM was ever asked for: that is written down first.
func neverCreated(o *infrav1.MCMMachine) bool {
	return o.Spec.ProviderID == "" && !createStarted(o) && o.Annotations[infrav1.MadeFromAnnotation] == "" && !provisioned(o)
}

// deleteVM asks for the VM and what was made with it to go.
func (c *Controller) deleteVM(ctx context.Context, f *facts) (bool, error) {
	resolved, err := c.resolve(ctx, f)
	if err != nil {
		return false, err
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return false, err
	}
	d, err := c.engine.Remove(ctx, account, c.unconfirmedCreates(f, resolved.Driver.Traits()), ref(f, resolved))
	if err != nil {
		return false, err
	}
	c.callSucceeded(f)
	if d.Done {
		return true, nil
	}
	message := "The VM is being deleted"
	if len(d.Remaining) > 0 {
		message += ", there is still " + strings.Join(d.Remaining, ", ")
	}
	f.deletionWaitsFor = conditionFalse(machinev1.ReasonDeletingVM, message)
	requeueAfter(f, d.RetryAfter)
	return false, nil
}

// formerLeaderReach is for how long a manager that has lost its lease may still finish what
// it was about to do: it renews every few seconds and gives up after ten.
const formerLeaderReach = 20 * time.Second

// unconfirmedCreates are the cloud's traits, with a longer wait before nothing is believed to
// be there where another process has asked for a VM that was never recorded: that
// may be stalled, and ask for it late.
func (c *Controller) unconfirmedCreates(f *facts, traits cloud.Traits) cloud.Traits {
	if f.object.Spec.ProviderID == "" && !c.engine.HasCreated(machinev1.OwnerID(f.object)) {
		traits.Settle += formerLeaderReach
	}
	return traits
}

// isPermanent reports whether err lasts until somebody brings class or credentials back.
func isPermanent(err error) bool {
	code := cloud.CodeOf(err)
	return code == cloud.Invalid || code == cloud.Denied
}

func deletionMessage(err error) string {
	if !isPermanent(err) {
		return "The VM could not be deleted: " + err.Error()
	}
	return fmt.Sprintf("%s. Without it the VM cannot be deleted; restore it, or set the annotation %s=true to let the "+
		"MCMMachine go without its VM",
		err.Error(), machinev1.ReleaseAnnotation)
}

// retainVM leaves the VM, and notes on the MCMCluster that it is nobody's orphan.
func (c *Controller) retainVM(ctx context.Context, f *facts) error {
	f.vmRetained = true
	if f.infra != nil && !capi.Externally(f.infra) && !neverCreated(f.object) {
		if err := c.recordRetained(ctx, f.infra, machinev1.OwnerID(f.object)); err != nil {
			return err
		}
	}
	warn(f, eventRetained, fmt.Sprintf("VM %q stays, as the annotation %s asks", f.object.Spec.ProviderID,
		machinev1.RetainVMAnnotation))
	return nil
}

func (c *Controller) recordRetained(ctx context.Context, infra *infrav1.MCMCluster, id string) error {
	var ids []string
	if all := infra.Annotations[infrav1.RetainedVMsAnnotation]; all != "" {
		ids = strings.Split(all, ",")
	}
	if slices.Contains(ids, id) {
		return nil
	}
	changed := infra.DeepCopy()
	capi.SetAnnotation(changed, infrav1.RetainedVMsAnnotation, strings.Join(append(ids, id), ","))
	if err := c.Client.Patch(ctx, changed, client.MergeFromWithOptions(infra,
		client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note the retained VM on MCMCluster %s: %w", infra.Name, err)
	}
	return nil
}
