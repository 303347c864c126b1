package inframachine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

var (
	_ vm.TagOwner    = vmOwner{}
	_ vm.MemberOwner = vmOwner{}
)

// AppliedTags is the record of the tags that the VM has got.
func (o vmOwner) AppliedTags() string { return o.p.object.Annotations[machinev1.AppliedTagsAnnotation] }

// RecordTags persists such a record.
func (o vmOwner) RecordTags(ctx context.Context, record string) error {
	return o.patch(ctx, o.p, func(m *infrav1.MCMMachine) {
		machinev1.SetAnnotation(m, machinev1.AppliedTagsAnnotation, record)
	})
}

// updateTags brings the tags of a VM that is there to those of its class. A failure is
// reported and changes nothing else about the machine.
func (c *Controller) updateTags(ctx context.Context, p *pass) error {
	if p.object.Spec.ProviderID == "" || createStarted(p.object) ||
		p.did.vmCondition == nil || p.did.vmCondition.status != metav1.ConditionTrue {
		return nil
	}
	err := c.engine.UpdateTags(ctx, c.owner(p))
	switch {
	case err == nil:
		p.did.tagsConditionObsolete = true
		return nil
	case apierrors.IsConflict(err) || !outcome.IsCloud(err):
		return err
	}
	since := p.seen.now
	if was := meta.FindStatusCondition(p.object.Status.Conditions, infrav1.TagsUpdatedCondition); was != nil {
		since = was.LastTransitionTime.Time
	}
	requeueAfter(p, vm.TagsRetry(err, p.seen.now.Sub(since)))
	if reason, message, failed := c.engine.TagsFailure(machinev1.OwnerID(p.object), err); failed {
		p.did.tagsCondition = conditionFalse(reason, message)
	}
	return nil
}

// Members is the record of the load balancers of the VM.
func (o vmOwner) Members() string { return o.p.object.Annotations[machinev1.LoadBalancersAnnotation] }

// RecordMembers persists such a record.
func (o vmOwner) RecordMembers(ctx context.Context, record string) error {
	return o.patch(ctx, o.p, func(m *infrav1.MCMMachine) {
		machinev1.SetOrRemoveAnnotation(m, machinev1.LoadBalancersAnnotation, record)
	})
}

// register registers a VM that is there with the load balancers of its class. It comes before
// anything that needs the API server of the workload cluster: the first machine of a control
// plane can only be reached through them. A failure is reported and changes nothing else about
// the machine.
func (c *Controller) register(ctx context.Context, p *pass) error {
	if p.object.Spec.ProviderID == "" || createStarted(p.object) ||
		p.did.vmCondition == nil || p.did.vmCondition.status != metav1.ConditionTrue {
		return nil
	}
	var since time.Time
	was := meta.FindStatusCondition(p.object.Status.Conditions, infrav1.LoadBalancerRegisteredCondition)
	if was != nil && was.Status == metav1.ConditionFalse {
		since = was.LastTransitionTime.Time
	}
	joining, err := c.engine.Join(ctx, c.owner(p), since)
	if err != nil {
		return err
	}
	p.did.membersObsolete = joining.None
	if joining.Registered {
		p.did.membersCondition = conditionTrue(machinev1.ReasonRegistered)
	} else if joining.Reason != "" {
		p.did.membersCondition = conditionFalse(joining.Reason, joining.Message)
	}
	requeueAfter(p, joining.RetryAfter)
	return nil
}

// SkipsDeregistration reports whether the deletion waits for no load balancer.
func (o vmOwner) SkipsDeregistration() bool {
	return o.p.object.Annotations[machinev1.ReleaseAnnotation] == "true"
}

// WarnStillRegistered emits an Event: the VM is deleted and may still be a member.
func (o vmOwner) WarnStillRegistered(message string) { warn(o.p, eventStillRegistered, message) }

// deregister reports whether the VM has left its load balancers, or has been waited for long
// enough, so that it may be deleted.
func (c *Controller) deregister(ctx context.Context, p *pass) (bool, error) {
	o := c.owner(p)
	gone, err := c.engine.Deregister(ctx, o, o.SkipsDeregistration())
	switch {
	case err != nil:
		return false, err
	case gone.Message != "" && gone.Done:
		o.WarnStillRegistered(gone.Message)
	case !gone.Done:
		p.did.deletionWaitsFor = conditionFalse(gone.Reason, gone.Message)
		requeueAfter(p, gone.RetryAfter)
	}
	return gone.Done, nil
}
