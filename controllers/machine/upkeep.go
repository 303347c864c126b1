package machine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
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
		{machinev1.ConditionTagsUpdated, p.did.tags},
		{machinev1.ConditionBootDataRemoved, p.did.bootData},
		{machinev1.ConditionLoadBalancerRegistered, p.did.loadBalancers},
	}
}

// failingSince is since when a condition has been False; zero if it is not.
func failingSince(p *pass, condition string) time.Time {
	was := findCondition(p.machine.Status.Progress, condition)
	if was == nil || was.Status != metav1.ConditionFalse {
		return time.Time{}
	}
	return was.LastTransitionTime.Time
}

// updateTags brings the tags of the VM of a machine that is well to those of its class.
func (c *Controller) updateTags(ctx context.Context, p *pass) (err error) {
	phase := phaseOf(p)
	if p.machine.Spec.ProviderID == "" || phase != machinev1.MachineRunning && phase != machinev1.MachineAvailable {
		return nil
	}
	p.did.tags, err = c.engine.UpdateTags(ctx, c.vm(p), failingSince(p, machinev1.ConditionTagsUpdated))
	requeueAfter(p, p.did.tags.RetryAfter)
	return err
}

// removeBootData removes the boot data that the cloud keeps of a VM whose node has joined. Without
// a target cluster nothing shows that the VM has fetched it: it goes with the VM.
func (c *Controller) removeBootData(ctx context.Context, p *pass) (err error) {
	if p.machine.Spec.ProviderID == "" || phaseOf(p) != machinev1.MachineRunning {
		return nil
	}
	p.did.bootData, err = c.engine.RemoveBootData(ctx, c.vm(p), failingSince(p, machinev1.ConditionBootDataRemoved))
	requeueAfter(p, p.did.bootData.RetryAfter)
	return err
}

// register registers the VM of a machine with the load balancers of its class.
func (c *Controller) register(ctx context.Context, p *pass) (err error) {
	if p.machine.Spec.ProviderID == "" || wantsVM(p.machine) && !p.did.created || phaseOf(p) == machinev1.MachineFailed {
		return nil
	}
	p.did.loadBalancers, err = c.engine.Join(ctx, c.vm(p), failingSince(p, machinev1.ConditionLoadBalancerRegistered))
	requeueAfter(p, p.did.loadBalancers.RetryAfter)
	return err
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
		Console: func(ctx context.Context) (string, error) { return c.engine.Console(ctx, c.vm(p)) },
	})
	if ok {
		p.did.console = &found
		p.did.events = append(p.did.events, kubeEvent{corev1.EventTypeWarning, eventConsole, evidence.Message(found)})
	}
}
