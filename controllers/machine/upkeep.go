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

// keep runs a step that keeps what belongs to the VM as it is to be, which a condition of that type shows.
func (c *Controller) keep(ctx context.Context, p *pass, condition string,
	step func(context.Context, *vm.Machine, time.Time) (vm.Upkeep, error),
) error {
	var failingSince time.Time
	if was := findCondition(p.machine.Status.Progress, condition); was != nil && was.Status == metav1.ConditionFalse {
		failingSince = was.LastTransitionTime.Time
	}
	u, err := step(ctx, c.vm(p), failingSince)
	p.did.upkeep[condition] = u
	requeueAfter(p, u.RetryAfter)
	return err
}

// updateTags brings the tags of the VM of a machine that is well to those of its class.
func (c *Controller) updateTags(ctx context.Context, p *pass) error {
	phase := phaseOf(p)
	if p.machine.Spec.ProviderID == "" || phase != machinev1.MachineRunning && phase != machinev1.MachineAvailable {
		return nil
	}
	return c.keep(ctx, p, machinev1.ConditionTagsUpdated, c.engine.UpdateTags)
}

// removeBootData removes the boot data that the cloud keeps of a VM whose node has joined. Without
// a target cluster nothing shows that the VM has fetched it: it goes with the VM.
func (c *Controller) removeBootData(ctx context.Context, p *pass) error {
	if p.machine.Spec.ProviderID == "" || phaseOf(p) != machinev1.MachineRunning {
		return nil
	}
	return c.keep(ctx, p, machinev1.ConditionBootDataRemoved, c.engine.RemoveBootData)
}

// register registers the VM of a machine with the load balancers of its class.
func (c *Controller) register(ctx context.Context, p *pass) error {
	if p.machine.Spec.ProviderID == "" || wantsVM(p.machine) && !p.did.created || phaseOf(p) == machinev1.MachineFailed {
		return nil
	}
	return c.keep(ctx, p, machinev1.ConditionLoadBalancerRegistered, c.engine.Join)
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
