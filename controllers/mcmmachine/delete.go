package mcmmachine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// delete removes the VM with all that was made with it, and then the
// finalizer. Nothing is drained: Cluster API has done that, or decided not to.
func (c *Controller) delete(ctx context.Context, p *pass) error {
	if !slices.Contains(p.object.Finalizers, machinev1.MCMMachineFinalizer) {
		return nil
	}
	done, err := c.ensureVMDeleted(ctx, p)
	if err != nil || !done {
		return err
	}
	if done, err = c.releaseAddresses(ctx, p); err != nil || !done {
		return err
	}
	if err := c.removeNode(ctx, p); err != nil {
		p.did.deletionWaitsFor = conditionFalse(machinev1.ReasonDeletingNode, "The Node could not be deleted: "+err.Error())
		return err
	}
	if err := patch.RemoveFinalizer(ctx, c.Client, p.object.DeepCopy(), machinev1.MCMMachineFinalizer); err != nil {
		return err
	}
	p.did.finalizerRemoved = true
	switch {
	case p.did.vmRetained || p.object.Spec.ProviderID == "":
	case c.engine.Deleting(machinev1.OwnerID(p.object)): // this process has seen it go
		p.did.events = append(p.did.events, kubeEvent{corev1.EventTypeNormal, eventDeleted, "VM " + p.object.Spec.ProviderID +
			" deleted"})
	default:
		p.did.events = append(p.did.events, kubeEvent{
			corev1.EventTypeNormal, eventDeleted, "The cloud does not show VM " + p.object.Spec.ProviderID + " any more",
		})
	}
	return nil
}

// ensureVMDeleted reports whether nothing is left to be removed, or is to be left.
func (c *Controller) ensureVMDeleted(ctx context.Context, p *pass) (bool, error) {
	if p.object.Annotations[machinev1.RetainVMAnnotation] == "true" {
		return true, c.retainVM(ctx, p)
	}
	if neverCreated(p.object) {
		return true, nil
	}
	if shared, err := c.keepSharedVM(ctx, p); shared || err != nil {
		return shared, err
	}
	c.keepConsole(ctx, p)
	done, err := c.deleteVM(ctx, p)
	if err == nil || !outcome.IsCloud(err) {
		return done, err
	}
	if p.object.Annotations[machinev1.ReleaseAnnotation] == "true" && isPermanent(err) {
		p.did.vmRetained = true
		warn(p, eventReleased, fmt.Sprintf("Released by annotation %s; VM %q may still exist", machinev1.ReleaseAnnotation,
			p.object.Spec.ProviderID))
		return true, nil
	}
	p.did.deletionWaitsFor = conditionFalse(outcome.Reason(err), deletionMessage(err))
	n := c.updateLookups(p.object, func(n *lookups) { n.failures++ })
	requeueAfter(p, min(c.retryAfter(p, err, n), longRetry)) // class and Secrets are watched
	return false, nil
}

// keepSharedVM reports whether the VM stays because another MCMMachine has it too.
func (c *Controller) keepSharedVM(ctx context.Context, p *pass) (bool, error) {
	other, err := c.otherMachineWithSameVM(ctx, p)
	if err != nil || other == "" {
		return false, err
	}
	p.did.vmRetained = true
	warn(p, eventRetained, fmt.Sprintf("VM %q not deleted: MCMMachine %s has the same spec.providerID; delete that one "+
		"too to remove the VM", p.object.Spec.ProviderID, other))
	return true, nil
}

// otherMachineWithSameVM is another MCMMachine of the same VM that stays: two that were made by
// hand can adopt it both. The one that goes may not take it along. Empty if there
// is none. Both come from one watch, in order: whoever goes last sees the first go.
func (c *Controller) otherMachineWithSameVM(ctx context.Context, p *pass) (string, error) {
	if p.object.Spec.ProviderID == "" {
		return "", nil
	}
	var list infrav1.MCMMachineList
	same := client.MatchingFields{index.MCMMachineByProviderID: p.object.Spec.ProviderID}
	if err := c.Client.List(ctx, &list, same); err != nil {
		return "", fmt.Errorf("look up MCMMachines by providerID: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].UID != p.object.UID && list.Items[i].DeletionTimestamp.IsZero() {
			return client.ObjectKeyFromObject(&list.Items[i]).String(), nil
		}
	}
	return "", nil
}

// neverCreated reports whether no VM was ever asked for: that is written down first. Where there is a finalizer and
// no owner id, what was written may have been stripped.
func neverCreated(o *infrav1.MCMMachine) bool {
	return o.Spec.ProviderID == "" && !createStarted(o) && madeFrom(o) == "" && !provisioned(o) && !stripped(o)
}

// unjoined is how old a machine without Node is at least to count as one that did not join: one
// that was scaled in before had no time to.
const unjoined = 5 * time.Minute

// keepConsole keeps what the console of a machine says that goes without ever having had a Node.
// It fails and delays nothing: the VM goes with and without it.
func (c *Controller) keepConsole(ctx context.Context, p *pass) {
	m := p.seen.machine
	if m == nil || m.Status.NodeRef.IsDefined() || p.object.Spec.ProviderID == "" || p.seen.cluster == nil ||
		!p.seen.cluster.DeletionTimestamp.IsZero() || p.seen.now.Sub(p.object.CreationTimestamp.Time) < unjoined {
		return
	}
	found, ok := c.Evidence.Keep(ctx, evidence.Case{
		Machine: p.object.Name, Namespace: p.object.Namespace, OwnerID: machinev1.OwnerID(p.object),
		ProviderID: p.object.Spec.ProviderID, Class: className(p.object),
		Pool:     func(ctx context.Context) (evidence.Pool, error) { return evidence.PoolOfCAPIMachine(ctx, c.Live, m) },
		BootData: func(ctx context.Context) [][]byte { return c.bootDataOf(ctx, m) },
		Console:  func(ctx context.Context) (string, error) { return c.engine.Console(ctx, c.vm(p)) },
	})
	if !ok {
		return
	}
	p.did.console = &found
	said := meta.FindStatusCondition(p.object.Status.Conditions, clusterv1.DeletingCondition)
	if said == nil || !strings.HasSuffix(said.Message, evidence.Suffix(found)) {
		warn(p, eventConsole, evidence.Message(found))
	}
}

// bootDataOf is the boot data of a Machine as its bootstrap provider wrote it, if it is still there.
func (c *Controller) bootDataOf(ctx context.Context, m *clusterv1.Machine) [][]byte {
	secret := &corev1.Secret{}
	name := ptr.Deref(m.Spec.Bootstrap.DataSecretName, "")
	if name == "" || c.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, secret) != nil {
		return nil
	}
	return [][]byte{secret.Data[bootstrapDataKey]}
}

// deleteVM reports whether the VM and everything that was created with it is gone.
func (c *Controller) deleteVM(ctx context.Context, p *pass) (bool, error) {
	left, err := c.engine.Delete(ctx, c.vm(p))
	if err != nil {
		return false, err
	}
	if left.Done || left.Reason == machinev1.ReasonDeletingVM {
		c.callSucceeded(p)
	}
	if !left.Done {
		p.did.deletionWaitsFor = conditionFalse(left.Reason, left.Message)
		requeueAfter(p, left.RetryAfter)
	}
	return left.Done, nil
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
	return fmt.Sprintf("%s; the VM cannot be deleted until this is resolved. To remove the "+
		"MCMMachine and leave the VM, set the annotation %s=true",
		err.Error(), machinev1.ReleaseAnnotation)
}

// retainVM leaves the VM, and records on the MCMCluster that it is no orphan.
func (c *Controller) retainVM(ctx context.Context, p *pass) error {
	p.did.vmRetained = true
	if p.seen.infra != nil && !capi.Externally(p.seen.infra) && !neverCreated(p.object) {
		if err := c.recordRetained(ctx, p.seen.infra, machinev1.OwnerID(p.object)); err != nil {
			return err
		}
	}
	warn(p, eventRetained, fmt.Sprintf("VM %q not deleted, as annotation %s asks; remove it in the cloud when it is not "+
		"needed", p.object.Spec.ProviderID, machinev1.RetainVMAnnotation))
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
	machinev1.SetAnnotation(changed, infrav1.RetainedVMsAnnotation, strings.Join(append(ids, id), ","))
	if err := c.Client.Patch(ctx, changed, client.MergeFromWithOptions(infra,
		client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note the retained VM on MCMCluster %s: %w", infra.Name, err)
	}
	return nil
}
