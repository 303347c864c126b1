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
func (w *world) playSets() {
	w.t.Helper()
	for _, s := range w.sets() {
		w.playSet(&s)
	}
}

func (w *world) playSet(s *machinev1.MachineSet) {
	w.t.Helper()
	members := w.members(s)
	if !s.DeletionTimestamp.IsZero() {
		for _, m := range members {
			if m.DeletionTimestamp.IsZero() {
				w.terminate(&m)
			}
		}
		if len(members) == 0 {
			change(w, s, func(s *machinev1.MachineSet) { s.Finalizers = nil })
		}
		return
	}
	w.scaleSet(s)
	w.reportSet(s)
}

// scaleSet makes and deletes machines.
func (w *world) scaleSet(s *machinev1.MachineSet) {
	w.t.Helper()
	live := slices.DeleteFunc(w.members(s), func(m machinev1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	_, closed := s.Labels[machinev1.ScaleUpDisabledLabel]
	for range int(s.Spec.Replicas) - len(live) {
		if !closed && s.Labels[machinev1.FreezeLabel] != "True" {
			w.create(s)
		}
	}
	surplus := slices.DeleteFunc(live, func(m machinev1.Machine) bool {
		_, moved := m.Labels[machinev1.UpdateResultLabel]
		return moved
	})
	slices.SortFunc(surplus, func(a, b machinev1.Machine) int {
		return cmp.Or(rankOf(&a)-rankOf(&b), strings.Compare(a.Name, b.Name))
	})
	for _, m := range surplus[:max(len(surplus)-int(s.Spec.Replicas), 0)] {
		w.terminate(&m)
	}
}

func (w *world) members(s *machinev1.MachineSet) []machinev1.Machine {
	return slices.DeleteFunc(w.machines(), func(m machinev1.Machine) bool { return !metav1.IsControlledBy(&m, s) })
}

// rankOf orders machines for deletion: chosen, broken, starting, running.
func rankOf(m *machinev1.Machine) int {
	switch {
	case marked(m):
		return 0
	case m.Status.CurrentStatus.Phase == machinev1.MachineFailed:
		return 1
	case serves(m):
		return 3
	}
	return 2
}

// reportSet writes the status of a set.
func (w *world) reportSet(s *machinev1.MachineSet) {
	change(w, s, func(s *machinev1.MachineSet) {
		s.Status = machinev1.MachineSetStatus{ObservedGeneration: s.Generation, Conditions: s.Status.Conditions}
		for _, m := range w.members(s) {
			s.Status.Replicas++
			if m.Labels[machinev1.TemplateHashLabel] == s.Spec.Template.Labels[machinev1.TemplateHashLabel] {
				s.Status.FullyLabeledReplicas++
			}
			if serves(&m) && m.DeletionTimestamp.IsZero() {
				s.Status.ReadyReplicas++
				s.Status.AvailableReplicas++
			}
		}
	})
}

// create makes a machine, of which there must never be too many.
func (w *world) create(s *machinev1.MachineSet) {
	w.t.Helper()
	if d := w.deployment(); d != nil {
		if b, err := rollout.BoundsOf(d); err == nil && len(w.live()) >= b.Allowed() {
			w.t.Fatalf("one more machine beside %d, wanted %d + %d\n%s", len(w.live()), b.Replicas, b.Surge, w.describe())
		}
	}
	w.made++
	m := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%03d", s.Name, w.made), Labels: maps.Clone(s.Spec.Template.Labels),
			Finalizers:  []string{machinev1.Finalizer},
			Annotations: map[string]string{machinev1.PriorityAnnotation: machinev1.DefaultPriority},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s,
				machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))},
		},
		Spec: s.Spec.Template.Spec,
	}
	if err := w.client.Create(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) terminate(m *machinev1.Machine) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	change(w, m, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineTerminating })
}

// playMachines lets every machine and node take one step.
func (w *world) playMachines() {
	w.t.Helper()
	for _, m := range w.machines() {
		w.playMachine(&m)
	}
}

func (w *world) playMachine(m *machinev1.Machine) {
	w.t.Helper()
	switch {
	case !m.DeletionTimestamp.IsZero():
		if node := w.node(m.Name); node != nil {
			if err := w.client.Delete(w.t.Context(), node); err != nil {
				w.t.Fatal(err)
			}
		}
		change(w, m, func(m *machinev1.Machine) { m.Finalizers = nil })
	case m.Status.CurrentStatus.Phase == "":
		change(w, m, func(m *machinev1.Machine) {
			label(m, machinev1.NodeLabel, "node-"+m.Name)
			m.Status.CurrentStatus.Phase = machinev1.MachinePending
		})
	case m.Status.CurrentStatus.Phase == machinev1.MachinePending:
		w.join(m)
	default:
		w.playInPlace(m)
	}
}

func (w *world) join(m *machinev1.Machine) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + m.Name}}
	if !w.bare { // as the node controller makes it the machine's
		node.Annotations = map[string]string{machinev1.NodeMachineAnnotation: m.Name}
		if w.rolls() {
			node.Annotations[machinev1.ScaleDownDisabledAnnotation] = "true"
			node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation] = "true"
		}
	}
	if err := w.client.Create(w.t.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	change(w, m, func(m *machinev1.Machine) {
		m.Status.CurrentStatus.Phase = machinev1.MachineRunning
		m.Status.CurrentStatus.LastUpdateTime = metav1.NewTime(w.clock.Now())
	})
}

// rolls reports whether more than one set has machines.
func (w *world) rolls() bool {
	return len(slices.DeleteFunc(w.sets(), func(s machinev1.MachineSet) bool { return s.Spec.Replicas == 0 })) > 1
}

// playInPlace does what the machine's controller and the agent on the node do:
// candidate, selected and away, updated, back.
func (w *world) playInPlace(m *machinev1.Machine) {
	w.t.Helper()
	node := w.node(m.Name)
	if node == nil {
		return
	}
	_, candidate := node.Labels[machinev1.CandidateForUpdateLabel]
	_, chosen := node.Labels[machinev1.SelectedForUpdateLabel]
	result := node.Labels[machinev1.UpdateResultLabel]
	away := m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdating
	switch {
	case candidate && chosen && !away && result == "":
		change(w, node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		w.inPlace(m, node, machinev1.ReasonReadyForUpdate, machinev1.MachineInPlaceUpdating)
	case away:
		change(w, node, func(n *corev1.Node) { n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful })
		w.inPlace(m, node, machinev1.ReasonUpdateSuccessful, machinev1.MachineInPlaceUpdateSuccessful)
	case m.Status.CurrentStatus.Phase == machinev1.MachineInPlaceUpdateSuccessful:
		change(w, m, func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = machinev1.MachineRunning })
	}
}

func (w *world) inPlace(m *machinev1.Machine, node *corev1.Node, reason string, phase machinev1.MachinePhase) {
	conditions := []corev1.NodeCondition{{Type: machinev1.NodeInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reason}}
	change(w, node, func(n *corev1.Node) { n.Status.Conditions = conditions })
	change(w, m, func(m *machinev1.Machine) {
		m.Status.Conditions = conditions
		m.Status.CurrentStatus.Phase = phase
	})
}
