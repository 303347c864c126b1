// Package node syncs each Node with its Machine: it applies the node template of the
// Machine and the virtual capacity of its class, deletes the Machine of a Node that is
// deleted, and marks a Node that belongs to no Machine.
package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// staleRetry is the delay when the cache is behind the last write of this process. The
// event of that write usually comes first.
const staleRetry = 200 * time.Millisecond

// Reasons of Events on Machines.
const (
	eventInvalidTemplate   = "InvalidNodeTemplate"
	eventInvalidAnnotation = "InvalidAnnotation"
	eventNodeRefused       = "NodeRefused"
	eventNodeDeleted       = "NodeDeleted"
	eventNodeMissing       = "NodeMissing"
)

// Deps are what a Controller needs; Client, Target, Clock and Events are required.
type Deps struct {
	// Client is of the cluster with the Machines; its cache has the indexes of package index.
	Client client.Client
	// Target is the cluster with the nodes; nil: there are none, and nothing to do.
	Target *target.Cluster
	Clock  clock.PassiveClock
	Events record.EventRecorder
	// MachineCreationTimeout is how old a Node gets without a Machine before it
	// counts as somebody else's.
	MachineCreationTimeout time.Duration
	// AnnotateDuringRollout keeps autoscalers from removing nodes that join during
	// a rollout. False where it is not said.
	AnnotateDuringRollout bool
	// Visits records every reconcile, so that a Machine's hold is not answered during
	// one; nil: Machines are not held.
	Visits *hold.Visits
	// Brake is shared with the Machine controller; nil: the Controller has its own.
	Brake *brake.Brake
}

// Controller syncs Nodes with their Machines.
type Controller struct {
	Deps
	mu      sync.Mutex
	seen    map[string]seenNode  // by node name
	deleted map[string]types.UID // of Nodes whose deletion was observed, by node name
}

// A seenNode is a Node that this process has seen, and its Machine.
type seenNode struct{ node, machine types.UID }

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	if d.Target != nil {
		own := *d.Target
		own.Client = fresh.NewClient(fresh.ClientDeps{Client: own.Client, Live: own.Live, Clock: d.Clock}, &corev1.Node{})
		d.Target = &own
	}
	if d.Brake == nil && d.Target != nil {
		d.Brake = brake.New(brake.Deps{Client: d.Client, Nodes: d.Target.Client, Clock: d.Clock})
	}
	return &Controller{Deps: d, seen: map[string]seenNode{}, deleted: map[string]types.UID{}}
}

// Reconcile syncs the Node of that name with the Machine that names it:
//
//  1. observe the Node, the Machines that name it and their class;
//  2. take the one action that follows from it.
//
// It does nothing about the Node of a Machine that is held.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer c.Visits.Begin(req.Name)()
	o, err := c.observe(ctx, req.Name)
	if err != nil {
		return outcome.Of(0, err)
	}
	return outcome.Of(c.act(ctx, o))
}

// act takes the action that follows from the observation. A Node that several Machines
// name belongs to none: its deletion could delete the wrong Machine.
func (c *Controller) act(ctx context.Context, o *observation) (time.Duration, error) {
	switch {
	case slices.ContainsFunc(o.machines, func(m machinev1.Machine) bool { return machinev1.Held(&m) }):
		return 0, nil // the end of the hold enqueues the Node
	case len(o.machines) > 1:
		c.reportShared(o)
		return 0, nil
	case o.node == nil:
		return c.followMissing(ctx, o)
	case len(o.machines) == 0:
		return c.markNotManaged(ctx, o.node)
	}
	if !o.node.DeletionTimestamp.IsZero() {
		return c.followDeleted(ctx, o)
	}
	c.remember(o)
	if !o.machine().DeletionTimestamp.IsZero() {
		return 0, nil // the Node keeps its finalizer until the VM is gone
	}
	return 0, c.sync(ctx, o)
}

// reportShared emits an Event on each of several Machines that name the same Node.
func (c *Controller) reportShared(o *observation) {
	for i := range o.machines {
		m := &o.machines[i]
		c.Events.Eventf(m, corev1.EventTypeWarning, machinev1.ReasonNodeShared,
			"label %s: %d Machines name node %s (%s); the node is not managed until only one does: delete the others, or "+
				"correct the label",
			machinev1.NodeLabel, len(o.machines), o.name, o.claimants())
	}
}

// remember records that the Node of a Machine exists.
func (c *Controller) remember(o *observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[o.name] = seenNode{node: o.node.UID, machine: o.machine().UID}
	if c.deleted[o.name] != o.node.UID { // else it was deleted after it had been read
		delete(c.deleted, o.name)
	}
}

// rememberDeletion records that the watch has shown the deletion of a Node. Whoever removed
// the finalizers of a Node whose deletion is held wants to keep its VM.
func (c *Controller) rememberDeletion(node *corev1.Node) {
	if machinev1.IsNodeDeletionHeld(node) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted[node.Name] = node.UID
}

// observedDeletion reports whether this process has seen the Node of that name as the
// Machine's, and then the deletion of that same Node, whose UID it returns.
func (c *Controller) observedDeletion(name string, m *machinev1.Machine) (types.UID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, deleted := c.deleted[name]
	return node, deleted && c.seen[name] == seenNode{node: node, machine: m.UID}
}

// forget drops the record of a Node that is gone.
func (c *Controller) forget(name string) {
	c.Brake.ReleaseNode(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, name)
	delete(c.deleted, name)
}

// deleteMachine deletes the Machine, and so its VM, unless the Machine has changed since
// it was read: it may be held now.
func (c *Controller) deleteMachine(ctx context.Context, m *machinev1.Machine, why string) error {
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	err := c.Client.Delete(ctx, m.DeepCopy(), client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Machine %s/%s: %w", m.Namespace, m.Name, err)
	}
	if err == nil {
		c.Events.Event(m, corev1.EventTypeNormal, eventNodeDeleted, why)
	}
	return nil
}
