// Package drain drains a node before its machine is deleted. It never blocks: each
// pass observes pods and volumes, takes the steps that are due, and reports what the
// drain waits for. The rules are MCM's (docs/drain.md).
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
	overdueAfter  = 30 * time.Second // after its grace period, a pod is reported
	defaultGrace  = 30 * time.Second // of a pod without a grace period
	busyWait      = time.Second      // another worker is draining the same node
)

// Deps are what a Drainer works with.
type Deps struct {
	// Target is the cluster with the nodes; never nil. Its cache needs the
	// indexes of package index and Indexes.
	Target *target.Cluster
	Clock  clock.PassiveClock
	// Confirm makes the drain list the pods of the node from the API server when the
	// cache shows none: a pod that was bound just before the node was cordoned may not
	// be in the cache yet. It costs one request for each pass that finds the node drained.
	Confirm bool
}

// A Drainer drains any number of nodes, and is safe for concurrent use. It counts in
// memory how often an eviction was refused: losing the count makes a drain slower,
// never more forceful.
type Drainer struct {
	target  *target.Cluster
	clock   clock.PassiveClock
	confirm bool
	tracker tracker
}

// New returns a Drainer that has not drained any node.
func New(d Deps) *Drainer {
	return &Drainer{
		target: d.Target, clock: d.Clock, confirm: d.Confirm,
		tracker: tracker{states: map[string]*nodeState{}},
	}
}

// Request is which node to drain, and how.
type Request struct {
	// Node as the cache shows it. Nil if it does not exist: then Kubernetes deletes its
	// pods, and the drain is complete.
	Node *corev1.Node
	// Started is when this drain began. It is the same in all passes; another value
	// begins another drain.
	Started time.Time
	// Timeout is how long the drain may take. A drain that takes longer continues and
	// reports DrainTimedOut; the caller decides whether to set Force.
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
	// VolumeID returns the ID of a volume in the cloud; ok is false for any other
	// volume, which the drain does not wait for. Nil: the drain waits for no volume.
	VolumeID func(*corev1.PersistentVolumeSpec) (id string, ok bool)
}

// Result is the progress of a drain.
type Result struct {
	// Done is true once the drain is complete.
	Done bool
	// Wait is after how long to call again, unless an event comes before; above 0 unless
	// Done.
	Wait time.Duration
	// Reason is a condition reason, Message is for people. They do not change with each
	// pod that ends, so that a drain of many pods needs few writes.
	Reason, Message string
	// Took is how long the drain lasted; 0 unless Done, and in a process that has only
	// seen the end of it.
	Took time.Duration
}

// Drain takes the steps that are due on one node. An error means that the progress is
// unknown, for example because the API server does not answer; a failure of a single
// pod is in the Result.
func (d *Drainer) Drain(ctx context.Context, r Request) (result Result, err error) {
	if r.Node == nil {
		return Result{Done: true, Reason: machinev1.ReasonNodeNotFound, Message: "the node does not exist"}, nil
	}
	now := d.clock.Now()
	state, free := d.tracker.begin(r.Node.Name, r.Started, now)
	if !free {
		return Result{
			Wait: busyWait, Reason: machinev1.ReasonDraining,
			Message: "another worker is draining the node",
		}, nil
	}
	p := &pass{drainer: d, request: r, now: now, state: state}
	defer func() {
		if result.Done {
			result.Took = now.Sub(state.began)
		}
		d.tracker.end(state, p.awaited(result))
	}()
	if err := p.observe(ctx); err != nil {
		return Result{}, err
	}
	if r.Force {
		return p.force(ctx)
	}
	if err := p.act(ctx); err != nil {
		return Result{}, err
	}
	result = report(p.progress())
	if result.Done && d.confirm {
		return p.confirmed(ctx, result)
	}
	return state.report(result, now), nil
}

// A pass is one call of Drain: what it has observed of a node.
type pass struct {
	drainer *Drainer
	request Request
	now     time.Time
	state   *nodeState

	pods      []*corev1.Pod                 // to be drained, by namespace and name; shared with the cache, never changed
	claims    map[types.NamespacedName]int  // how many pods of the node use each claim
	budgets   map[string][]budget           // by namespace, read when first needed
	exhausted map[types.NamespacedName]bool // budgets that have refused an eviction in this pass
}

// act evicts the pods without claims all at once, and the others one by one.
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
		if _, err := p.evictIfDue(ctx, pod); err != nil {
			return fmt.Errorf("draining node %s: %w", p.request.Node.Name, err)
		}
	}
	if err := p.evictSerially(ctx, bound); err != nil {
		return fmt.Errorf("draining node %s: %w", p.request.Node.Name, err)
	}
	return nil
}
