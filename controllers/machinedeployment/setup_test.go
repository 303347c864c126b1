package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestDeploymentChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		change func(*machinev1.MachineDeployment)
		want   bool
	}{
		"Status": {"Our own status is no news.", func(d *machinev1.MachineDeployment) {
			d.Status.Replicas = 1
			d.ResourceVersion = "2"
		}, false},
		"Spec": {"The spec is.", func(d *machinev1.MachineDeployment) { d.Generation++ }, true},
		"Annotation": {"Scalers speak through annotations.", func(d *machinev1.MachineDeployment) {
			machinev1.SetAnnotation(d, "a", "b")
		}, true},
		"Deletion": {"It must go.", func(d *machinev1.MachineDeployment) {
			d.DeletionTimestamp = &metav1.Time{Time: noon}
		}, true},
		"Finalizer": {"The garbage collector speaks through finalizers.", func(d *machinev1.MachineDeployment) {
			d.Finalizers = []string{"orphan"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := deployment(1)
			tc.change(after)
			if got := deploymentChanged(event.UpdateEvent{ObjectOld: deployment(1), ObjectNew: after}); got != tc.want {
				t.Errorf("%s\ngot %t", tc.reason, got)
			}
		})
	}
}

func TestMarksChanged(t *testing.T) {
	t.Parallel()
	marked := &corev1.Node{}
	marked.Labels = map[string]string{machinev1.CandidateForUpdateLabel: "true"}
	marked.Annotations = map[string]string{
		machinev1.ScaleDownDisabledAnnotation: "true", machinev1.ScaleDownDisabledByMCMAnnotation: "true",
	}
	marked.Spec.Taints = []corev1.Taint{{Key: machinev1.PreferNoScheduleKey, Effect: corev1.TaintEffectPreferNoSchedule}}
	for name, tc := range map[string]struct {
		reason string
		change func(*corev1.Node)
		want   bool
	}{
		"Heartbeat": {"What kubelets say all the time is no news.", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
		}, false},
		"Foreign": {"The marks of others are not ours to restore.", func(n *corev1.Node) {
			n.Labels["other"], n.Annotations["other"] = "1", "1"
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "other"})
		}, false},
		"Taint": {"Pods would move to a node that is drained next.", func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"Selected": {"Other machines are kept for it.", func(n *corev1.Node) {
			n.Labels[machinev1.SelectedForUpdateLabel] = "true"
		}, true},
		"Candidate": {"An update in place looks for it.", func(n *corev1.Node) { n.Labels = nil }, true},
		"Autoscaler": {"An autoscaler could remove the node.", func(n *corev1.Node) {
			delete(n.Annotations, machinev1.ScaleDownDisabledAnnotation)
		}, true},
		"Ours": {"The end of the rollout would not lift it.", func(n *corev1.Node) {
			delete(n.Annotations, machinev1.ScaleDownDisabledByMCMAnnotation)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := marked.DeepCopy()
			tc.change(after)
			lost := marksChanged(event.UpdateEvent{ObjectOld: marked, ObjectNew: after})
			back := marksChanged(event.UpdateEvent{ObjectOld: after, ObjectNew: marked})
			if lost != tc.want || back != tc.want {
				t.Errorf("%s\nlost: got %t; back: got %t", tc.reason, lost, back)
			}
		})
	}
}

func TestMachineChanged(t *testing.T) {
	t.Parallel()
	phase := func(phase machinev1.MachinePhase) func(*machinev1.Machine) {
		return func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = phase }
	}
	for name, tc := range map[string]struct {
		reason string
		change func(*machinev1.Machine)
		want   bool
	}{
		"Heartbeat": {"What kubelets say all the time is no news.", func(m *machinev1.Machine) {
			m.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
			m.Status.LastOperation.Description = "x"
		}, false},
		"Pending": {"A VM that boots changes nothing yet.", phase(machinev1.MachinePending), false},
		"Running": {"An available machine is what a rollout waits for.", phase(machinev1.MachineRunning), true},
		"Terminates": {"A machine that goes is not available.", func(m *machinev1.Machine) {
			m.DeletionTimestamp = &metav1.Time{Time: noon}
		}, true},
		"Marked": {"Marks must be seen before a set shrinks.", func(m *machinev1.Machine) {
			machinev1.SetAnnotation(m, machinev1.PriorityAnnotation, "1")
		}, true},
		"Moved": {"A machine has another owner.", func(m *machinev1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{{Name: "a"}}
		}, true},
		"Updated": {"An update in place has gone on.", func(m *machinev1.Machine) {
			m.Status.Conditions = []corev1.NodeCondition{{
				Type:   machinev1.NodeInPlaceUpdate,
				Reason: machinev1.ReasonUpdateSuccessful,
			}}
		}, true},
		"Preserved": {"What is preserved keeps its annotations.", func(m *machinev1.Machine) {
			m.Status.CurrentStatus.PreserveExpiryTime = &metav1.Time{Time: noon}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := &machinev1.Machine{}
			tc.change(after)
			if got := machineChanged(event.UpdateEvent{ObjectOld: &machinev1.Machine{}, ObjectNew: after}); got != tc.want {
				t.Errorf("%s\ngot %t", tc.reason, got)
			}
		})
	}
}

func TestWhoseEvent(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1), deployment(1, func(d *machinev1.MachineDeployment) {
		d.Name, d.UID, d.Spec.Selector = "broken", "uid-broken", nil
	}))
	env.run()
	pool := []types.NamespacedName{{Namespace: namespace, Name: "pool"}}
	machine := env.live()[0]
	if diff := cmp.Diff(pool, env.c.deploymentsOfMachine(t.Context(), &machine)); diff != "" {
		t.Errorf("of a machine\n%s", diff)
	}
	orphan := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace,
		Labels:    map[string]string{"pool": "a"},
	}}
	if diff := cmp.Diff(pool, env.c.deploymentsOfSet(t.Context(), orphan)); diff != "" {
		t.Errorf("of an orphan that could be adopted\n%s", diff)
	}
	orphan.Labels = nil
	if got := env.c.deploymentsOfSet(t.Context(), orphan); len(got) != 0 {
		t.Errorf("of an orphan of nobody: %v", got)
	}
	orphan.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "pool", Controller: new(true)}}
	if got := env.c.deploymentsOfSet(t.Context(), orphan); len(got) != 0 {
		t.Errorf("of another kind's set: %v", got)
	}
}
