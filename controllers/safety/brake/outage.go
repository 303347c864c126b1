package brake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// A Query asks for an outage around a machine.
type Query struct {
	Machine *machinev1.Machine
	Node    *corev1.Node  // nil: it does not exist
	Health  time.Duration // the machine's health timeout
	// ClassZone is the zone of a machine whose node does not name one; empty if unknown.
	ClassZone func(ctx context.Context, m *machinev1.Machine) string
	// NodeConditions are the types that make the node of a machine unhealthy unless
	// they are False.
	NodeConditions func(m *machinev1.Machine) []string
}

// Window is how far apart losses may be. One that had been replaced before the next came was lost alone.
func (q Query) Window() time.Duration { return min(q.Health, Window) }

// Again is when an unhealthy machine looks for an outage again: several times within its health timeout.
func (q Query) Again() time.Duration {
	return min(max(q.Health/4, 15*time.Second), time.Minute)
}

// failureDomain names what can fail as a whole. Zones of different namespaces
// are different: their clouds may be.
type failureDomain struct {
	namespace string
	place     Place // with the zone or the pool only
}

// finding is an outage that need not be looked for again until then.
type finding struct {
	until  time.Time
	outage Outage
}

// findingAge is how long an outage that was found is taken for granted: a hundred
// machines that ask at once cost one search.
const findingAge = 30 * time.Second

// Outage returns the outage where the machine is, if there is one. Losses count for OutageLimit.
func (b *Brake) Outage(ctx context.Context, q Query) (Outage, error) {
	now := b.Clock.Now()
	p := Place{Zone: q.zone(ctx, q.Machine, q.Node), Pool: PoolOf(q.Machine)}
	domains := []failureDomain{ // the zone first
		{q.Machine.Namespace, Place{Zone: p.Zone}}, {q.Machine.Namespace, Place{Pool: p.Pool}},
	}
	if known := b.recall(domains, now); known != (Outage{}) {
		return known, nil
	}
	losses, err := b.losses(ctx, q)
	if err != nil {
		return Outage{}, err
	}
	found := Around(p, losses, q.Window(), now.Add(-b.OutageLimit))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range domains {
		delete(b.found, d)
		if found != (Outage{}) && d.place == (Place{found.Zone, found.Pool}) {
			b.found[d] = finding{now.Add(min(findingAge, q.Again()/2)), found}
		}
	}
	return found, nil
}

// recall returns the outage that was found a moment ago in one of these domains.
func (b *Brake) recall(domains []failureDomain, now time.Time) Outage {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range domains {
		if known := b.found[d]; known.until.After(now) {
			return known.outage
		}
	}
	return Outage{}
}

// losses are those of the machine's namespace.
func (b *Brake) losses(ctx context.Context, q Query) ([]Loss, error) {
	var nodes corev1.NodeList
	if err := b.Nodes.List(ctx, &nodes, client.MatchingFields{index.NodeUnwell: index.Unwell},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list unhealthy nodes: %w", err)
	}
	var found []Loss
	for i := range nodes.Items {
		node := &nodes.Items[i]
		m, err := b.machineOf(ctx, node.Name, client.InNamespace(q.Machine.Namespace))
		if err != nil {
			return nil, err
		}
		if m == nil || b.IsGone(m.UID, time.Time{}) {
			continue
		}
		asksForDrain := m.UID == q.Machine.UID && !m.DeletionTimestamp.IsZero()
		if signs := signsOf(m, node, q.NodeConditions(m)); len(signs) > 0 && (counts(m) || asksForDrain) {
			found = append(found, Loss{Place{q.zone(ctx, m, node), PoolOf(m)}, signs})
		}
	}
	missing, err := b.missingNodes(ctx, q)
	return append(found, missing...), err
}

// machineOf returns the Machine that names a Node; nil if not exactly one does.
func (b *Brake) machineOf(ctx context.Context, node string, in ...client.ListOption) (*machinev1.Machine, error) {
	var list machinev1.MachineList
	err := b.Client.List(ctx, &list, append(in, client.MatchingFields{index.MachineByNode: node},
		client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return nil, fmt.Errorf("look up machines of Node %s: %w", node, err)
	}
	if len(list.Items) != 1 {
		return nil, nil //nolint:nilnil // such a node belongs to none
	}
	return &list.Items[0], nil
}

// signMissing is the sign of a Node that had joined and does not exist.
const signMissing = "NodeMissing"

// missingNodes are the losses of Nodes that do not exist, and whose deletion was not observed:
// their Machines are Unknown. Those of Nodes that were seen deleted are deleted at once.
func (b *Brake) missingNodes(ctx context.Context, q Query) ([]Loss, error) {
	var list machinev1.MachineList
	if err := b.Client.List(ctx, &list, client.InNamespace(q.Machine.Namespace),
		client.MatchingFields{index.MachineUnknown: index.Unknown}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list machines that are Unknown: %w", err)
	}
	var found []Loss
	for i := range list.Items {
		m := &list.Items[i]
		if !counts(m) || b.IsGone(m.UID, time.Time{}) {
			continue
		}
		err := b.Nodes.Get(ctx, client.ObjectKey{Name: m.Labels[machinev1.NodeLabel]}, &corev1.Node{})
		switch {
		case apierrors.IsNotFound(err):
			signs := map[string]time.Time{signMissing: m.Status.LastOperation.LastUpdateTime.Time}
			found = append(found, Loss{Place{q.zone(ctx, m, nil), PoolOf(m)}, signs})
		case err != nil:
			return nil, fmt.Errorf("read Node of Machine %s: %w", m.Name, err)
		}
	}
	return found, nil
}

// counts reports whether an unhealthy node of m is a loss. New nodes and nodes
// that are being updated are unhealthy for a while, and the VMs of machines that
// are being deleted have been shut down. A Failed one was lost alone.
func counts(m *machinev1.Machine) bool {
	phase := m.Status.CurrentStatus.Phase
	return m.DeletionTimestamp.IsZero() && (phase == machinev1.MachineRunning || phase == machinev1.MachineUnknown)
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

func (q Query) zone(ctx context.Context, m *machinev1.Machine, node *corev1.Node) string {
	if node != nil && node.Labels[corev1.LabelTopologyZone] != "" {
		return node.Labels[corev1.LabelTopologyZone]
	}
	return q.ClassZone(ctx, m)
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

// MarkGone records that the cloud reported a machine's VM gone. Such a machine
// has failed by itself, and is no part of an outage.
func (b *Brake) MarkGone(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone[uid] = b.Clock.Now()
}

// IsGone reports whether the cloud reported after that time that the VM is gone.
func (b *Brake) IsGone(uid types.UID, after time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone[uid].After(after)
}

// Forget drops what the cloud reported about a machine's VM.
func (b *Brake) Forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.gone, uid)
}

// poolKey names a pool; the name is empty for machines without one.
type poolKey struct{ namespace, name string }

// keptPool is a pool that an outage keeps machines of.
type keptPool struct {
	object   client.Object // what the Events are about
	machines map[client.ObjectKey]bool
}

// Keep notes that an outage keeps m, for the metric and so that each pool gets one Event when that
// begins and one when it ends; nothing is decided from it. If m is the first of its pool, Keep
// returns the object that Events are about: the MachineDeployment, else the MachineSet, else m.
func (b *Brake) Keep(ctx context.Context, m *machinev1.Machine) (object client.Object, first bool) {
	key, of := client.ObjectKeyFromObject(m), poolKey{m.Namespace, PoolOf(m)}
	b.mu.Lock()
	_, known := b.in[key]
	pool := b.kept[of]
	b.mu.Unlock()
	if known {
		return nil, false
	}
	object = m
	if pool == nil {
		switch set, deployment, _ := b.OwnersOf(ctx, m); {
		case deployment != nil:
			object = deployment
		case set != nil:
			object = set
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in[key] = of
	if pool = b.kept[of]; pool != nil {
		pool.machines[key] = true
		return nil, false
	}
	b.kept[of] = &keptPool{object: object, machines: map[client.ObjectKey]bool{key: true}}
	return object, true
}

// Release notes that no outage keeps a machine. If it was the last of its pool,
// Release returns the object that Events are about.
func (b *Brake) Release(key client.ObjectKey) (object client.Object, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, known := b.in[key]
	if !known {
		return nil, false
	}
	delete(b.in, key)
	p := b.kept[of]
	delete(p.machines, key)
	if len(p.machines) > 0 {
		return nil, false
	}
	delete(b.kept, of)
	return p.object, true
}

// keptMachines is a metric: how many machines an outage keeps.
type keptMachines struct {
	desc *prometheus.Desc
	of   *Brake
}

// KeptMachines returns the metric of the machines that an outage keeps.
func (b *Brake) KeptMachines() prometheus.Collector {
	return keptMachines{prometheus.NewDesc("mcm_machine_outage_kept_machines",
		"Machines that are not replaced or drained because many nodes of their zone or pool became unhealthy together.",
		[]string{"namespace", "machine_deployment"}, nil), b}
}

// Describe describes the metric.
func (k keptMachines) Describe(ch chan<- *prometheus.Desc) { ch <- k.desc }

// Collect counts the machines of each pool.
func (k keptMachines) Collect(ch chan<- prometheus.Metric) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	for pool, p := range k.of.kept {
		ch <- prometheus.MustNewConstMetric(k.desc, prometheus.GaugeValue, float64(len(p.machines)), pool.namespace,
			pool.name)
	}
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
