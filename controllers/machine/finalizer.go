package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// ensureFinalizer puts finalizer and owner id onto a Machine before anything is
// created for it. A MachineSet creates its Machines with both.
func (c *Controller) ensureFinalizer(ctx context.Context, p *pass) error {
	return c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		if startedByMCM(m) {
			setAnnotation(m, machinev1.CreateAttemptAnnotation, attemptOfMCM)
		}
		addFinalizer(m, machinev1.Finalizer)
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
	if set.UID != owner.UID || !set.DeletionTimestamp.IsZero() || !rollout.NameReserved(set, p.machine) {
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
	if err := patchOutFinalizer(ctx, c.Client, p.machine.DeepCopy(), machinev1.Finalizer); err != nil {
		return false, fmt.Errorf("remove finalizer: %w", err)
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

// patchOutFinalizer takes a finalizer off an object, and nothing else: it does not
// need the object to be current, only the finalizer in its place. An object that
// is gone, or has no such finalizer, is fine; another one of the same name keeps its own.
func patchOutFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	at := slices.Index(o.GetFinalizers(), finalizer)
	if at < 0 {
		return nil
	}
	path, test := fmt.Sprintf("/metadata/finalizers/%d", at), ""
	if uid := o.GetUID(); uid != "" {
		test = fmt.Sprintf(`{"op":"test","path":"/metadata/uid","value":%q},`, uid)
	}
	patch := fmt.Appendf(nil, `[%s{"op":"test","path":%q,"value":%q},{"op":"remove","path":%q}]`, test, path, finalizer,
		path)
	return client.IgnoreNotFound(c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch)))
}

func addFinalizer(o metav1.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	}
}

func setAnnotation(o metav1.Object, key, value string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetAnnotations(all)
}

func defaultAnnotation(o metav1.Object, key, value string) {
	if o.GetAnnotations()[key] == "" {
		setAnnotation(o, key, value)
	}
}

func setLabel(o metav1.Object, key, value string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetLabels(all)
}
