// Package drain drains a node before its machine is deleted. It never blocks: each
// pass observes pods and volumes, takes the steps that are due, and reports what the
// drain waits for. The rules are MCM's (docs/operations.md).
package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// force deletes every pod without a grace period, and waits for none. It goes on with
// the other pods if one cannot be deleted.
func (p *pass) force(ctx context.Context) (Result, error) {
	var failed []error
	for _, pod := range p.pods {
		a := p.state.attempt(pod)
		if a.forced {
			continue // deleted in an earlier pass; the cache does not show it yet
		}
		err := p.deletePod(ctx, pod)
		if err != nil && isServerError(err) {
			return Result{}, fmt.Errorf("draining node %s by force: deleting pod %s: %w", p.request.Node.Name, name(pod), err)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("deleting pod %s: %w", name(pod), err))
			continue
		}
		a.forced = true
	}
	if len(failed) > 0 {
		return Result{}, fmt.Errorf("draining node %s by force: %w", p.request.Node.Name, errors.Join(failed...))
	}
	return Result{Done: true, Reason: machinev1.ReasonDrained, Message: "all pods have been deleted by force"}, nil
}

// Cordon makes the node unschedulable. It writes nothing if the node is unschedulable
// or does not exist.
func (d *Drainer) Cordon(ctx context.Context, node *corev1.Node) error {
	if node == nil || node.Spec.Unschedulable {
		return nil
	}
	changed := node.DeepCopy()
	changed.Spec.Unschedulable = true
	if err := target.PatchNode(ctx, d.target.Client, node, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cordoning node %s: %w", node.Name, err)
	}
	return nil
}

// MarkTerminating sets the node's condition Terminating, with reason ScaleDown or
// Unhealthy. It writes nothing if the condition has that reason, or if the node does
// not exist. The other conditions stay the kubelet's.
func (d *Drainer) MarkTerminating(ctx context.Context, node *corev1.Node, reason string) error {
	if node == nil {
		return nil
	}
	want := terminating(reason, metav1.NewTime(d.clock.Now()))
	changed := node.DeepCopy()
	if !setCondition(changed, want) {
		return nil
	}
	if err := target.PatchNodeStatus(ctx, d.target.Client, node, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("setting condition %s of node %s: %w", want.Type, node.Name, err)
	}
	return nil
}

func terminating(reason string, now metav1.Time) corev1.NodeCondition {
	c := corev1.NodeCondition{
		Type: machinev1.NodeTerminating, Status: corev1.ConditionTrue, Reason: reason,
		LastHeartbeatTime: now, LastTransitionTime: now, Message: "Machine Controller is scaling down machine",
	}
	if reason == machinev1.ReasonUnhealthy {
		c.Message = "Machine Controller is terminating failed machine"
	}
	return c
}

// setCondition sets a condition of the node, and reports whether it has changed.
func setCondition(node *corev1.Node, want corev1.NodeCondition) bool {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != want.Type {
			continue
		}
		if c.Status == want.Status && c.Reason == want.Reason {
			return false
		}
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		*c = want
		return true
	}
	node.Status.Conditions = append(node.Status.Conditions, want)
	return true
}
