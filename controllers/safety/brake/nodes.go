package brake

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
)

// A NodeDeletion is a Node that is being deleted, or that was observed to be deleted and is gone.
type NodeDeletion struct {
	Name    string
	UID     types.UID
	Node    *corev1.Node // nil: it is gone
	Machine *machinev1.Machine
	// Follows reports whether a Machine is to be deleted with a Node that it names.
	Follows func(*machinev1.Machine, *corev1.Node) bool
}

// heldRetry is when the Machine of a held Node asks again for its turn.
const heldRetry = 30 * time.Second

// DeleteWithNode answers whether the Machine may be deleted now because its Node is. A Node that is
// held stays so until a person approves its deletion; after OutageLimit the Machines of a pool go one
// at a time. The caller records on the Node that it is held.
func (b *Brake) DeleteWithNode(ctx context.Context, d NodeDeletion) (Answer, error) {
	answer, err := b.deleteWithNode(ctx, d)
	if err == nil {
		b.setHeld(d.Name, d.Node != nil && !answer.Allowed)
	}
	return answer, err
}

func (b *Brake) deleteWithNode(ctx context.Context, d NodeDeletion) (Answer, error) {
	approved := d.Node != nil && d.Node.Annotations[machinev1.NodeDeletionAnnotation] == machinev1.NodeDeletionApproved
	if b.IgnoreOutages || approved {
		return Answer{Allowed: true}, nil
	}
	held := Answer{
		Reason: machinev1.ReasonNodeDeletionHeld, Again: b.OutageLimit,
		Message: fmt.Sprintf("Node %s is one of many that are being deleted: Machine and VM are kept for up to %s; to "+
			"delete them now, delete the Machine or set annotation %s: %s on the node",
			d.Name, Duration(b.OutageLimit), machinev1.NodeDeletionAnnotation, machinev1.NodeDeletionApproved),
	}
	if d.Node == nil || !machinev1.IsNodeDeletionHeld(d.Node) {
		many, err := b.isOneOfMany(ctx, d)
		if err != nil || many {
			return held, err
		}
		return Answer{Allowed: true}, nil
	}
	if held.Again = d.Node.DeletionTimestamp.Add(b.OutageLimit).Sub(b.Clock.Now()); held.Again > 0 {
		return held, nil
	}
	turn, err := b.Delete(ctx, d.Machine)
	if err != nil {
		return turn, fmt.Errorf("look for machines being replaced: %w", err)
	}
	turn.Again = heldRetry
	return turn, nil
}

// isOneOfMany reports whether more Nodes are deleted together than can be expected. Otherwise
// it records that the Machine of this one is deleted.
func (b *Brake) isOneOfMany(ctx context.Context, d NodeDeletion) (bool, error) {
	b.deciding.Lock()
	defer b.deciding.Unlock()
	now := b.Clock.Now()
	maps.DeleteFunc(b.followed, func(_ types.UID, at time.Time) bool { return now.Sub(at) > Window })
	if _, again := b.followed[d.UID]; again {
		return false, nil
	}
	limit := Expected(0)
	many, err := b.areDeleted(ctx, d, limit)
	if err != nil {
		return false, err
	}
	if many { // only then it is worth to count all
		nodes, err := b.countNodes(ctx)
		if err != nil {
			return false, err
		}
		if most := Expected(nodes); most > limit {
			many, err = b.areDeleted(ctx, d, most)
		}
		if many || err != nil {
			return many, err
		}
	}
	b.followed[d.UID] = now
	return false, nil
}

// areDeleted reports whether at least so many other Nodes are being deleted, or were within
// the Window.
func (b *Brake) areDeleted(ctx context.Context, d NodeDeletion, atLeast int) (bool, error) {
	held := b.heldBeside(d.Name)
	count := len(b.followed) + len(held)
	if count >= atLeast {
		return true, nil
	}
	var nodes corev1.NodeList
	err := b.Nodes.List(ctx, &nodes, client.MatchingFields{index.NodeDeleting: index.Deleting},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("list nodes that are being deleted: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if _, followed := b.followed[node.UID]; followed || node.Name == d.Name || held[node.Name] {
			continue
		}
		m, err := b.machineOf(ctx, node.Name)
		if err != nil {
			return false, err
		}
		if m != nil && m.DeletionTimestamp.IsZero() && !machinev1.Held(m) && d.Follows(m, node) {
			count++
		}
		if count >= atLeast {
			return true, nil
		}
	}
	return false, nil
}

// countNodes returns how many Machines have a Node.
func (b *Brake) countNodes(ctx context.Context) (int, error) {
	var all machinev1.MachineList
	if err := b.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list Machines: %w", err)
	}
	nodes := 0
	for i := range all.Items {
		if all.Items[i].Labels[machinev1.NodeLabel] != "" {
			nodes++
		}
	}
	return nodes, nil
}

// heldBeside returns the Nodes that are held, without the one of that name.
func (b *Brake) heldBeside(name string) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	others := maps.Clone(b.held)
	delete(others, name)
	return others
}

// ReleaseNode notes that the deletion of a Node is not held, or not any more.
func (b *Brake) ReleaseNode(name string) { b.setHeld(name, false) }

func (b *Brake) setHeld(name string, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if held {
		b.held[name] = true
	} else {
		delete(b.held, name)
	}
}

// HeldNodes returns how many Nodes are being deleted whose Machines are kept.
func (b *Brake) HeldNodes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}

// HeldNodesMetric returns the metric of that number.
func (b *Brake) HeldNodesMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "mcm", Subsystem: "machine", Name: "node_deletions_held",
		Help: "Nodes that are being deleted whose machines are kept, because many nodes are deleted together.",
	}, func() float64 { return float64(b.HeldNodes()) })
}
