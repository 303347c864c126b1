package inframachine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// An upkeep is what a step found out that keeps what belongs to the VM, and the condition that shows it.
type upkeep struct {
	condition string
	vm.Upkeep
}

// upkeeps are the steps of that kind, in the order of their conditions.
func (p *pass) upkeeps() []upkeep {
	return []upkeep{
		{infrav1.TagsUpdatedCondition, p.did.tags},
		{infrav1.BootDataRemovedCondition, p.did.bootData},
		{infrav1.LoadBalancerRegisteredCondition, p.did.loadBalancers},
	}
}

// shown is what the condition says; nil if it stays as it is, or goes.
func (u upkeep) shown() *condition {
	switch {
	case u.Reason == "":
		return nil
	case u.Done:
		return conditionTrue(u.Reason)
	}
	return conditionFalse(u.Reason, u.Message)
}

// failingSince is since when a condition has been False; zero if it is not.
func failingSince(p *pass, condition string) time.Time {
	was := meta.FindStatusCondition(p.object.Status.Conditions, condition)
	if was == nil || was.Status != metav1.ConditionFalse {
		return time.Time{}
	}
	return was.LastTransitionTime.Time
}

// hasVM reports whether the VM is known to be there, and complete.
func hasVM(p *pass) bool {
	return p.object.Spec.ProviderID != "" && !createStarted(p.object) &&
		p.did.vmCondition != nil && p.did.vmCondition.status == metav1.ConditionTrue
}

// updateTags brings the tags of a VM that is there to those of its class.
func (c *Controller) updateTags(ctx context.Context, p *pass) (err error) {
	if !hasVM(p) {
		return nil
	}
	p.did.tags, err = c.engine.UpdateTags(ctx, c.vm(p), failingSince(p, infrav1.TagsUpdatedCondition))
	requeueAfter(p, p.did.tags.RetryAfter)
	return err
}

// removeBootData removes the boot data that the cloud keeps of a VM whose node has joined.
func (c *Controller) removeBootData(ctx context.Context, p *pass) (err error) {
	if p.object.Spec.ProviderID == "" || createStarted(p.object) || !p.seen.machine.Status.NodeRef.IsDefined() {
		return nil
	}
	p.did.bootData, err = c.engine.RemoveBootData(ctx, c.vm(p), failingSince(p, infrav1.BootDataRemovedCondition))
	requeueAfter(p, p.did.bootData.RetryAfter)
	return err
}

// register registers a VM that is there with the load balancers of its class. It comes before
// anything that needs the API server of the workload cluster: the first machine of a control
// plane can only be reached through them.
func (c *Controller) register(ctx context.Context, p *pass) (err error) {
	if !hasVM(p) {
		return nil
	}
	p.did.loadBalancers, err = c.engine.Join(ctx, c.vm(p), failingSince(p, infrav1.LoadBalancerRegisteredCondition))
	requeueAfter(p, p.did.loadBalancers.RetryAfter)
	return err
}
