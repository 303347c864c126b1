package machinedeployment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// playSets does what the controller of MachineSets does.
func (env *env) playSets() {
	env.Helper()
	for _, set := range env.sets() {
		env.playSet(&set)
	}
}

func (env *env) playSet(set *machinev1.MachineSet) {
	env.Helper()
	members := env.members(set)
	if !set.DeletionTimestamp.IsZero() {
		for _, m := range members {
			if m.DeletionTimestamp.IsZero() {
				env.terminate(&m)
			}
		}
		if len(members) == 0 {
			change(env, set, func(set *machinev1.MachineSet) { set.Finalizers = nil })
		}
		return
	}
	env.scaleSet(set)
	env.reportSet(set)
}

// scaleSet makes and deletes machines.
func (env *env) scaleSet(set *machinev1.MachineSet) {
	env.Helper()
	live := slices.DeleteFunc(env.members(set), func(m machinev1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	_, closed := set.Labels[machinev1.ScaleUpDisabledLabel]
	for range int(set.Spec.Replicas) - len(live) {
		if !closed && set.Labels[machinev1.FreezeLabel] != "True" {
			env.create(set)
		}
	}
	surplus := slices.DeleteFunc(live, func(m machinev1.Machine) bool {
		_, moved := m.Labels[machinev1.UpdateResultLabel]
		return moved
	})
	slices.SortFunc(surplus, func(a, b machinev1.Machine) int {
		return cmp.Or(rankOf(&a)-rankOf(&b), strings.Compare(a.Name, b.Name))
	})
	for _, m := range surplus[:max(len(surplus)-int(set.Spec.Replicas), 0)] {
		env.terminate(&m)
	}
}

func (env *env) members(set *machinev1.MachineSet) []machinev1.Machine {
	return slices.DeleteFunc(env.machines(), func(m machinev1.Machine) bool { return !metav1.IsControlledBy(&m, set) })
}

// rankOf orders machines for deletion: chosen, broken, starting, running.
func rankOf(m *machinev1.Machine) int {
	switch {
	case rollout.MarkedForDeletion(m):
		return 0
	case m.Status.CurrentStatus.Phase == machinev1.MachineFailed:
		return 1
	case rollout.IsAvailable(m):
		return 3
	}
	return 2
}

// reportSet writes the status of a set.
func (env *env) reportSet(set *machinev1.MachineSet) {
	change(env, set, func(set *machinev1.MachineSet) {
		set.Status = machinev1.MachineSetStatus{ObservedGeneration: set.Generation, Conditions: set.Status.Conditions}
		for _, m := range env.members(set) {
			set.Status.Replicas++
			if m.Labels[machinev1.TemplateHashLabel] == set.Spec.Template.Labels[machinev1.TemplateHashLabel] {
				set.Status.FullyLabeledReplicas++
			}
			if rollout.IsAvailable(&m) && m.DeletionTimestamp.IsZero() {
				set.Status.ReadyReplicas++
				set.Status.AvailableReplicas++
			}
		}
	})
}

// create makes a machine, of which there must never be too many.
func (env *env) create(set *machinev1.MachineSet) {
	env.Helper()
	if env.deployment() != nil {
		if b := env.bounds(); len(env.live()) >= max(b.Allowed(), env.askedBefore) {
			env.Fatalf("one more machine beside %d, wanted %d + %d\n%s", len(env.live()), b.Replicas, b.Surge, env.describe())
		}
	}
	env.made++
	m := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%03d", set.Name, env.made), Labels: maps.Clone(set.Spec.Template.Labels),
			Finalizers:  []string{machinev1.Finalizer},
			Annotations: map[string]string{machinev1.PriorityAnnotation: machinev1.DefaultPriority},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set,
				machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))},
		},
		Spec: set.Spec.Template.Spec,
	}
	env.Create(m)
}

// bounds returns the bounds of the deployment.
func (env *env) bounds() rollout.Bounds {
	env.Helper()
	bounds, err := rollout.BoundsOf(env.deployment())
	if err != nil {
		env.Fatal(err)
	}
	return bounds
}

func (env *env) terminate(m *machinev1.Machine) {
	env.Helper()
	env.Delete(m)
	change(env, m, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineTerminating })
}

// playMachines lets every machine and node take one step.
func (env *env) playMachines() {
	env.Helper()
	for _, m := range env.machines() {
		env.playMachine(&m)
	}
}

func (env *env) playMachine(m *machinev1.Machine) {
	env.Helper()
	switch {
	case !m.DeletionTimestamp.IsZero():
		if node := env.node(m.Name); node != nil {
			env.Delete(node)
		}
		change(env, m, func(m *machinev1.Machine) { m.Finalizers = nil })
	case m.Status.CurrentStatus.Phase == "":
		change(env, m, func(m *machinev1.Machine) {
			machinev1.SetLabel(m, machinev1.NodeLabel, "node-"+m.Name)
			m.Status.CurrentStatus.Phase = machinev1.MachinePending
		})
	case m.Status.CurrentStatus.Phase == machinev1.MachinePending:
		env.join(m)
	default:
		env.playInPlace(m)
	}
}

func (env *env) join(m *machinev1.Machine) {
	env.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + m.Name}}
	if !env.bare { // as the node controller makes it the machine's
		node.Annotations = map[string]string{machinev1.NodeMachineAnnotation: m.Name}
		if env.rolls() {
			node.Annotations[machinev1.ScaleDownDisabledAnnotation] = "true"
			node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation] = "true"
		}
	}
	if err := env.Raw.Create(env.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
		env.Fatal(err)
	}
	change(env, m, func(m *machinev1.Machine) {
		m.Status.CurrentStatus.Phase = machinev1.MachineRunning
		m.Status.CurrentStatus.LastUpdateTime = metav1.NewTime(env.Clock.Now())
	})
}

// rolls reports whether more than one set has machines.
func (env *env) rolls() bool {
	return len(slices.DeleteFunc(env.sets(), func(set machinev1.MachineSet) bool { return set.Spec.Replicas == 0 })) > 1
}

// playInPlace does what the machine's controller and the agent on the node do:
// candidate, selected and away, updated, back.
func (env *env) playInPlace(m *machinev1.Machine) {
	env.Helper()
	node := env.node(m.Name)
	if node == nil {
		return
	}
	_, candidate := node.Labels[machinev1.CandidateForUpdateLabel]
	_, chosen := node.Labels[machinev1.SelectedForUpdateLabel]
	result := node.Labels[machinev1.UpdateResultLabel]
	away := m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdating
	switch {
	case candidate && chosen && !away && result == "":
		change(env, node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		env.inPlace(m, node, machinev1.ReasonReadyForUpdate, machinev1.MachineInPlaceUpdating)
	case away:
		change(env, node, func(n *corev1.Node) { n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful })
		env.inPlace(m, node, machinev1.ReasonUpdateSuccessful, machinev1.MachineInPlaceUpdateSuccessful)
	case m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdateSuccessful:
		change(env, m, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineRunning })
	}
}

func (env *env) inPlace(m *machinev1.Machine, node *corev1.Node, reason string, phase machinev1.MachinePhase) {
	conditions := []corev1.NodeCondition{{Type: machinev1.NodeInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reason}}
	change(env, node, func(n *corev1.Node) { n.Status.Conditions = conditions })
	change(env, m, func(m *machinev1.Machine) {
		m.Status.Conditions = conditions
		m.Status.CurrentStatus.Phase = phase
	})
}
