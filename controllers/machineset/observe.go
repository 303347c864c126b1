package machineset

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// pass is what one pass over a MachineSet has seen and done.
type pass struct {
	now time.Time
	// set is the newest known version; it is a copy and replaced by each write.
	set *machinev1.MachineSet
	// deployment controls the set; nil if none does.
	deployment *machinev1.MachineDeployment
	// selector of the set; nil if it has none that can be used.
	selector labels.Selector
	// problems of the set's spec and annotations.
	problems []problem
	// machines that the set controls, sorted by name. Those whose labels do not
	// match are gone from it after claim.
	machines []*machinev1.Machine
	// orphans are Machines without controller whose labels match.
	orphans []*machinev1.Machine
	// views of the Nodes of failed machines, by name of the Machine.
	views  map[string]nodeView
	memory *memory

	// held is the name of a Machine whose migration the set waits for; empty if none.
	held string

	limits freeze.Limits
	// counted reports whether the number of machines was compared with the spec,
	// and whether acting upon it went wrong.
	counted bool
	failure error
	// gone says that the set has been let go and has no status any more.
	gone bool
	wait time.Duration
}

// after asks for another pass in d, if none is due earlier. 0 asks for nothing.
func (p *pass) after(d time.Duration) {
	if d > 0 && (p.wait == 0 || d < p.wait) {
		p.wait = d
	}
}

// replace puts a newer version of a Machine into the pass.
func (p *pass) replace(m *machinev1.Machine) {
	for i := range p.machines {
		if p.machines[i].Name == m.Name {
			p.machines[i] = m
		}
	}
}

// active returns the machines that count as replicas: all but terminating ones.
func active(machines []*machinev1.Machine) []*machinev1.Machine {
	var alive []*machinev1.Machine
	for _, m := range machines {
		if rollout.PhaseOf(m) != machinev1.MachineTerminating {
			alive = append(alive, m)
		}
	}
	return alive
}

// observe reads all that a pass needs from the caches.
func (c *Controller) observe(ctx context.Context, set *machinev1.MachineSet) (*pass, error) {
	p := &pass{now: c.Clock.Now(), set: set, memory: c.recall(set)}
	p.selector, p.problems = validate(set)
	for _, look := range []step{c.observeDeployment, c.observeMachines, c.observeNodes} {
		if err := look(ctx, p); err != nil {
			return nil, err
		}
	}
	p.after(p.memory.waitFor(p.now))
	return p, nil
}

// observeDeployment reads the MachineDeployment that controls the set, if any.
func (c *Controller) observeDeployment(ctx context.Context, p *pass) error {
	ref := metav1.GetControllerOf(p.set)
	if ref == nil || ref.Kind != machinev1.MachineDeploymentKind {
		return nil
	}
	d := &machinev1.MachineDeployment{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: p.set.Namespace, Name: ref.Name}, d)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read MachineDeployment %s: %w", ref.Name, err)
	}
	if err == nil && d.UID == ref.UID {
		p.deployment = d
	}
	return nil
}

// observeMachines reads the set's Machines and those that it may adopt.
func (c *Controller) observeMachines(ctx context.Context, p *pass) error {
	var cached []*machinev1.Machine
	for _, owner := range []string{string(p.set.UID), ""} {
		list := &machinev1.MachineList{}
		err := c.Client.List(ctx, list, client.InNamespace(p.set.Namespace),
			client.MatchingFields{index.MachineByOwner: owner})
		if err != nil {
			return fmt.Errorf("list Machines: %w", err)
		}
		for i := range list.Items {
			cached = append(cached, &list.Items[i])
		}
	}
	for _, m := range p.memory.overlay(cached, p.now) {
		switch {
		case metav1.IsControlledBy(m, p.set):
			p.machines = append(p.machines, m)
		case metav1.GetControllerOf(m) == nil && p.selector != nil && p.selector.Matches(labels.Set(m.Labels)):
			p.orphans = append(p.orphans, m)
		}
	}
	return nil
}

// nodeView is what a Node says about the preservation of its machine.
type nodeView struct {
	known     bool // the machine has a node name and there is a target cluster
	found     bool
	annotated bool
	value     string
}

// observeNodes looks at the Nodes of failed machines.
func (c *Controller) observeNodes(ctx context.Context, p *pass) error {
	p.views = map[string]nodeView{}
	for _, m := range p.machines {
		name := m.Labels[machinev1.NodeLabel]
		if c.Target == nil || name == "" || rollout.PhaseOf(m) != machinev1.MachineFailed {
			continue
		}
		node := &corev1.Node{}
		err := c.Target.Client.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Node %s: %w", name, err)
		}
		view := nodeView{known: true, found: err == nil}
		view.value, view.annotated = node.Annotations[machinev1.PreserveAnnotation]
		p.views[m.Name] = view
	}
	return nil
}
