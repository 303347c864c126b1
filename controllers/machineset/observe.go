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
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// scope is what one reconcile of a MachineSet has observed and done.
type scope struct {
	now time.Time
	// set is the newest known version; it is a copy and replaced by each write.
	set *machinev1.MachineSet
	// deployment controls the set; nil if none does.
	deployment *machinev1.MachineDeployment
	// selector of the set; nil if it has none that can be used.
	selector labels.Selector
	// problems of the set's spec and annotations.
	problems []cloud.Problem
	// machines that the set controls, sorted by name. claimMachines removes those
	// whose labels do not match.
	machines []*machinev1.Machine
	// orphans are Machines without controller whose labels match.
	orphans []*machinev1.Machine
	// nodePreserves has what the Nodes of failed machines say, by name of the Machine.
	nodePreserves map[string]nodePreserve
	memory        *memory

	// heldMachine is the name of a Machine that is held for a migration; "" if none is.
	heldMachine string

	bounds brake.Bounds
	// overshoot is how many machines were compared with the limits, before any was deleted.
	overshoot int
	// replicasCompared is true once the number of machines was compared with the
	// spec; scaleErr is the error of acting upon that.
	replicasCompared bool
	// withheld is how many surplus machines the MachineDeployment still needs.
	withheld int
	scaleErr error
	// finalizerRemoved is true if the set may no longer exist, so that no status is written.
	finalizerRemoved bool
	requeue          time.Duration
}

// requeueAfter asks for another reconcile in d, if none is due earlier; 0 asks for none.
func (s *scope) requeueAfter(d time.Duration) {
	if d > 0 && (s.requeue == 0 || d < s.requeue) {
		s.requeue = d
	}
}

// replaceMachine puts a newer version of a Machine into the scope.
func (s *scope) replaceMachine(m *machinev1.Machine) {
	for i := range s.machines {
		if s.machines[i].Name == m.Name {
			s.machines[i] = m
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

// observe reads from the caches all that a reconcile needs.
func (c *Controller) observe(ctx context.Context, set *machinev1.MachineSet) (*scope, error) {
	s := &scope{now: c.Clock.Now(), set: set, memory: c.memoryOf(set)}
	s.selector, s.problems = validate(set)
	for _, observe := range []func(context.Context, *scope) error{c.observeDeployment, c.observeMachines, c.observeNodes} {
		if err := observe(ctx, s); err != nil {
			return nil, err
		}
	}
	s.requeueAfter(s.memory.machines.UntilExpiry(s.now))
	return s, nil
}

// unsettled is how many Machines of the set are to serve, to fail or to go before it is as it is to be.
func (s *scope) unsettled() int {
	serving, going, others := 0, 0, 0
	for _, m := range s.machines {
		switch {
		case !m.DeletionTimestamp.IsZero():
			going++
		case isSettled(m):
			serving++
		default:
			others++
		}
	}
	wanted := int(s.set.Spec.Replicas)
	if !s.set.DeletionTimestamp.IsZero() {
		wanted = 0
	}
	return going + max(0, wanted-serving) + max(0, serving+others-wanted)
}

// observeDeployment reads the MachineDeployment that controls the set, if any.
func (c *Controller) observeDeployment(ctx context.Context, s *scope) error {
	ref := metav1.GetControllerOf(s.set)
	if ref == nil || ref.Kind != machinev1.MachineDeploymentKind {
		return nil
	}
	d := &machinev1.MachineDeployment{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.set.Namespace, Name: ref.Name}, d)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read MachineDeployment %s: %w", ref.Name, err)
	}
	if err == nil && d.UID == ref.UID {
		s.deployment = d
	}
	return nil
}

// observeMachines reads the set's Machines and those that it may adopt.
func (c *Controller) observeMachines(ctx context.Context, s *scope) error {
	var cached []*machinev1.Machine
	for _, owner := range []string{string(s.set.UID), ""} {
		list := &machinev1.MachineList{}
		err := c.Client.List(ctx, list, client.InNamespace(s.set.Namespace),
			client.MatchingFields{index.MachineByOwner: owner})
		if err != nil {
			return fmt.Errorf("list Machines: %w", err)
		}
		for i := range list.Items {
			cached = append(cached, &list.Items[i])
		}
	}
	for _, m := range s.memory.machines.Complete(cached, s.now) {
		switch {
		case metav1.IsControlledBy(m, s.set):
			s.machines = append(s.machines, m)
		case metav1.GetControllerOf(m) == nil && s.selector != nil && s.selector.Matches(labels.Set(m.Labels)):
			s.orphans = append(s.orphans, m)
		}
	}
	return nil
}

// nodePreserve is what a Node says about the preservation of its machine.
type nodePreserve struct {
	known     bool // the machine has a node name and there is a target cluster
	found     bool
	annotated bool
	value     string
}

// observeNodes looks at the Nodes of failed machines.
func (c *Controller) observeNodes(ctx context.Context, s *scope) error {
	s.nodePreserves = map[string]nodePreserve{}
	for _, m := range s.machines {
		name := m.Labels[machinev1.NodeLabel]
		if c.Target == nil || name == "" || rollout.PhaseOf(m) != machinev1.MachineFailed {
			continue
		}
		node := &corev1.Node{}
		err := c.Target.Client.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Node %s: %w", name, err)
		}
		view := nodePreserve{known: true, found: err == nil}
		view.value, view.annotated = node.Annotations[machinev1.PreserveAnnotation]
		s.nodePreserves[m.Name] = view
	}
	return nil
}
