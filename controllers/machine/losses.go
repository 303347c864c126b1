package machine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outage"
)

// losses know which machines have lost their nodes. What is remembered only saves
// work: that an outage was there a moment ago, and whose VM the cloud has said to
// be gone.
type losses struct {
	*Controller

	mu    sync.Mutex
	known map[spot]time.Time // until when an outage is not looked for again
	gone  map[types.UID]time.Time
}

// spot is where an outage can be. Zones of different namespaces are different:
// their clouds may be.
type spot struct {
	namespace string
	scope     outage.Scope
	name      string
}

// outageMemory is how long an outage that was found is taken for granted: a
// hundred machines that look at once find it once.
const outageMemory = 30 * time.Second

func newLosses(c *Controller) *losses {
	return &losses{Controller: c, known: map[spot]time.Time{}, gone: map[types.UID]time.Time{}}
}

// around reports whether there is an outage where the machine is.
func (l *losses) around(ctx context.Context, f *facts) (outage.Scope, error) {
	p := l.place(ctx, f.machine, f.node)
	if scope := l.remembered(f, p); scope != outage.None {
		return scope, nil
	}
	all, err := l.all(ctx, f)
	if err != nil {
		return outage.None, err
	}
	scope := outage.Around(p, all, f.settings.outageWindow(), f.now.Add(-l.outageLimit()))
	l.remember(f, p, scope)
	return scope, nil
}

// all are the losses of the machine's namespace.
func (l *losses) all(ctx context.Context, f *facts) ([]outage.Loss, error) {
	var nodes corev1.NodeList
	if err := l.Target.Client.List(ctx, &nodes, client.MatchingFields{index.NodeUnwell: index.Unwell},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list unwell nodes: %w", err)
	}
	var found []outage.Loss
	for i := range nodes.Items {
		loss, ok, err := l.lossOf(ctx, f, &nodes.Items[i])
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, loss)
		}
	}
	return found, nil
}

// lossOf is what the namespace has lost with a node, if anything.
func (l *losses) lossOf(ctx context.Context, f *facts, node *corev1.Node) (outage.Loss, bool, error) {
	var list machinev1.MachineList
	err := l.Client.List(ctx, &list, client.InNamespace(f.machine.Namespace),
		client.MatchingFields{index.MachineByNode: node.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return outage.Loss{}, false, fmt.Errorf("look up machines of Node %s: %w", node.Name, err)
	}
	if len(list.Items) != 1 {
		return outage.Loss{}, false, nil
	}
	m := &list.Items[0]
	leaves := m.UID == f.machine.UID && !m.DeletionTimestamp.IsZero() // and asks whether it may be drained
	if !counts(m) && !leaves || l.isGone(m.UID, time.Time{}) {
		return outage.Loss{}, false, nil
	}
	s, _ := settingsOf(m, l.Options)
	signs := signsOf(m, node, s.nodeConditions)
	if len(signs) == 0 {
		return outage.Loss{}, false, nil
	}
	p := l.place(ctx, m, node)
	return outage.Loss{Zone: p.Zone, Pool: p.Pool, Signs: signs}, true, nil
}

// counts reports whether an unhealthy node of m is a loss. New nodes are unhealthy
// for a while, nodes that are updated are too, and the VMs of machines that go
// have been shut down. One that has Failed was lost alone.
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

// place is the zone and the pool of m: the zone of its node, else that of its
// class; the pool that it is replaced in.
func (l *losses) place(ctx context.Context, m *machinev1.Machine, node *corev1.Node) outage.Place {
	return outage.Place{Zone: l.zone(ctx, m, node), Pool: poolOf(m)}
}

func (l *losses) zone(ctx context.Context, m *machinev1.Machine, node *corev1.Node) string {
	if node != nil && node.Labels[corev1.LabelTopologyZone] != "" {
		return node.Labels[corev1.LabelTopologyZone]
	}
	r, err := l.classes.Resolve(ctx, l.Client, m.Namespace, m.Spec.Class.Name)
	switch {
	case err != nil || r.Object == nil:
		return "" // then the pool is what is known
	case r.Class.Zone != "":
		return r.Class.Zone
	case r.Object.NodeTemplate != nil:
		return r.Object.NodeTemplate.Zone
	}
	return ""
}

// poolOf names the machines that m is replaced among: those of its
// MachineDeployment, which the label name identifies, else those of its owner;
// empty if it has neither.
func poolOf(m *machinev1.Machine) string {
	if name := m.Labels[machinev1.NameLabel]; name != "" {
		return name
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		return owner.Name
	}
	return ""
}

// remembered is the outage that was found a moment ago where the machine is.
func (l *losses) remembered(f *facts, p outage.Place) outage.Scope {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range spots(f.machine.Namespace, p) {
		if l.known[s].After(f.now) {
			return s.scope
		}
	}
	return outage.None
}

// remember notes what was found.
func (l *losses) remember(f *facts, p outage.Place, scope outage.Scope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range spots(f.machine.Namespace, p) {
		delete(l.known, s)
		if s.scope == scope {
			l.known[s] = f.now.Add(min(outageMemory, f.settings.outageLook()/2))
		}
	}
}

// spots are those of a place, the zone first.
func spots(namespace string, p outage.Place) []spot {
	var all []spot
	if p.Zone != "" {
		all = append(all, spot{namespace, outage.Zone, p.Zone})
	}
	if p.Pool != "" {
		all = append(all, spot{namespace, outage.Pool, p.Pool})
	}
	return all
}

// noteGone notes that the cloud said that a machine's VM is gone. That is a loss
// for itself, and none together with others.
func (l *losses) noteGone(uid types.UID, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[uid] = now
}

// forget drops what the cloud said of a machine's VM.
func (l *losses) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.gone, uid)
}

// isGone reports whether the cloud said after that time that the VM is gone.
func (l *losses) isGone(uid types.UID, after time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone[uid].After(after)
}
