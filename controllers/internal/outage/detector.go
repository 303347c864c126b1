package outage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// Deps are what a Detector needs; all are required.
type Deps struct {
	Machines client.Reader // control cluster, a cache with index.MachineByNode and MachineUnknown
	Nodes    client.Reader // target cluster, a cache with index.NodeUnwell
	// ClassZone is the zone of a machine whose node does not name one; empty if unknown.
	ClassZone func(ctx context.Context, m *machinev1.Machine) string
	// NodeConditions are the types that make the node of a machine unhealthy unless
	// they are False.
	NodeConditions func(m *machinev1.Machine) []string
}

// Detector finds outages among the machines of a namespace. What it remembers
// only saves work: which outages it found a moment ago, and which VMs the cloud
// has reported gone. It is safe for concurrent use.
type Detector struct {
	Deps

	mu    sync.Mutex
	known map[failureDomainKey]finding
	gone  map[types.UID]time.Time
}

// failureDomainKey names what can fail as a whole. Zones of different namespaces
// are different: their clouds may be.
type failureDomainKey struct {
	namespace string
	scope     Scope
	name      string
}

// finding is an outage that need not be looked for again until then.
type finding struct {
	until time.Time
	nodes int
}

// memory is how long an outage that was found is taken for granted: a hundred
// machines that ask at once cost one search.
const memory = 30 * time.Second

// NewDetector returns a Detector that remembers nothing.
func NewDetector(d Deps) *Detector {
	return &Detector{Deps: d, known: map[failureDomainKey]finding{}, gone: map[types.UID]time.Time{}}
}

// A Query asks for an outage around a machine.
type Query struct {
	Machine *machinev1.Machine
	Node    *corev1.Node // nil: it does not exist
	Now     time.Time
	Window  time.Duration // between two losses that belong together
	Limit   time.Duration // losses that are older do not count
	Recheck time.Duration // when the caller asks again
}

// An Outage is an answer to a Query. The zero Outage is none.
type Outage struct {
	Scope Scope
	Place Place
	Nodes int // how many became unhealthy together
}

// Where names the zone or the pool that has the outage.
func (o Outage) Where() string {
	if o.Scope == Zone {
		return "in zone " + o.Place.Zone
	}
	return "of pool " + o.Place.Pool
}

// Find returns the outage where the machine is.
func (d *Detector) Find(ctx context.Context, q Query) (Outage, error) {
	p := Place{Zone: d.zone(ctx, q.Machine, q.Node), Pool: PoolOf(q.Machine)}
	if known := d.recall(q, p); known.Scope != None {
		return known, nil
	}
	losses, err := d.losses(ctx, q)
	if err != nil {
		return Outage{}, err
	}
	scope, nodes := Around(p, losses, q.Window, q.Now.Add(-q.Limit))
	d.remember(q, p, scope, nodes)
	return Outage{scope, p, nodes}, nil
}

// losses are those of the machine's namespace.
func (d *Detector) losses(ctx context.Context, q Query) ([]Loss, error) {
	var nodes corev1.NodeList
	if err := d.Nodes.List(ctx, &nodes, client.MatchingFields{index.NodeUnwell: index.Unwell},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list unhealthy nodes: %w", err)
	}
	var found []Loss
	for i := range nodes.Items {
		loss, ok, err := d.lossOf(ctx, q.Machine, &nodes.Items[i])
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, loss)
		}
	}
	missing, err := d.missing(ctx, q.Machine.Namespace)
	return append(found, missing...), err
}

// signMissing is the sign of a Node that had joined and does not exist.
const signMissing = "NodeMissing"

// missing are the losses of Nodes that do not exist, and whose deletion was not observed:
// their Machines are Unknown. Those of Nodes that were seen deleted are deleted at once.
func (d *Detector) missing(ctx context.Context, namespace string) ([]Loss, error) {
	var list machinev1.MachineList
	if err := d.Machines.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingFields{index.MachineUnknown: index.Unknown}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list machines that are Unknown: %w", err)
	}
	var found []Loss
	for i := range list.Items {
		m := &list.Items[i]
		if !counts(m) || d.IsGone(m.UID, time.Time{}) {
			continue
		}
		err := d.Nodes.Get(ctx, client.ObjectKey{Name: m.Labels[machinev1.NodeLabel]}, &corev1.Node{})
		switch {
		case apierrors.IsNotFound(err):
			signs := map[string]time.Time{signMissing: m.Status.LastOperation.LastUpdateTime.Time}
			found = append(found, Loss{Zone: d.zone(ctx, m, nil), Pool: PoolOf(m), Signs: signs})
		case err != nil:
			return nil, fmt.Errorf("read Node of Machine %s: %w", m.Name, err)
		}
	}
	return found, nil
}

// lossOf is the loss that a node is to the namespace of asker, if it is one.
func (d *Detector) lossOf(ctx context.Context, asker *machinev1.Machine, node *corev1.Node) (Loss, bool, error) {
	var list machinev1.MachineList
	err := d.Machines.List(ctx, &list, client.InNamespace(asker.Namespace),
		client.MatchingFields{index.MachineByNode: node.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return Loss{}, false, fmt.Errorf("look up machines of Node %s: %w", node.Name, err)
	}
	if len(list.Items) != 1 {
		return Loss{}, false, nil
	}
	m := &list.Items[0]
	asksForDrain := m.UID == asker.UID && !m.DeletionTimestamp.IsZero()
	if !counts(m) && !asksForDrain || d.IsGone(m.UID, time.Time{}) {
		return Loss{}, false, nil
	}
	signs := signsOf(m, node, d.NodeConditions(m))
	if len(signs) == 0 {
		return Loss{}, false, nil
	}
	return Loss{Zone: d.zone(ctx, m, node), Pool: PoolOf(m), Signs: signs}, true, nil
}

// counts reports whether an unhealthy node of m is a loss. New nodes and nodes
// that are being updated are unhealthy for a while, and the VMs of machines that
// are being deleted have been shut down. A Failed one was lost alone.
func counts(m *machinev1.Machine) bool {
	if !m.DeletionTimestamp.IsZero() {
		return false
	}
	phase := m.Status.CurrentStatus.Phase
	return phase == machinev1.MachineRunning || phase == machinev1.MachineUnknown
}

// signsOf are the conditions that make node unhealthy, and since when. Where the
// node does not say since when, the machine does.
func signsOf(m *machinev1.Machine, node *corev1.Node, kinds []string) map[string]time.Time {
	signs := map[string]time.Time{}
	for _, c := range node.Status.Conditions {
		healthy := corev1.ConditionFalse
		if c.Type == corev1.NodeReady {
			healthy = corev1.ConditionTrue
		} else if !slices.Contains(kinds, string(c.Type)) {
			continue
		}
		if c.Status == healthy {
			continue
		}
		since := c.LastTransitionTime.Time
		if since.IsZero() {
			since = m.Status.LastOperation.LastUpdateTime.Time
		}
		signs[string(c.Type)] = since
	}
	return signs
}

func (d *Detector) zone(ctx context.Context, m *machinev1.Machine, node *corev1.Node) string {
	if node != nil && node.Labels[corev1.LabelTopologyZone] != "" {
		return node.Labels[corev1.LabelTopologyZone]
	}
	return d.ClassZone(ctx, m)
}

// PoolOf names the machines that m is replaced among: those of its
// MachineDeployment, which the label name identifies, else those of its owner;
// empty if it has neither.
func PoolOf(m *machinev1.Machine) string {
	if name := m.Labels[machinev1.NameLabel]; name != "" {
		return name
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		return owner.Name
	}
	return ""
}

// recall is the outage that was found a moment ago where the machine is.
func (d *Detector) recall(q Query, p Place) Outage {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keysOf(q.Machine.Namespace, p) {
		if known := d.known[k]; known.until.After(q.Now) {
			return Outage{k.scope, p, known.nodes}
		}
	}
	return Outage{}
}

func (d *Detector) remember(q Query, p Place, scope Scope, nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keysOf(q.Machine.Namespace, p) {
		delete(d.known, k)
		if k.scope == scope {
			d.known[k] = finding{q.Now.Add(min(memory, q.Recheck/2)), nodes}
		}
	}
}

// keysOf are the failure domains of a place, the zone first.
func keysOf(namespace string, p Place) []failureDomainKey {
	var all []failureDomainKey
	if p.Zone != "" {
		all = append(all, failureDomainKey{namespace, Zone, p.Zone})
	}
	if p.Pool != "" {
		all = append(all, failureDomainKey{namespace, Pool, p.Pool})
	}
	return all
}

// MarkGone records that the cloud reported a machine's VM gone. Such a machine
// has failed by itself, and is no part of an outage.
func (d *Detector) MarkGone(uid types.UID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone[uid] = now
}

// IsGone reports whether the cloud reported after that time that the VM is gone.
func (d *Detector) IsGone(uid types.UID, after time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone[uid].After(after)
}

// Forget drops what the cloud reported about a machine's VM.
func (d *Detector) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.gone, uid)
}

// Duration formats d for a message: 2h instead of 2h0m0s.
func Duration(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
