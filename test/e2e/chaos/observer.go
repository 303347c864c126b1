package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// sight is what was seen of one Machine.
type sight struct {
	name, pool, class, owner string
	created, deleted, ready  time.Time
	phase                    machinev1.MachinePhase
	gone                     bool
}

// observer looks at Machines and Nodes all the time, as far as the API server
// answers, and keeps a journal of what has changed.
type observer struct {
	stack *stack.Stack
	file  *os.File

	mu       sync.Mutex
	sights   map[string]*sight // by UID
	order    []string          // UIDs, in the order in which they were seen
	unready  map[string]*span  // by node, while it is not ready
	troubles []span            // that are over
	lines    []event
}

// event is a line of the journal.
type event struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

func newObserver(s *stack.Stack, journal string) (*observer, error) {
	file, err := os.Create(journal)
	if err != nil {
		return nil, err
	}
	return &observer{stack: s, file: file, sights: map[string]*sight{}, unready: map[string]*span{}}, nil
}

// note writes a line into the journal, and prints it if it is loud.
func (o *observer) note(loud bool, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write(loud, fmt.Sprintf(format, args...))
}

func (o *observer) write(loud bool, text string) {
	e := event{At: time.Now(), Text: text}
	o.lines = append(o.lines, e)
	if line, err := json.Marshal(e); err == nil {
		_, _ = o.file.Write(append(line, '\n')) // the run is not about the journal
	}
	if loud {
		fmt.Println(e.At.UTC().Format("15:04:05.000"), text)
	}
}

// run looks until ctx ends.
func (o *observer) run(ctx context.Context) {
	const period = 400 * time.Millisecond
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		_ = o.look(ctx) // the API server is away now and then
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look lists Machines and Nodes once.
func (o *observer) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	machines, err := o.stack.Machines(ctx, "")
	if err != nil {
		return err
	}
	nodes, _, err := o.stack.Nodes(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	ready := o.nodes(nodes)
	there := map[string]bool{}
	for i := range machines {
		there[string(machines[i].UID)] = true
		o.machine(&machines[i], ready)
	}
	for _, uid := range o.order {
		if s := o.sights[uid]; !there[uid] && !s.gone {
			s.gone = true
			o.write(false, "Machine "+s.name+" is gone")
		}
	}
	return nil
}

func (o *observer) machine(m *machinev1.Machine, ready map[string]bool) {
	uid := string(m.UID)
	s := o.sights[uid]
	if s == nil {
		s = &sight{
			name: m.Name, pool: m.Labels[machinev1.NameLabel], class: m.Spec.Class.Name,
			created: m.CreationTimestamp.Time, phase: "new",
		}
		o.sights[uid], o.order = s, append(o.order, uid)
	}
	if s.owner = m.Annotations[machinev1.OwnerIDAnnotation]; s.owner == "" {
		s.owner = uid
	}
	s.gone = false // a restore may have brought it back
	if m.DeletionTimestamp == nil {
		s.deleted = time.Time{}
	}
	if s.phase != m.Status.CurrentStatus.Phase {
		s.phase = m.Status.CurrentStatus.Phase
		o.write(false, fmt.Sprintf("Machine %s (%s, %s) is %q: %s", s.name, s.class, s.owner, s.phase,
			m.Status.LastOperation.Description))
	}
	if s.deleted.IsZero() && m.DeletionTimestamp != nil {
		s.deleted = m.DeletionTimestamp.Time
		o.write(false, "Machine "+s.name+" is being deleted")
	}
	node := m.Labels[machinev1.NodeLabel]
	if node == "" {
		node = m.Name
	}
	if s.ready.IsZero() && ready[node] {
		s.ready = time.Now()
	}
}

// nodes notes which nodes became ready or unready, and returns those that are.
func (o *observer) nodes(nodes []corev1.Node) map[string]bool {
	ready := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		c := readyCondition(n)
		bad := o.unready[n.Name]
		switch {
		case c.Status == corev1.ConditionTrue && bad != nil:
			bad.until = time.Now()
			o.troubles = append(o.troubles, *bad)
			delete(o.unready, n.Name)
			o.write(false, "Node "+n.Name+" is ready again")
		case c.Status != corev1.ConditionTrue && bad == nil:
			o.unready[n.Name] = &span{about: n.Name, what: "its node is not ready", from: c.LastTransitionTime.Time}
			o.write(false, fmt.Sprintf("Node %s is not ready (%s) since %s", n.Name, c.Reason,
				c.LastTransitionTime.UTC().Format(time.TimeOnly)))
		}
		ready[n.Name] = c.Status == corev1.ConditionTrue
	}
	return ready
}

func readyCondition(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{
		Status: corev1.ConditionUnknown, Reason: "NoCondition",
		LastTransitionTime: n.CreationTimestamp,
	}
}

// unwell returns all times in which nodes were not ready.
func (o *observer) unwell() []span {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Clone(o.troubles)
	for _, s := range o.unready {
		all = append(all, *s)
	}
	return all
}

// seen returns what was seen of all Machines, oldest first.
func (o *observer) seen() []sight {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]sight, 0, len(o.order))
	for _, uid := range o.order {
		all = append(all, *o.sights[uid])
	}
	return all
}

// journal returns all lines of the journal.
func (o *observer) journal() []event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines)
}
