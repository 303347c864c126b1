package machine

import (
	"context"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// formed is the providerID of a VM in the form that m asks for, as far as it is
// known: the cloud may learn the Node's form later than its own.
func formed(m *machinev1.Machine, made cloud.VM) string {
	if m.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode && made.NodeProviderID != "" {
		return made.NodeProviderID
	}
	return made.ProviderID
}

// reform brings the providerID of a Machine that has its VM into the form that
// is asked for. Both forms name the same VM.
func (c *Controller) reform(ctx context.Context, f *facts) error {
	switch f.machine.Annotations[machinev1.ProviderIDFormAnnotation] {
	case machinev1.ProviderIDFormNode:
		return c.takeNodesForm(ctx, f)
	case machinev1.ProviderIDFormMCM:
		return c.restoreForm(ctx, f)
	}
	return nil
}

// takeNodesForm copies the providerID of the node, once it is there and known to
// run on this Machine's VM.
func (c *Controller) takeNodesForm(ctx context.Context, f *facts) error {
	if f.node == nil || f.node.Spec.ProviderID == f.machine.Spec.ProviderID {
		return nil
	}
	if whose, err := c.ownerOf(ctx, f); err != nil || whose != ownerThis {
		return err
	}
	return c.patchMachine(ctx, f, func(m *machinev1.Machine) { m.Spec.ProviderID = f.node.Spec.ProviderID })
}

// restoreForm asks the cloud for MCM's form. Where the VM is gone, the Machine
// keeps what it has: it is replaced anyway.
func (c *Controller) restoreForm(ctx context.Context, f *facts) error {
	id := f.machine.Spec.ProviderID
	if id != "" {
		resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
		if err != nil {
			return err
		}
		account, err := resolved.Account(ctx)
		if err != nil {
			return err
		}
		found, err := account.Get(ctx, c.ref(f.machine, resolved))
		if cloud.CodeOf(err) == cloud.NotFound {
			sooner(f, lookAt)
			return nil
		}
		if err != nil {
			return fmt.Errorf("look up VM to restore its providerID: %w", err)
		}
		id = found.ProviderID
	}
	return c.patchMachine(ctx, f, func(m *machinev1.Machine) {
		m.Spec.ProviderID = id
		delete(m.Annotations, machinev1.ProviderIDFormAnnotation)
	})
}
