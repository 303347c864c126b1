package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// followDeleted deletes the Machine of a Node that is being deleted. The Node keeps its
// finalizer until the VM is gone.
func (c *Controller) followDeleted(ctx context.Context, o *observation) error {
	m := o.machine()
	if _, foreign := o.node.Annotations[machinev1.NotManagedAnnotation]; foreign || !m.DeletionTimestamp.IsZero() {
		return nil
	}
	if o.node.DeletionTimestamp.Before(&m.CreationTimestamp) {
		c.forget(o.name)
		c.Events.Eventf(m, corev1.EventTypeWarning, eventNodeMissing,
			"node %s was deleted before this Machine was created, so the Machine is not deleted; remove the "+
				"finalizers of the node "+
				"if it is left over from another machine", o.name)
		return nil
	}
	if !sameVM(m.Spec.ProviderID, o.node.Spec.ProviderID) {
		c.Events.Eventf(m, corev1.EventTypeWarning, eventNodeMissing,
			"node %s is being deleted, but runs on VM %s and not on this Machine's, so the Machine is not deleted; "+
				"correct the label %s", o.name, o.node.Spec.ProviderID, machinev1.NodeLabel)
		return nil
	}
	return c.deleteMachine(ctx, m, fmt.Sprintf("node %s is being deleted: deleting the Machine and its VM", o.name))
}

// sameVM reports whether two providerIDs may mean the same VM. Clouds write the
// place before the id in more than one form, so only the id behind the last
// slash is compared; where one of them is not known, nothing speaks against it.
func sameVM(a, b string) bool {
	id := func(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }
	return a == "" || b == "" || strings.EqualFold(id(a), id(b))
}

// followMissing deletes the Machine of a Node that had joined and is gone. The API server
// has to confirm that the Node does not exist, and the target cluster has to be the one
// of the Machines. Where that is unknown, the Machine's health timeout applies.
func (c *Controller) followMissing(ctx context.Context, o *observation) (time.Duration, error) {
	if len(o.machines) == 0 || !o.machine().DeletionTimestamp.IsZero() {
		c.forget(o.name)
		return 0, nil
	}
	m := o.machine()
	if joined, err := c.hasJoined(ctx, o.name, m); err != nil || !joined {
		return 0, err
	}
	switch err := c.Target.Live.Get(ctx, client.ObjectKey{Name: o.name}, &corev1.Node{}); {
	case err == nil:
		return staleRetry, nil // the cache is behind
	case !apierrors.IsNotFound(err):
		return 0, fmt.Errorf("reading node %s: %w", o.name, err)
	}
	if err := c.deleteMachine(ctx, m, fmt.Sprintf("node %s is gone: deleting the Machine and its VM",
		o.name)); err != nil {
		return 0, err
	}
	c.forget(o.name)
	return 0, nil
}

// hasJoined reports whether the missing Node of m has been in this target cluster:
// this process has seen it, or m says that it joined and the cluster is the one
// that the Machines belong to.
func (c *Controller) hasJoined(ctx context.Context, name string, m *machinev1.Machine) (bool, error) {
	if c.hasSeen(name, m) {
		return true, nil
	}
	if len(m.Status.Conditions) == 0 {
		return false, nil
	}
	ours, err := c.targetIsOurs(ctx)
	if err != nil || !ours {
		c.reportMissing(m, name, err)
		return false, err
	}
	return true, nil
}

// targetIsOurs reports whether any Node of the target cluster belongs to a Machine of the
// control cluster. It is called only for a Node that is missing.
func (c *Controller) targetIsOurs(ctx context.Context) (bool, error) {
	var nodes corev1.NodeList
	if err := c.Target.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the nodes: %w", err)
	}
	for i := range nodes.Items {
		machines, err := c.machinesOf(ctx, nodes.Items[i].Name)
		if err != nil || len(machines) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

func (c *Controller) reportMissing(m *machinev1.Machine, node string, err error) {
	if err == nil {
		c.Events.Eventf(m, corev1.EventTypeWarning, eventNodeMissing,
			"node %s is missing, and so are the nodes of all other Machines, so no Machine is deleted; check that "+
				"--target-kubeconfig is the right cluster", node)
	}
}
