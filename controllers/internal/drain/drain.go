// Package drain empties a node before its machine goes, without ever waiting:
// each pass looks at what is there, takes the steps that are due, and says what
// the rest depends on. The rules are MCM's (docs/drain.md).
package drain

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// Times that MCM fixes.
const (
	retryInterval = 20 * time.Second // between two evictions of one pod
	overdueAfter  = 30 * time.Second // a pod that lives this much longer than its grace period is named
	defaultGrace  = 30 * time.Second // of a pod that names none
	busyWait      = time.Second      // another worker drains the same node right now
)

// Deps are what a Drainer works with.
type Deps struct {
	// Target is the cluster with the nodes; never nil. Its cache needs the
	// indexes of package index and Indexes.
	Target *target.Cluster
	Clock  clock.PassiveClock
	// Confirm asks the API server for the pods of the node once more when the
	// cache shows none: a pod that was bound just before the node was cordoned
	// may not have reached the cache. It costs one request a drain.
	Confirm bool
}

// A Drainer drains any number of nodes, and may be used by several workers at a
// time. It remembers how often an eviction was refused; losing that memory makes
// a drain slower, and never more forceful.
type Drainer struct {
	target  *target.Cluster
	clock   clock.PassiveClock
	confirm bool
	book    book
}

// New returns a Drainer that has not seen any node.
func New(d Deps) *Drainer {
	return &Drainer{target: d.Target, clock: d.Clock, confirm: d.Confirm, book: book{ledgers: map[string]*ledger{}}}
}

// Request says which node is to be drained, and how.
type Request struct {
	// Node as the cache shows it. Nil means that there is no such Node: then
	// Kubernetes removes its pods whatever anybody does, and the drain is done.
	Node *corev1.Node
	// Started is when this drain began. It stays the same from pass to pass;
	// another value begins another drain.
	Started time.Time
	// Timeout is how long the drain may take. A drain that takes longer goes on
	// and says so; Force is for the caller to set.
	Timeout time.Duration
	// MaxEvictRetries is how often a refused eviction is repeated, every 20
	// seconds, before the pod is deleted. Below 0 is 0.
	MaxEvictRetries int32
	// PVDetachTimeout is how long the volumes of a pod may stay attached after
	// its grace period. PVReattachTimeout is how long the next pod waits for them
	// to be attached to another node; 0 is not at all.
	PVDetachTimeout, PVReattachTimeout time.Duration
	// Force deletes all pods at once, without grace, and does not wait for them.
	Force bool
	// VolumeID is the cloud's name of a volume; ok is false for a volume of
	// something else, which is not waited for. Nil names none.
	VolumeID func(*corev1.PersistentVolumeSpec) (id string, ok bool)
}

// Result says how far the drain is.
type Result struct {
	// Done is true once there is nothing left to wait for.
	Done bool
	// Wait is when to call again unless something happens before; above 0 unless Done.
	Wait time.Duration
	// Reason is a condition reason, Message is for a person. Neither changes
	// with every pod that goes, so that writing them costs little.
	Reason, Message string
}

// Drain takes the steps that are due on one node. An error means that nothing
// can be said about the node, e.g. since the API server does not answer; what
// happens to a single pod is in the Result.
func (d *Drainer) Drain(ctx context.Context, r Request) (result Result, err error) {
	if r.Node == nil {
		return Result{Done: true, Reason: machinev1.ReasonNodeNotFound, Message: "the node is gone"}, nil
	}
	now := d.clock.Now()
	memory, free := d.book.open(r.Node.Name, r.Started, now)
	if !free {
		return Result{
			Wait: busyWait, Reason: machinev1.ReasonDraining,
			Message: "the node is already being drained by another machine",
		}, nil
	}
	p := &pass{drainer: d, request: r, now: now, memory: memory}
	defer func() { d.book.closed(memory, p.awaited(result)) }()
	if err := p.observe(ctx); err != nil {
		return Result{}, err
	}
	if r.Force {
		return p.force(ctx)
	}
	if err := p.act(ctx); err != nil {
		return Result{}, err
	}
	result = report(p.facts())
	if result.Done && d.confirm && !memory.confirmed {
		return p.confirmed(ctx, result)
	}
	return memory.settle(result, now), nil
}

// A pass is one look at a node and the steps that follow from it.
type pass struct {
	drainer *Drainer
	request Request
	now     time.Time
	memory  *ledger

	pods    []*corev1.Pod                 // that have to go, by namespace and name; of the cache, never changed
	claims  map[types.NamespacedName]int  // how many pods of the node use each claim
	budgets map[string][]budget           // by namespace, read when first needed
	spent   map[types.NamespacedName]bool // budgets that have refused an eviction in this pass
}

// act evicts what may go: pods without claims all at once, the others one after
// the other.
func (p *pass) act(ctx context.Context) error {
	var bound []*corev1.Pod
	for _, pod := range p.pods {
		if len(claimsOf(pod)) > 0 {
			bound = append(bound, pod)
			continue
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		if _, err := p.release(ctx, pod); err != nil {
			return fmt.Errorf("draining node %s: %w", p.request.Node.Name, err)
		}
	}
	if err := p.releaseSerially(ctx, bound); err != nil {
		return fmt.Errorf("draining node %s: %w", p.request.Node.Name, err)
	}
	return nil
}
