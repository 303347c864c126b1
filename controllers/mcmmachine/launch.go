package mcmmachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// How long the steps wait where nothing wakes them.
const (
	staleRetry      = time.Second      // the newer version arrives by watch; this only guards against a lost event
	providerIDRetry = 5 * time.Second  // a cloud knows a VM's place, and so its providerID, within seconds
	shortRetry      = 5 * time.Second  // after errors that pass
	longRetry       = 3 * time.Minute  // when they last
	pendingVMCheck  = 10 * time.Second // while a VM boots
)

// launch gives an MCMMachine its VM, unless it has one: that is looked at.
func (c *Controller) launch(ctx context.Context, p *pass) error {
	switch known := p.object.Spec.ProviderID != ""; {
	case createStarted(p.object) && known:
		return c.ensure(ctx, p)
	case known, provisioned(p.object):
		return c.checkVM(ctx, p)
	case !p.seen.cluster.DeletionTimestamp.IsZero(), !p.seen.machine.DeletionTimestamp.IsZero():
		p.did.vmCondition = conditionFalse(infrav1.ReasonDeleting, "Cluster or Machine is being deleted: no VM is created")
		return nil // the deletion of this object follows, and removes what was asked for
	case createStarted(p.object):
		return c.resumeCreate(ctx, p)
	}
	return c.startCreate(ctx, p)
}

// resumeCreate goes on asking for a VM that is not known yet.
func (c *Controller) resumeCreate(ctx context.Context, p *pass) error {
	if target := switchTarget(p.object); target != "" {
		return c.switchClass(ctx, p, target)
	}
	return c.ensure(ctx, p)
}

// startCreate asks for a VM for the first time, once it may.
func (c *Controller) startCreate(ctx context.Context, p *pass) error {
	if waits := waitsFor(p); waits != nil {
		p.did.vmCondition = waits
		return reportClassProblems(p) // Cluster, Machine, class and Secrets are watched
	}
	other, err := c.duplicateOwnerID(ctx, p)
	if err != nil {
		return err
	}
	if other != "" {
		p.did.vmCondition = conditionFalse(infrav1.ReasonOwnerIDTaken,
			fmt.Sprintf("MCMMachine %s has the same %s; remove that annotation from the template that sets it, and delete one "+
				"of the Machines",
				other, machinev1.OwnerIDAnnotation))
		requeueAfter(p, longRetry)
		return nil
	}
	return c.ensure(ctx, p)
}

// reportClassProblems reports what has to be corrected in the class while the VM
// waits for something else, which may never come as long as the class is wrong.
func reportClassProblems(p *pass) error {
	if p.seen.classErr != nil {
		return p.seen.classErr
	}
	if problem := p.seen.class.Err(cloud.BlocksCreate); problem != nil {
		p.did.vmCondition = conditionFalse(outcome.Reason(problem), failureMessage(problem))
	}
	return nil
}

// duplicateOwnerID is another MCMMachine with the same durable id, which would get the same
// VM: an annotation that a template hands on to all. Empty if there is none.
func (c *Controller) duplicateOwnerID(ctx context.Context, p *pass) (string, error) {
	var list infrav1.MCMMachineList
	if err := c.Client.List(ctx, &list, client.MatchingFields{index.MCMMachineByOwnerID: machinev1.OwnerID(
		p.object)}); err != nil {
		return "", fmt.Errorf("look up MCMMachines by owner id: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].UID != p.object.UID {
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
func waitsFor(p *pass) *condition {
	if !ptr.Deref(p.seen.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return conditionFalse(infrav1.ReasonWaitingForInfra,
			"The infrastructure of Cluster "+p.seen.cluster.Name+" is not provisioned yet")
	}
	if ptr.Deref(p.seen.machine.Spec.Bootstrap.DataSecretName, "") == "" {
		return conditionFalse(infrav1.ReasonWaitingForBootstrap, "Machine "+p.seen.machine.Name+
			" has no bootstrap data yet: spec.bootstrap.dataSecretName is empty")
	}
	infra := p.seen.infra
	if infra != nil && !capi.Externally(infra) && infra.Annotations[machinev1.OwnerIDAnnotation] == "" {
		return conditionFalse(infrav1.ReasonWaitingForInfra, "MCMCluster "+infra.Name+" has no durable id yet")
	}
	return waitsForAddresses(p)
}

// ensure asks the engine for the VM, which it records.
func (c *Controller) ensure(ctx context.Context, p *pass) error {
	first := p.object.Spec.ProviderID == ""
	if first && !c.mayCreate(p) {
		return nil
	}
	made, err := c.engine.Ensure(ctx, c.vm(p))
	if outcome.IsCloud(err) {
		return c.createFailed(ctx, p, err)
	}
	if err == nil || made.ProviderID != "" {
		c.callSucceeded(p)
		p.did.vm = &made
		c.updateLookups(p.object, func(n *lookups) { n.born = p.seen.now })
	}
	switch {
	case err != nil:
		return err
	case made.NodeProviderID == "":
		p.did.vmCondition = conditionFalse(machinev1.ReasonVMPending,
			"VM exists, but the cloud does not return its providerID yet")
		requeueAfter(p, max(made.RetryAfter, providerIDRetry))
		return nil
	case first:
		p.did.events = append(p.did.events, kubeEvent{
			corev1.EventTypeNormal, eventCreated, "VM " + made.NodeProviderID + " created",
		})
	}
	if p.did.complete = made.RetryAfter <= 0; !p.did.complete {
		p.did.vmCondition = conditionFalse(machinev1.ReasonVMPending, "VM is being created")
		requeueAfter(p, made.RetryAfter)
		return nil
	}
	c.reportVMState(p, made)
	return nil
}

// mayCreate reports whether the VM may be asked for now, and notes what it waits for if not.
func (c *Controller) mayCreate(p *pass) bool {
	if waits := waitsForAddresses(p); waits != nil {
		p.did.vmCondition = waits
		return false
	}
	if c.beginTry(p) {
		return true
	}
	requeueAfter(p, staleRetry) // the next pass chooses another class
	return false
}

// createFailed goes on with another class, if the cloud has no capacity for this one and there
// is another. Else it notes why there is no VM.
func (c *Controller) createFailed(ctx context.Context, p *pass, failure error) error {
	message, goesOn, err := c.engine.FallBack(ctx, c.vm(p), failure)
	if err != nil {
		return err
	}
	if goesOn {
		p.did.vmCondition = conditionFalse(infrav1.ReasonClassChanged, message)
		requeueAfter(p, time.Millisecond)
		return nil
	}
	err = c.callFailed(p, failure)
	if why := p.did.vmCondition; why != nil && why.reason == machinev1.ReasonCapacityExhausted && message != "" {
		why.message += "; other classes: " + message
	}
	return err
}

// switchClass goes on with a class that the spec names instead of one that it does not name any more, e.g. because it
// was wrong, or that is exhausted.
func (c *Controller) switchClass(ctx context.Context, p *pass, to string) error {
	was := className(p.object)
	switched, err := c.engine.SwitchClass(ctx, c.vm(p), to, slices.Contains(p.object.Spec.ClassNames(), was))
	if err != nil {
		return c.callFailed(p, err)
	}
	requeueAfter(p, switched.RetryAfter)
	if !switched.Done {
		p.did.vmCondition = conditionFalse(infrav1.ReasonClassChanged, fallback.SwitchMessage(was, to))
	}
	return nil
}

// className is the name of the class that the VM is of, or will be.
func className(o *infrav1.MCMMachine) string { return cmp.Or(madeFrom(o), o.Spec.MachineClassRef.Name) }

// madeFrom is the name of the class that a VM was asked for with; empty if none was. The status has it, too, should
// the annotation be lost.
func madeFrom(o *infrav1.MCMMachine) string {
	return cmp.Or(o.Annotations[infrav1.MadeFromAnnotation], o.Status.MachineClassName)
}

// tags identify the Cluster that resources in the cloud belong to. The id is the durable
// one of the MCMCluster; where there is none it belongs to this Cluster only, and
// then no collector takes the resources.
func tags(p *pass) map[string]string {
	return map[string]string{
		machinev1.ClusterNamespaceTag: p.seen.cluster.Namespace, machinev1.ClusterNameTag: p.seen.cluster.Name,
		machinev1.ClusterIDTag: clusterID(p),
	}
}

// clusterID is the id of the Cluster that resources in the cloud are tagged with; empty without a Cluster.
func clusterID(p *pass) string {
	switch {
	case p.seen.infra != nil:
		return machinev1.OwnerID(p.seen.infra)
	case p.seen.cluster != nil:
		return string(p.seen.cluster.UID)
	}
	return ""
}

// interruptible reports whether the cloud may take such a VM away; nil if not.
func interruptible(r class.Resolved) *bool {
	if d, ok := r.Driver.(cloud.Interrupter); ok && d.Interruptible(r.Class) {
		return new(true)
	}
	return nil
}

// usedClass is the name of the class that the VM is of, or will be.
func (p *pass) usedClass() string {
	if p.seen.chosen != "" && p.object.Annotations[infrav1.MadeFromAnnotation] == "" {
		return p.seen.chosen
	}
	return className(p.object)
}

// offer is what the machine asks the cloud for.
func (p *pass) offer() fallback.Offer {
	return fallback.OfferOf(p.seen.class, p.object.Namespace, p.usedClass(), p.seen.machine.Spec.FailureDomain)
}

// beginTry reports whether the machine may ask for its class now. It may not, where another
// machine has just begun to try that exhausted class again. What has been asked for already
// is always asked for again: its VM may be there.
func (c *Controller) beginTry(p *pass) bool {
	return c.Fallback.Begin(p.offer(), machinev1.OwnerID(p.object)) || createStarted(p.object) ||
		p.seen.chosen == ""
}

// switchTarget is the class that a machine has to go on with; empty if it is that which was
// asked for.
func switchTarget(o *infrav1.MCMMachine) string {
	made, names := o.Annotations[infrav1.MadeFromAnnotation], o.Spec.ClassNames()
	next := o.Annotations[machinev1.NextClassAnnotation]
	switch {
	case next != "" && next != made && slices.Contains(names, next):
		return next
	case !slices.Contains(names, made):
		return names[0]
	}
	return ""
}

// failureThreshold is how many looks at a VM that was made may fail in a row before a
// condition shows it: a blip is worth no write.
const failureThreshold = 2

// callFailed notes why the cloud could not be asked, or refused, and when it is worth
// trying again. A machine whose VM was made stays as ready as it was: an outage of
// the cloud's API is no outage of the VM.
func (c *Controller) callFailed(p *pass, err error) error {
	if apierrors.IsConflict(err) || !outcome.IsCloud(err) {
		return err // the API server failed, not the cloud: nothing to report about the machine
	}
	n := c.updateLookups(p.object, func(n *lookups) { n.failures++ })
	requeueAfter(p, c.retryAfter(p, err, n))
	reason := reasonOf(err)
	if reason == infrav1.ReasonWaitingForClass {
		if p.seen.now.Sub(p.object.CreationTimestamp.Time) > unprotectedGrace {
			p.did.vmCondition = conditionFalse(reason, failureMessage(err))
		}
		return nil
	}
	if !provisioned(p.object) {
		p.did.vmCondition = conditionFalse(reason, failureMessage(err))
	} else if n.failures < failureThreshold {
		return nil
	}
	reportCloudFailure(p, conditionFalse(reason, failureMessage(err)))
	return nil
}

// reportCloudFailure sets the condition that a failed call belongs to.
func reportCloudFailure(p *pass, w *condition) {
	switch w.reason {
	case machinev1.ReasonCredentialsRefused, machinev1.ReasonSecretNotFound, machinev1.ReasonInvalidSecret,
		infrav1.ReasonSecretNotAllowed, cloud.ReasonWrongScope, cloud.ReasonUnprovenScope:
		p.did.credentialsCondition = w
	case machinev1.ReasonCloudThrottled, machinev1.ReasonCloudUnavailable, machinev1.ReasonCloudError,
		machinev1.ReasonVMOfAnotherOwner:
		p.did.cloudCondition = w
	case machinev1.ReasonClassNotFound, machinev1.ReasonInvalidSpec:
		if provisioned(p.object) { // else the VM's own condition shows it
			p.did.cloudCondition = w
		}
	}
}

// unprotectedGrace is how long a class usually needs at most to get its finalizer;
// before that, a condition about it would be a write.
const unprotectedGrace = 10 * time.Second

func (c *Controller) retryAfter(p *pass, err error, n lookups) time.Duration {
	if wait := outcome.After(err, c.Options.ResourceExhaustedRetry); wait > 0 {
		return wait
	}
	if provisioned(p.object) {
		return min(shortRetry<<min(n.failures-1, 10), longRetry)
	}
	return outcome.Backoff(p.seen.now.Sub(p.object.CreationTimestamp.Time))
}

// callSucceeded notes that the cloud has answered.
func (c *Controller) callSucceeded(p *pass) {
	c.updateLookups(p.object, func(n *lookups) { n.failures = 0 })
	p.did.cloudCondition = conditionTrue(infrav1.ReasonReachable)
	p.did.credentialsCondition = conditionTrue(infrav1.ReasonAccepted)
}

// reasonOf is the condition reason for a failed call.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason == vm.ReasonUnprotected {
		return infrav1.ReasonWaitingForClass
	}
	return outcome.Reason(err)
}

// failureMessage is the message of a condition about a failed call. An exhausted offering
// comes first: that is what its reader looks for.
func failureMessage(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.Exhausted && e.Offering != nil {
		return fmt.Sprintf("%s is exhausted: %s", e.Offering, e)
	}
	return err.Error()
}
