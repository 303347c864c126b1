package node

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// markNotManaged annotates a Node that no Machine names as not managed, and removes the
// finalizer, once the Node is older than MachineCreationTimeout.
func (c *Controller) markNotManaged(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	_, marked := node.Annotations[machinev1.NotManagedAnnotation]
	held := slices.Contains(node.Finalizers, machinev1.NodeFinalizer)
	if marked && !held {
		return 0, nil
	}
	if age := c.Clock.Now().Sub(node.CreationTimestamp.Time); age <= c.MachineCreationTimeout {
		return c.MachineCreationTimeout - age + time.Second, nil
	}
	want := node.DeepCopy()
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[machinev1.NotManagedAnnotation] = "1"
	want.Finalizers = slices.DeleteFunc(want.Finalizers, func(f string) bool { return f == machinev1.NodeFinalizer })
	return 0, client.IgnoreNotFound(c.write(ctx, node, want))
}
