package mcmmachine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// keep runs a step that keeps what belongs to the VM as it is to be, which a condition of that type shows.
func (c *Controller) keep(ctx context.Context, p *pass, condition string,
	step func(context.Context, *vm.Machine, time.Time) (vm.Upkeep, error),
) error {
	var failingSince time.Time
	if was := meta.FindStatusCondition(p.object.Status.Conditions, condition); was != nil &&
		was.Status == metav1.ConditionFalse {
		failingSince = was.LastTransitionTime.Time
	}
	u, err := step(ctx, c.vm(p), failingSince)
	p.did.upkeep[condition] = u
	requeueAfter(p, u.RetryAfter)
	return err
}

// shown is what a condition says of u; nil if it stays as it is, or goes.
func shown(u vm.Upkeep) *condition {
	switch {
	case u.Reason == "":
		return nil
	case u.Done:
		return conditionTrue(u.Reason)
	}
	return conditionFalse(u.Reason, u.Message)
}

// hasVM reports whether the VM is known to be there, and complete.
func hasVM(p *pass) bool {
	return p.object.Spec.ProviderID != "" && !createStarted(p.object) &&
		p.did.vmCondition != nil && p.did.vmCondition.status == metav1.ConditionTrue
}

// updateTags brings the tags of a VM that is there to those of its class.
func (c *Controller) updateTags(ctx context.Context, p *pass) error {
	if !hasVM(p) {
		return nil
	}
	return c.keep(ctx, p, infrav1.TagsUpdatedCondition, c.engine.UpdateTags)
}

// removeBootData removes the boot data that the cloud keeps of a VM whose node has joined.
func (c *Controller) removeBootData(ctx context.Context, p *pass) error {
	if p.object.Spec.ProviderID == "" || createStarted(p.object) || !p.seen.machine.Status.NodeRef.IsDefined() {
		return nil
	}
	return c.keep(ctx, p, infrav1.BootDataRemovedCondition, c.engine.RemoveBootData)
}

// register registers a VM that is there with the load balancers of its class. It comes before
// anything that needs the API server of the workload cluster: the first machine of a control
// plane can only be reached through them.
func (c *Controller) register(ctx context.Context, p *pass) error {
	if !hasVM(p) {
		return nil
	}
	return c.keep(ctx, p, infrav1.LoadBalancerRegisteredCondition, c.engine.Join)
}
