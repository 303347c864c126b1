package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/naming"
)

// ensureFinalizer puts finalizer and owner id onto a Machine before anything is
// created for it. A MachineSet creates its Machines with both.
func (c *Controller) ensureFinalizer(ctx context.Context, p *pass) error {
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		if startedByMCM(m) {
			machinev1.SetAnnotation(m, machinev1.CreateAttemptAnnotation, attemptOfMCM)
		}
		controllerutil.AddFinalizer(m, machinev1.Finalizer)
		defaultAnnotation(m, machinev1.OwnerIDAnnotation, string(m.UID))
		defaultAnnotation(m, machinev1.PriorityAnnotation, machinev1.DefaultPriority)
	})
}

// attemptOfMCM is the number of an attempt of MCM, which used no token of ours:
// nothing is created before the VM has been looked up.
const attemptOfMCM = "0"

// startedByMCM reports whether MCM may have created a VM for m without recording
// its id: MCM adds its finalizer first, and knows no owner ids.
func startedByMCM(m *machinev1.Machine) bool {
	return m.Annotations[machinev1.OwnerIDAnnotation] == "" && m.Spec.ProviderID == "" &&
		controllerutil.ContainsFinalizer(m, machinev1.Finalizer)
}

// waitForName keeps a Machine while a request that creates another one of its name
// may be in flight, of a former leader or of this process: only the name makes that
// request fail. Usually there is none: the MachineSet's controller closes its
// reservation as soon as all of its requests were answered.
func (c *Controller) waitForName(ctx context.Context, p *pass) (bool, error) {
	owner := metav1.GetControllerOf(p.machine)
	left := c.Fence.InFlight()
	if owner == nil || owner.Kind != machinev1.MachineSetKind || forceDeletion(p.machine) || left <= 0 {
		return true, nil
	}
	set := &machinev1.MachineSet{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: p.machine.Namespace, Name: owner.Name}, set)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read MachineSet %s on the API server: %w", owner.Name, err)
	}
	if set.UID != owner.UID || !set.DeletionTimestamp.IsZero() || !naming.NameReserved(set, p.machine) {
		return true, nil
	}
	p.did.deletionWaitsFor = &waiting{machinev1.ReasonNameInUse, fmt.Sprintf(
		"VM and Node deleted; name kept until %s: a former leader may still create a Machine of it",
		p.seen.now.Add(left).UTC().Format(time.RFC3339))}
	requeueAfter(p, left)
	return false, nil
}

// removeFinalizer ends what this controller does for the Machine: the API server
// deletes it then, unless others have finalizers on it.
func (c *Controller) removeFinalizer(ctx context.Context, p *pass) (bool, error) {
	if err := patch.RemoveFinalizer(ctx, c.Client, p.machine.DeepCopy(), machinev1.Finalizer); err != nil {
		return false, err
	}
	p.did.finalizerRemoved = true
	p.did.events = append(p.did.events, kubeEvent{corev1.EventTypeNormal, eventDeleted, deletedMessage(p)})
	return true, nil
}

func deletedMessage(p *pass) string {
	switch {
	case p.did.vmRetained:
		return "Machine deleted without its VM"
	case p.machine.Spec.ProviderID == "":
		return "Machine deleted, it had no VM"
	}
	return fmt.Sprintf("VM %s and its Node deleted", p.machine.Spec.ProviderID)
}

func defaultAnnotation(o metav1.Object, key, value string) {
	if o.GetAnnotations()[key] == "" {
		machinev1.SetAnnotation(o, key, value)
	}
}
