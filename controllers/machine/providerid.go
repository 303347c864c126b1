package machine

import (
	"context"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// providerIDIn is the providerID of a VM in the form that m asks for, as far as it is
// known: the cloud may learn the Node's form later than its own.
func providerIDIn(m *machinev1.Machine, made cloud.VM) string {
	if m.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode && made.NodeProviderID != "" {
		return made.NodeProviderID
	}
	return made.ProviderID
}

// syncProviderIDForm brings the providerID of a Machine that has its VM into the form that
// is asked for. Both forms name the same VM.
func (c *Controller) syncProviderIDForm(ctx context.Context, p *pass) error {
	switch p.machine.Annotations[machinev1.ProviderIDFormAnnotation] {
	case machinev1.ProviderIDFormNode:
		return c.useNodeForm(ctx, p)
	case machinev1.ProviderIDFormMCM:
		return c.useMCMForm(ctx, p)
	}
	return nil
}

// useNodeForm copies the providerID of the node, once it is there and known to
// run on this Machine's VM.
func (c *Controller) useNodeForm(ctx context.Context, p *pass) error {
	if p.node == nil || p.node.Spec.ProviderID == p.machine.Spec.ProviderID {
		return nil
	}
	if whose, err := nodeOwnerOf(p); err != nil || whose != ownedByThis {
		return err
	}
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) { m.Spec.ProviderID = p.node.Spec.ProviderID })
}

// useMCMForm asks the cloud for MCM's form. Where the VM is gone, the Machine
// keeps what it has: it is replaced anyway.
func (c *Controller) useMCMForm(ctx context.Context, p *pass) error {
	id := p.machine.Spec.ProviderID
	if id != "" {
		found, err := c.engine.Get(ctx, c.vm(p))
		if cloud.CodeOf(err) == cloud.NotFound {
			requeueAfter(p, slowJoinCheck)
			return nil
		}
		if err != nil {
			return fmt.Errorf("look up VM to restore its providerID: %w", err)
		}
		id = found.ProviderID
	}
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		m.Spec.ProviderID = id
		delete(m.Annotations, machinev1.ProviderIDFormAnnotation)
	})
}

// recoverProviderID looks up the VM of a Machine that has lost its providerID, as when it
// was replaced by a manifest of its author. It makes none: its node reports whether
// the VM is there, and a Machine without one is replaced like any other.
func (c *Controller) recoverProviderID(ctx context.Context, p *pass) error {
	if p.machine.Spec.ProviderID != "" || phaseOf(p) == machinev1.MachineFailed {
		return nil
	}
	found, err := c.engine.Get(ctx, c.vm(p))
	if err != nil && cloud.CodeOf(err) == cloud.NotFound {
		p.did.waitsFor = &waiting{
			machinev1.ReasonVMNotFound, "spec.providerID is empty, and the VM cannot be found by name: " + err.Error(),
		}
		requeueAfter(p, slowJoinCheck)
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.engine.Record(ctx, c.vm(p), found); err != nil {
		return fmt.Errorf("record VM %s: %w", found.ProviderID, err)
	}
	return c.observeNode(ctx, p)
}
