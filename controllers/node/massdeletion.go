package node

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outage"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// People and repair tools delete Nodes one at a time. Many deletions at once usually mean a
// mistake: a cloud controller manager that is shown no VMs any more deletes every Node.
const (
	fewDeletions     = 3             // always allowed
	deletionsShare   = 10            // the allowed share: one in so many Nodes
	deletionsWindow  = outage.Window // how long a deletion counts after its Machine was deleted
	defaultHoldLimit = 2 * time.Hour // the default of --machine-safety-outage-limit
	turnRetry        = 30 * time.Second
)

// holdMassDeletion returns after how long to look again at a deletion that the Machine must not
// follow yet; 0 if the Machine may be deleted. The Node keeps its finalizer meanwhile, and
// works as before.
func (c *Controller) holdMassDeletion(ctx context.Context, o *observation) (time.Duration, error) {
	if c.IgnoreOutages || o.node.Annotations[machinev1.NodeDeletionAnnotation] == machinev1.NodeDeletionApproved {
		c.setHeld(o.name, false)
		return 0, nil
	}
	if machinev1.IsNodeDeletionHeld(o.node) {
		return c.keepHeld(ctx, o)
	}
	many, err := c.isOneOfMany(ctx, o.name, o.node.UID)
	if err != nil || !many {
		return 0, err
	}
	return c.holdLimit(), c.hold(ctx, o)
}

// keepHeld returns how long a held deletion is held further. After the limit the Machines of
// a pool are deleted one at a time.
func (c *Controller) keepHeld(ctx context.Context, o *observation) (time.Duration, error) {
	c.setHeld(o.name, true)
	if rest := o.node.DeletionTimestamp.Add(c.holdLimit()).Sub(c.Clock.Now()); rest > 0 {
		return rest, nil
	}
	ok, _, err := c.permits.TakeToDelete(ctx, o.machine())
	if err != nil {
		return 0, fmt.Errorf("look for machines being replaced: %w", err)
	}
	if !ok {
		return turnRetry, nil
	}
	c.setHeld(o.name, false)
	return 0, nil
}

// hold records on the Node that its Machine stays, and emits an Event on the Machine.
func (c *Controller) hold(ctx context.Context, o *observation) error {
	changed := o.node.DeepCopy()
	machinev1.SetAnnotation(changed, machinev1.NodeDeletionAnnotation, machinev1.NodeDeletionHeld)
	if err := target.PatchNode(ctx, c.Target.Client, o.node, changed); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("hold deletion of node %s: %w", o.name, err))
	}
	c.setHeld(o.name, true)
	c.Events.Eventf(o.machine(), corev1.EventTypeWarning, machinev1.ReasonNodeDeletionHeld,
		"Node %s is one of many that are being deleted: Machine and VM are kept for up to %s; to delete them now, "+
			"delete the Machine or set annotation %s: %s on the node",
		o.name, outage.Duration(c.holdLimit()), machinev1.NodeDeletionAnnotation, machinev1.NodeDeletionApproved)
	return nil
}

// isOneOfMany reports whether more Nodes are deleted together than can be expected. Otherwise
// it records that the Machine of this one is deleted.
func (c *Controller) isOneOfMany(ctx context.Context, name string, uid types.UID) (bool, error) {
	c.deciding.Lock()
	defer c.deciding.Unlock()
	now := c.Clock.Now()
	maps.DeleteFunc(c.followed, func(_ types.UID, at time.Time) bool { return now.Sub(at) > deletionsWindow })
	if _, again := c.followed[uid]; again {
		return false, nil
	}
	limit := fewDeletions
	many, err := c.areDeleted(ctx, name, limit)
	if err != nil {
		return false, err
	}
	if many {
		nodes, err := c.countNodes(ctx)
		if err != nil {
			return false, err
		}
		if limit = max(limit, nodes/deletionsShare); limit > fewDeletions {
			many, err = c.areDeleted(ctx, name, limit)
		}
		if many || err != nil {
			return many, err
		}
	}
	c.followed[uid] = now
	return false, nil
}

// areDeleted reports whether at least so many other Nodes are being deleted, or were within
// the window.
func (c *Controller) areDeleted(ctx context.Context, but string, atLeast int) (bool, error) {
	count := len(c.followed) + c.heldBut(but)
	if count >= atLeast {
		return true, nil
	}
	var nodes corev1.NodeList
	err := c.Target.Client.List(ctx, &nodes, client.MatchingFields{index.NodeDeleting: index.Deleting},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("list nodes that are being deleted: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if _, followed := c.followed[node.UID]; followed || node.Name == but || c.isHeld(node.Name) {
			continue
		}
		waits, err := c.waits(ctx, node)
		if err != nil {
			return false, err
		}
		if waits {
			count++
		}
		if count >= atLeast {
			return true, nil
		}
	}
	return false, nil
}

// waits reports whether a Node is being deleted and its Machine is not.
func (c *Controller) waits(ctx context.Context, node *corev1.Node) (bool, error) {
	var list machinev1.MachineList
	err := c.Client.List(ctx, &list, client.MatchingFields{index.MachineByNode: node.Name}, client.UnsafeDisableDeepCopy)
	if err != nil || len(list.Items) != 1 {
		return false, err
	}
	m := &list.Items[0]
	return m.DeletionTimestamp.IsZero() && !machinev1.Held(m) && notFollowed(m, node) == "", nil
}

// heldBut returns how many Nodes are held, without the one of that name.
func (c *Controller) heldBut(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[name] {
		return len(c.held) - 1
	}
	return len(c.held)
}

func (c *Controller) isHeld(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[name]
}

// countNodes returns how many Machines have a Node.
func (c *Controller) countNodes(ctx context.Context) (int, error) {
	var all machinev1.MachineList
	if err := c.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list Machines: %w", err)
	}
	nodes := 0
	for i := range all.Items {
		if nodeOf(&all.Items[i]) != "" {
			nodes++
		}
	}
	return nodes, nil
}

func (c *Controller) holdLimit() time.Duration {
	if c.HoldLimit > 0 {
		return c.HoldLimit
	}
	return defaultHoldLimit
}

// setHeld records for the metric whether the deletion of a Node is held.
func (c *Controller) setHeld(name string, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setHeldLocked(name, held)
}

func (c *Controller) setHeldLocked(name string, held bool) {
	if held {
		c.held[name] = true
	} else {
		delete(c.held, name)
	}
}

// Collectors returns the metrics of c.
func (c *Controller) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "mcm", Subsystem: "machine", Name: "node_deletions_held",
		Help: "Nodes that are being deleted whose machines are kept, because many nodes are deleted together.",
	}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(len(c.held))
	})}
}
