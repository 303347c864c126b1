package machine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

var (
	_ vm.TagOwner    = vmOwner{}
	_ vm.MemberOwner = vmOwner{}
)

// AppliedTags is the record of the tags that the VM has got.
func (o vmOwner) AppliedTags() string {
	return o.p.machine.Annotations[machinev1.AppliedTagsAnnotation]
}

// RecordTags persists such a record.
func (o vmOwner) RecordTags(ctx context.Context, record string) error {
	return o.patchMachine(ctx, o.p, func(m *machinev1.Machine) {
		machinev1.SetAnnotation(m, machinev1.AppliedTagsAnnotation, record)
	})
}

// updateTags brings the tags of the VM of a machine that is well to those of its class. A
// failure is reported and changes nothing else about the machine.
func (c *Controller) updateTags(ctx context.Context, p *pass) error {
	phase := phaseOf(p)
	if p.machine.Spec.ProviderID == "" || phase != machinev1.MachineRunning && phase != machinev1.MachineAvailable {
		return nil
	}
	err := c.engine.UpdateTags(ctx, c.owner(p))
	switch {
	case err == nil:
		p.did.tagsUpdated = true
		return nil
	case apierrors.IsConflict(err) || !outcome.IsCloud(err):
		return err
	}
	since := p.seen.now
	if was := findCondition(p.machine.Status.Progress, machinev1.ConditionTagsUpdated); was != nil {
		since = was.LastTransitionTime.Time
	}
	requeueAfter(p, vm.TagsRetry(err, p.seen.now.Sub(since)))
	if reason, message, failed := c.engine.TagsFailure(machinev1.OwnerID(p.machine), err); failed {
		p.did.tagsFailure = &waiting{reason, message}
	}
	return nil
}

// Members is the record of the load balancers of the VM.
func (o vmOwner) Members() string { return o.p.machine.Annotations[machinev1.LoadBalancersAnnotation] }

// RecordMembers persists such a record.
func (o vmOwner) RecordMembers(ctx context.Context, record string) error {
	return o.patchMachine(ctx, o.p, func(m *machinev1.Machine) {
		machinev1.SetOrRemoveAnnotation(m, machinev1.LoadBalancersAnnotation, record)
	})
}

// register registers the VM of a machine with the load balancers of its class. A failure is
// reported and changes nothing else about the machine.
func (c *Controller) register(ctx context.Context, p *pass) error {
	if p.machine.Spec.ProviderID == "" || wantsVM(p.machine) && !p.did.created || phaseOf(p) == machinev1.MachineFailed {
		return nil
	}
	var since time.Time
	was := findCondition(p.machine.Status.Progress, machinev1.ConditionLoadBalancerRegistered)
	if was != nil && was.Status == metav1.ConditionFalse {
		since = was.LastTransitionTime.Time
	}
	joining, err := c.engine.Join(ctx, c.owner(p), since)
	if err != nil {
		return err
	}
	p.did.joining = joining
	requeueAfter(p, joining.RetryAfter)
	return nil
}

// SkipsDeregistration reports whether the deletion waits for no load balancer.
func (o vmOwner) SkipsDeregistration() bool {
	return mayReleaseWithoutVM(o.p.machine) || forceDeletion(o.p.machine)
}

// WarnStillRegistered emits an Event: the VM is deleted and may still be a member.
func (o vmOwner) WarnStillRegistered(message string) {
	o.p.did.events = append(o.p.did.events, kubeEvent{corev1.EventTypeWarning, eventStillRegistered, message})
}

// deregister takes the VM out of its load balancers before it is deleted.
func (c *Controller) deregister(ctx context.Context, p *pass) (bool, error) {
	o := c.owner(p)
	gone, err := c.engine.Deregister(ctx, o, o.SkipsDeregistration())
	switch {
	case err != nil:
		return false, err
	case gone.Message != "" && gone.Done:
		o.WarnStillRegistered(gone.Message)
	case !gone.Done:
		p.did.deletionWaitsFor = &waiting{gone.Reason, gone.Message}
		requeueAfter(p, gone.RetryAfter)
	}
	return gone.Done, nil
}

// keepConsole keeps what the console of a machine says that did not join in time, before its
// replacement takes the VM away. It fails nothing: the machine fails with and without it.
func (c *Controller) keepConsole(ctx context.Context, p *pass) {
	m := p.machine
	found, ok := c.Evidence.Keep(ctx, evidence.Case{
		Machine: m.Name, Namespace: m.Namespace, OwnerID: machinev1.OwnerID(m), ProviderID: m.Spec.ProviderID,
		Class: m.Spec.Class.Name,
		Pool:  func(ctx context.Context) (evidence.Pool, error) { return evidence.PoolOfMachine(ctx, c.Client, m) },
		BootData: func(context.Context) [][]byte {
			data, _ := p.seen.class.UserData() // without any there is nothing to redact
			return [][]byte{data}
		},
		Console: func(ctx context.Context) (string, error) { return c.engine.Console(ctx, c.owner(p)) },
	})
	if ok {
		p.did.console = &found
		p.did.events = append(p.did.events, kubeEvent{corev1.EventTypeWarning, eventConsole, evidence.Message(found)})
	}
}
