package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// followDeleted deletes the Machine of a Node that is being deleted, unless many are. The
// Node keeps its finalizer until the VM is gone.
func (c *Controller) followDeleted(ctx context.Context, o *observation) (time.Duration, error) {
	m := o.machine()
	if _, foreign := o.node.Annotations[machinev1.NotManagedAnnotation]; foreign || !m.DeletionTimestamp.IsZero() {
		c.Brake.ReleaseNode(o.name)
		return 0, nil
	}
	if why := notFollowed(m, o.node); why != "" {
		c.forget(o.name)
		c.Events.Event(m, corev1.EventTypeWarning, eventNodeMissing, why)
		return 0, nil
	}
	answer, err := c.Brake.DeleteWithNode(ctx, deletion(o, o.node.UID))
	switch {
	case err != nil:
		return 0, err
	case !answer.Allowed && !machinev1.IsNodeDeletionHeld(o.node):
		return answer.Again, c.hold(ctx, o, answer)
	case !answer.Allowed:
		return answer.Again, nil
	}
	return 0, c.deleteMachine(ctx, m, fmt.Sprintf("node %s is being deleted: deleting the Machine and its VM", o.name))
}

// deletion is what the brake is asked about: the deletion of the Node of o, which has that UID.
func deletion(o *observation, uid types.UID) brake.NodeDeletion {
	return brake.NodeDeletion{
		Name: o.name, UID: uid, Node: o.node, Machine: o.machine(),
		Follows: func(m *machinev1.Machine, node *corev1.Node) bool { return notFollowed(m, node) == "" },
	}
}

// hold records on the Node that its Machine stays, and emits an Event on the Machine.
func (c *Controller) hold(ctx context.Context, o *observation, why brake.Answer) error {
	changed := o.node.DeepCopy()
	machinev1.SetAnnotation(changed, machinev1.NodeDeletionAnnotation, machinev1.NodeDeletionHeld)
	if err := target.PatchNode(ctx, c.Target.Client, o.node, changed); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("hold deletion of node %s: %w", o.name, err))
	}
	c.Events.Event(o.machine(), corev1.EventTypeWarning, why.Reason, why.Message)
	return nil
}

// Collectors returns the metrics of c.
func (c *Controller) Collectors() []prometheus.Collector {
	if c.Brake == nil {
		return nil // there are no nodes
	}
	return []prometheus.Collector{c.Brake.HeldNodesMetric()}
}

// notFollowed returns why the Machine that names a Node is not deleted with it; empty if it is.
func notFollowed(m *machinev1.Machine, node *corev1.Node) string {
	switch {
	case node.DeletionTimestamp.Before(&m.CreationTimestamp):
		return fmt.Sprintf("node %s was deleted before this Machine was created, so the Machine is not deleted; remove "+
			"the finalizers of the node if it is left over from another machine", node.Name)
	case !sameVM(m.Spec.ProviderID, node.Spec.ProviderID):
		return fmt.Sprintf("node %s is being deleted, but runs on VM %s and not on this Machine's, so the Machine is not "+
			"deleted; correct the label %s", node.Name, node.Spec.ProviderID, machinev1.NodeLabel)
	}
	return ""
}

// sameVM reports whether two providerIDs may mean the same VM. Clouds write the
// place before the id in more than one form, so only the id behind the last
// slash is compared; where one of them is not known, nothing speaks against it.
func sameVM(a, b string) bool {
	id := func(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }
	return a == "" || b == "" || strings.EqualFold(id(a), id(b))
}

// followMissing deletes the Machine of a Node whose deletion this process has observed,
// and which the API server confirms not to exist. Where the deletion was not observed,
// because the process has just started or its watch was interrupted, the Node may have
// been lost: the target cluster may have been restored, or be the wrong one. Then, and
// where many Nodes are deleted together, the Machine is judged as one with an unhealthy node.
func (c *Controller) followMissing(ctx context.Context, o *observation) (time.Duration, error) {
	if len(o.machines) == 0 || !o.machine().DeletionTimestamp.IsZero() {
		c.forget(o.name)
		return 0, nil
	}
	m := o.machine()
	uid, observed := c.observedDeletion(o.name, m)
	if !observed {
		c.Brake.ReleaseNode(o.name)
		c.reportMissing(m, o.name, "its deletion was not observed")
		return 0, nil
	}
	switch err := c.Target.Live.Get(ctx, client.ObjectKey{Name: o.name}, &corev1.Node{}); {
	case err == nil:
		return staleRetry, nil // the cache is behind
	case !apierrors.IsNotFound(err):
		return 0, fmt.Errorf("reading node %s: %w", o.name, err)
	}
	answer, err := c.Brake.DeleteWithNode(ctx, deletion(o, uid))
	switch {
	case err != nil:
		return 0, err
	case !answer.Allowed:
		c.forget(o.name)
		c.reportMissing(m, o.name, "many others were deleted with it")
		return 0, nil
	}
	if err := c.deleteMachine(ctx, m, fmt.Sprintf("node %s is gone: deleting the Machine and its VM",
		o.name)); err != nil {
		return 0, err
	}
	c.forget(o.name)
	return 0, nil
}

// reportMissing emits an Event about a Node that had joined and is missing.
func (c *Controller) reportMissing(m *machinev1.Machine, node, why string) {
	if len(joining.OfNode(m.Status.Conditions)) == 0 {
		return // it may not have joined yet
	}
	c.Events.Eventf(m, corev1.EventTypeWarning, eventNodeMissing,
		"node %s does not exist, and %s: %s; if the nodes of all Machines are missing, check "+
			"--target-kubeconfig", node, why, missingConsequence(m))
}

// missingConsequence is what becomes of a Machine whose Node is missing.
func missingConsequence(m *machinev1.Machine) string {
	c := m.Spec.MachineConfiguration
	switch {
	case m.Status.CurrentStatus.Phase == machinev1.MachineFailed && m.Status.CurrentStatus.PreserveExpiryTime != nil:
		return "the Machine has failed already and is replaced when its preservation ends"
	case m.Status.CurrentStatus.Phase == machinev1.MachineFailed:
		return "the Machine has failed already and is replaced by its MachineSet"
	case c != nil && c.DisableHealthTimeout != nil && *c.DisableHealthTimeout:
		return "disableHealthTimeout is true, so the Machine is not replaced until somebody deletes it"
	}
	return "the Machine is replaced if the node does not come back within the health timeout, or later while several " +
		"nodes are unhealthy together"
}

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
