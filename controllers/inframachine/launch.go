package inframachine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// How long the steps wait where nothing wakes them.
const (
	staleRetry   = time.Second      // the newer version arrives by watch; this only guards against a lost event
	providerIDRetry    = 5 * time.Second  // a cloud knows a VM's place, and so its providerID, within seconds
	shortRetry  = 5 * time.Second  // after errors that pass
	longRetry = 3 * time.Minute  // when they last
	pendingVMCheck  = 10 * time.Second // while a VM boots
)

// launch gives a MCMMachine its VM, unless it has one: that is looked at.
func (c *Controller) launch(ctx context.Context, f *facts) error {
	switch known := f.object.Spec.ProviderID != ""; {
	case createStarted(f.object) && known:
		return c.ensure(ctx, f)
	case known, provisioned(f.object):
		return c.checkVM(ctx, f)
	case !f.cluster.DeletionTimestamp.IsZero(), !f.machine.DeletionTimestamp.IsZero():
		f.vmCondition = conditionFalse(infrav1.ReasonDeleting, "Cluster or Machine is being deleted, no VM is made any more")
		return nil // the deletion of this object follows, and removes what was asked for
	case createStarted(f.object):
		return c.resumeCreate(ctx, f)
	}
	return c.startCreate(ctx, f)
}

// resumeCreate goes on asking for a VM that is not known yet.
func (c *Controller) resumeCreate(ctx context.Context, f *facts) error {
	if f.object.Annotations[infrav1.MadeFromAnnotation] != f.object.Spec.MachineClassRef.Name {
		return c.switchClass(ctx, f)
	}
	return c.ensure(ctx, f)
}

// startCreate asks for a VM for the first time, once it may.
func (c *Controller) startCreate(ctx context.Context, f *facts) error {
	if waits := waitsFor(f); waits != nil {
		f.vmCondition = waits
		return c.reportClassProblems(ctx, f) // Cluster, Machine, class and Secrets are watched
	}
	other, err := c.duplicateOwnerID(ctx, f)
	if err != nil {
		return err
	}
	if other != "" {
		f.vmCondition = conditionFalse(infrav1.ReasonOwnerIDTaken,
			fmt.Sprintf("MCMMachine %s has the same %s; remove that annotation from the template that sets it, and delete one "+
				"of the Machines",
				other, machinev1.OwnerIDAnnotation))
		requeueAfter(f, longRetry)
		return nil
	}
	return c.ensure(ctx, f)
}

// reportClassProblems says what of the class has to be corrected, while the VM waits for
// something else that may never come as long as it is so.
func (c *Controller) reportClassProblems(ctx context.Context, f *facts) error {
	resolved, err := c.resolve(ctx, f)
	if err != nil {
		return err
	}
	if problem := resolved.Err(cloud.BlocksCreate); problem != nil {
		f.vmCondition = conditionFalse(reasonOf(problem), message(problem))
	}
	return nil
}

// duplicateOwnerID is another MCMMachine with the same durable id, which would get the same
// VM: an annotation that a template hands on to all. Empty if there is none.
func (c *Controller) duplicateOwnerID(ctx context.Context, f *facts) (string, error) {
	var list infrav1.MCMMachineList
	if err := c.Client.List(ctx, &list, client.MatchingFields{index.MCMMachineByOwnerID: machinev1.OwnerID(
		f.object)}); err != nil {
		return "", fmt.Errorf("look up MCMMachines by owner id: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].UID != f.object.UID {
			return client.ObjectKeyFromObject(&list.Items[i]).String(), nil
		}
	}
	return "", nil
}

// createStarted reports whether a VM was asked for that is not known to be complete. The
// intent is written before the first call, and goes with the write that records
// a complete VM.
func createStarted(o *infrav1.MCMMachine) bool {
	return o.Annotations[machinev1.CreateAttemptAnnotation] != ""
}

// waitsFor are what Cluster API must have done before a VM may be made; nil if it has.
func waitsFor(f *facts) *condition {
	if !ptr.Deref(f.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return conditionFalse(infrav1.ReasonWaitingForInfra, "The infrastructure of Cluster "+f.cluster.Name+" is not provisioned yet")
	}
	if ptr.Deref(f.machine.Spec.Bootstrap.DataSecretName, "") == "" {
		return conditionFalse(infrav1.ReasonWaitingForBootstrap, "Machine "+f.machine.Name+
			" has no bootstrap data yet: spec.bootstrap.dataSecretName is empty")
	}
	if f.infra != nil && !capi.Externally(f.infra) && f.infra.Annotations[machinev1.OwnerIDAnnotation] == "" {
		return conditionFalse(infrav1.ReasonWaitingForInfra, "MCMCluster "+f.infra.Name+" has no durable id yet")
	}
	return nil
}

// ensure asks the engine for the VM, and records it.
func (c *Controller) ensure(ctx context.Context, f *facts) error {
	made, err := c.make(ctx, f)
	if err != nil {
		return c.callFailed(f, err)
	}
	c.callSucceeded(f)
	f.vm = &made
	c.updateLookups(f.object, func(n *lookups) { n.born = f.now })
	if made.NodeProviderID == "" {
		f.vmCondition = conditionFalse(machinev1.ReasonVMPending, "The VM exists, and the cloud does not tell its providerID yet")
		requeueAfter(f, max(made.RetryAfter, providerIDRetry))
		return nil
	}
	return c.record(ctx, f, made)
}

// record persists what identifies the VM: from then on this MCMMachine never
// makes another. When the VM is complete, the intent goes with the same write.
func (c *Controller) record(ctx context.Context, f *facts, made cloud.VM) error {
	first := f.object.Spec.ProviderID == ""
	f.complete = made.RetryAfter <= 0
	err := c.patch(ctx, f, func(o *infrav1.MCMMachine) {
		if first {
			o.Spec.ProviderID = made.NodeProviderID
		}
		if f.complete {
			capi.SetAnnotation(o, machinev1.CreateAttemptAnnotation, "")
			capi.SetAnnotation(o, capi.BlockMoveAnnotation, "")
			capi.SetAnnotation(o, infrav1.CloudStateAnnotation, "")
		}
	})
	if err != nil {
		return fmt.Errorf("record VM %s: %w", made.NodeProviderID, err)
	}
	if first {
		f.events = append(f.events, kubeEvent{corev1.EventTypeNormal, eventCreated, "VM " + made.NodeProviderID + " was made"})
	}
	if !f.complete {
		f.vmCondition = conditionFalse(machinev1.ReasonVMPending, "The VM is being made")
		requeueAfter(f, made.RetryAfter)
		return nil
	}
	c.reportVMState(f, made)
	return nil
}

// make asks for the VM with the bytes that follow from class, Machine and
// attempt. Everything that can be wrong is found before anything is done.
func (c *Controller) make(ctx context.Context, f *facts) (cloud.VM, error) {
	resolved, err := c.resolve(ctx, f)
	if err != nil {
		return cloud.VM{}, err
	}
	known := f.object.Spec.ProviderID != ""
	least := cloud.BlocksCreate
	if known {
		least = cloud.BlocksAll
	}
	if err := resolved.Err(least); err != nil {
		return cloud.VM{}, err
	}
	if !known && !resolved.Protected {
		return cloud.VM{}, unprotected(resolved.Object.Name)
	}
	f.interruptible = interruptible(resolved)
	want := vm.Want{Attempt: attemptOf(f.object), Next: c.nextAttempt(f)}
	want.Request = cloud.CreateRequest{
		Ref: ref(f, resolved), Tags: tags(f), Zone: f.machine.Spec.FailureDomain,
		Annotations: f.object.Spec.NodeTemplate.Annotations, Checkpoint: c.checkpoint(f),
	}
	if !known {
		if want.Request.UserData, err = c.userData(ctx, f, resolved); err != nil {
			return cloud.VM{}, err
		}
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return cloud.VM{}, err
	}
	if err := c.intend(ctx, f); err != nil {
		return cloud.VM{}, err
	}
	want.Request.Ref = ref(f, resolved)
	return c.engine.Ensure(ctx, account, resolved.Driver.Traits(), want)
}

// intend writes down that a VM is about to be asked for, with which class, and
// that nobody may move the object meanwhile. It fails on a stale object, so a
// cache that does not show a deletion makes nothing.
func (c *Controller) intend(ctx context.Context, f *facts) error {
	err := c.patch(ctx, f, func(o *infrav1.MCMMachine) {
		capi.SetAnnotation(o, machinev1.CreateAttemptAnnotation, strconv.Itoa(attemptOf(o)))
		capi.SetAnnotation(o, infrav1.MadeFromAnnotation, className(o))
		capi.SetAnnotation(o, capi.BlockMoveAnnotation, "true")
	})
	if err != nil {
		return fmt.Errorf("record intent: %w", err)
	}
	return nil
}

// nextAttempt records the number of the next attempt before it begins.
func (c *Controller) nextAttempt(f *facts) func(context.Context, int) error {
	return func(ctx context.Context, attempt int) error {
		return c.patch(ctx, f, func(o *infrav1.MCMMachine) {
			capi.SetAnnotation(o, machinev1.CreateAttemptAnnotation, strconv.Itoa(attempt))
		})
	}
}

// checkpoint persists the driver's note to itself.
func (c *Controller) checkpoint(f *facts) func(context.Context, string) error {
	return func(ctx context.Context, state string) error {
		err := c.patch(ctx, f, func(o *infrav1.MCMMachine) { capi.SetAnnotation(o, infrav1.CloudStateAnnotation, state) })
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		return nil
	}
}

// switchClass takes back what was asked for with a class that the spec does not
// name any more, e.g. because it was wrong, before anything is asked for with
// the new one: a token says nothing in another account.
func (c *Controller) switchClass(ctx context.Context, f *facts) error {
	done, err := c.deleteVM(ctx, f)
	if err != nil {
		return c.callFailed(f, err)
	}
	if !done {
		f.vmCondition = conditionFalse(infrav1.ReasonClassChanged, "What was asked for with MachineClass "+className(f.object)+
			" is being removed")
		return nil
	}
	return c.patch(ctx, f, func(o *infrav1.MCMMachine) {
		capi.SetAnnotation(o, infrav1.MadeFromAnnotation, o.Spec.MachineClassRef.Name)
		capi.SetAnnotation(o, machinev1.CreateAttemptAnnotation, strconv.Itoa(attemptOf(o)+1))
	})
}

// resolve reads the class of the VM: that which it was asked for with, else that
// which the spec names.
func (c *Controller) resolve(ctx context.Context, f *facts) (class.Resolved, error) {
	name, namespace := className(f.object), f.object.Namespace
	resolved, err := c.classes.ResolveForClusterAPI(ctx, c.Client, namespace, name)
	if err != nil || resolved.Object != nil || name == f.object.Spec.MachineClassRef.Name {
		return resolved, err
	}
	return c.classes.ResolveForClusterAPI(ctx, c.Client, namespace, f.object.Spec.MachineClassRef.Name)
}

// className is the name of the class that the VM is of, or will be.
func className(o *infrav1.MCMMachine) string {
	if name := o.Annotations[infrav1.MadeFromAnnotation]; name != "" {
		return name
	}
	return o.Spec.MachineClassRef.Name
}

// attemptOf returns the number of the current attempt at the VM, from 1.
func attemptOf(o *infrav1.MCMMachine) int {
	if n, err := strconv.Atoi(o.Annotations[machinev1.CreateAttemptAnnotation]); err == nil && n > 1 {
		return n
	}
	return 1
}

// ref says which VM is the MCMMachine's.
func ref(f *facts, r class.Resolved) cloud.Ref {
	return cloud.Ref{
		Name: f.object.Name, OwnerID: machinev1.OwnerID(f.object), ProviderID: f.object.Spec.ProviderID, Class: r.Class,
		State: f.object.Annotations[infrav1.CloudStateAnnotation], Created: f.object.CreationTimestamp.Time,
	}
}

// tags say which Cluster resources in the cloud belong to. The id is the durable
// one of the MCMCluster; where there is none it belongs to this Cluster only, and
// then no collector takes the resources.
func tags(f *facts) map[string]string {
	id := string(f.cluster.UID)
	if f.infra != nil {
		id = machinev1.OwnerID(f.infra)
	}
	return map[string]string{
		machinev1.ClusterNamespaceTag: f.cluster.Namespace, machinev1.ClusterNameTag: f.cluster.Name,
		machinev1.ClusterIDTag: id,
	}
}

// interruptible reports whether the cloud may take such a VM away; nil if not.
func interruptible(r class.Resolved) *bool {
	if d, ok := r.Driver.(cloud.Interrupter); ok && d.Interruptible(r.Class) {
		return new(true)
	}
	return nil
}

// unprotected says that the class may still vanish at any moment.
func unprotected(name string) error {
	return &cloud.Error{
		Code: cloud.Unavailable, Op: "create VM", Reason: infrav1.ReasonWaitingForClass, RetryAfter: shortRetry,
		Err: fmt.Errorf("MachineClass %q has no finalizer %s yet, which the class's controller puts there", name,
			machinev1.InUseFinalizer),
	}
}
