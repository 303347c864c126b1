package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// inRollout reports whether scale-down has to be disabled for a Node that joins: its
// MachineDeployment is being rolled out, so the Node is needed although no pods run
// there yet. It is called before the first write to a Node, which then includes the
// annotation; the MachineDeployment controller annotates the Nodes that have joined
// before, and removes all annotations when the rollout is complete.
func (c *Controller) inRollout(ctx context.Context, o *observation) (bool, error) {
	if !c.AnnotateDuringRollout || o.node.Annotations[machinev1.NodeMachineAnnotation] != "" {
		return false, nil
	}
	m := o.machine()
	owner := metav1.GetControllerOf(m)
	if owner == nil {
		return false, nil
	}
	set := &machinev1.MachineSet{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}, set)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading MachineSet %s/%s: %w", m.Namespace, owner.Name, err)
	}
	deployment := metav1.GetControllerOf(set)
	if set.UID != owner.UID || deployment == nil {
		return false, nil
	}
	return c.rolling(ctx, set, deployment)
}

// rolling reports whether another MachineSet of the deployment still has machines.
func (c *Controller) rolling(ctx context.Context, set *machinev1.MachineSet, deployment *metav1.OwnerReference) (bool,
	error,
) {
	var sets machinev1.MachineSetList
	err := c.Client.List(ctx, &sets, client.InNamespace(set.Namespace),
		client.MatchingFields{index.SetByOwner: string(deployment.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing the MachineSets of MachineDeployment %s/%s: %w", set.Namespace, deployment.Name,
			err)
	}
	for i := range sets.Items {
		if s := &sets.Items[i]; s.UID != set.UID && s.Spec.Replicas > 0 && s.DeletionTimestamp.IsZero() {
			return true, nil
		}
	}
	return false, nil
}

// disableScaleDown tells autoscalers not to remove a Node. A value that its user has set stays.
func disableScaleDown(want *corev1.Node) {
	if _, said := want.Annotations[machinev1.ScaleDownDisabledAnnotation]; said {
		return
	}
	want.Annotations[machinev1.ScaleDownDisabledAnnotation] = "true"
	want.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation] = "true"
}
