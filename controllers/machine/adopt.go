package machine

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// attemptOfMCM as the number of the attempt stands for MCM's, which used no
// token of ours: nothing is made before the cloud has been looked at.
const attemptOfMCM = "0"

// begunByMCM reports whether MCM may have made a VM for m whose id it did not live
// to record: it puts its finalizer first, and knows no owner ids.
func begunByMCM(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.OwnerIDAnnotation] == "" && m.Spec.ProviderID == "" &&
		controllerutil.ContainsFinalizer(m, machinev1.Finalizer)
}

// relearn looks up the VM of a Machine that has lost its providerID, as when it
// was replaced by a manifest of its author. It makes none: its node reports whether
// the VM is there, and a Machine without one is replaced like any other.
func (c *Controller) relearn(ctx context.Context, f *facts) error {
	if f.machine.Spec.ProviderID != "" || phaseOf(f) == machinev1.MachineFailed {
		return nil
	}
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return err
	}
	account, err := resolved.Account(ctx)
	if err != nil {
		return err
	}
	found, err := account.Get(ctx, c.ref(f.machine, resolved))
	if err != nil && cloud.CodeOf(err) == cloud.NotFound {
		f.waiting = &waiting{machinev1.ReasonVMNotFound, "spec.providerID is empty, and the VM cannot be found by name: " +
			err.Error()}
		sooner(f, lookAt)
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.record(ctx, f, found); err != nil {
		return fmt.Errorf("record VM %s: %w", found.ProviderID, err)
	}
	return c.lookAtNode(ctx, f)
}
