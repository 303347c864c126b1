package machinedeployment

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestMarksDuringRoll(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(3, func(d *machinev1.MachineDeployment) { d.Spec.Strategy = rollingUpdate(1, 0) }))
	env.run()
	users := env.live()[2].Name
	change(env, env.node(users), func(n *corev1.Node) {
		n.Annotations[machinev1.ScaleDownDisabledAnnotation] = "true"
	})
	env.changeSpec(class("v2"))
	before := env.Count("patch Node")
	env.pass()
	if n := env.Count("patch Node") - before; n != 3 {
		t.Errorf("%d patches for three old nodes: taint and annotations go together", n)
	}
	for _, m := range env.live() {
		node := env.node(m.Name)
		_, byMCM := node.Annotations[machinev1.ScaleDownDisabledByMCMAnnotation]
		if !tainted(node) || node.Annotations[machinev1.ScaleDownDisabledAnnotation] != "true" || byMCM != (m.Name != users) {
			t.Errorf("old node %s has %v %v", node.Name, node.Spec.Taints, node.Annotations)
		}
	}
	if env.set("v1").Annotations[machinev1.PreferNoScheduleKey] != "True" {
		t.Errorf("MCM knows a tainted set by its annotation: %v", env.set("v1").Annotations)
	}
	seenOnNew := false
	env.until("the roll is done", func() bool {
		for _, m := range env.live() {
			if node := env.node(m.Name); node != nil && m.Spec.Class.Name == "v2" {
				seenOnNew = seenOnNew || node.Annotations[machinev1.ScaleDownDisabledAnnotation] == "true"
				if tainted(node) {
					t.Fatalf("new node %s is tainted", node.Name)
				}
			}
		}
		d := env.deployment()
		return d.Status.UpdatedReplicas == 3 && d.Status.Replicas == 3 && d.Status.AvailableReplicas == 3
	})
	if !seenOnNew {
		t.Errorf("new nodes must be kept while the roll goes on")
	}
	for _, m := range env.live() {
		if node := env.node(m.Name); len(node.Annotations) != 1 || len(node.Spec.Taints) != 0 { // whose it is stays
			t.Errorf("after the roll node %s has %v %v", node.Name, node.Spec.Taints, node.Annotations)
		}
	}
}

// TestNodeThatIsNotMadeYet: what keeps autoscalers off a new node is written with
// what makes it its Machine's, and taken away also if that comes after the roll.
func TestNodeThatIsNotMadeYet(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1, func(d *machinev1.MachineDeployment) { d.Spec.Strategy = rollingUpdate(1, 0) }))
	env.run()
	env.changeSpec(class("v2"))
	env.bare = true
	late := ""
	env.until("the roll is done", func() bool {
		for _, m := range env.live() {
			if node := env.node(m.Name); node != nil && m.Spec.Class.Name == "v2" {
				if late = m.Name; len(node.Annotations) != 0 {
					t.Fatalf("a node that nobody has made its machine's has %v", node.Annotations)
				}
			}
		}
		d := env.deployment()
		return d.Status.UpdatedReplicas == 1 && d.Status.Replicas == 1 && d.Status.AvailableReplicas == 1
	})
	result, err := env.try()
	if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > nodeInitRetry {
		t.Fatalf("%+v, %v: the node has to be looked at again", result, err)
	}
	change(env, env.node(late), func(n *corev1.Node) {
		n.Annotations = map[string]string{
			machinev1.NodeMachineAnnotation: late, machinev1.ScaleDownDisabledAnnotation: "true",
			machinev1.ScaleDownDisabledByMCMAnnotation: "true",
		}
	})
	env.pass()
	if node := env.node(late); len(node.Annotations) != 1 {
		t.Errorf("autoscalers are kept off after the roll: %v", node.Annotations)
	}
}

func tainted(node *corev1.Node) bool {
	for _, x := range node.Spec.Taints {
		if x.Key == machinev1.PreferNoScheduleKey && x.Effect == corev1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}

func TestBack(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(4))
	env.run()
	users := env.live()[3].Name
	change(env, env.node(users), func(n *corev1.Node) {
		n.Annotations[machinev1.ScaleDownDisabledAnnotation] = "true"
		n.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
	})
	env.changeSpec(class("v2"))
	env.pass()
	env.changeSpec(class("v1"))
	env.run()
	node := env.node(users)
	if diff := cmp.Diff([]corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}},
		node.Spec.Taints); diff != "" {
		t.Errorf("the user's taint stays, ours goes\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		machinev1.ScaleDownDisabledAnnotation: "true",
		machinev1.NodeMachineAnnotation:       users,
	}, node.Annotations); diff != "" {
		t.Errorf("the user's annotation stays\n%s", diff)
	}
	set := env.set("v1")
	if _, marked := set.Annotations[machinev1.PreferNoScheduleKey]; marked {
		t.Errorf("the set is marked as tainted still: %v", set.Annotations)
	}
	if r, h := set.Annotations[machinev1.RevisionAnnotation],
		set.Annotations[machinev1.RevisionHistoryAnnotation]; r != "3" || h != "1" {
		t.Errorf("revision %s, history %q; want 3 and 1", r, h)
	}
	if env.deployment().Annotations[machinev1.RevisionAnnotation] != "3" {
		t.Errorf("the deployment's revision is %v", env.deployment().Annotations)
	}
}

func TestNodesOutOfReach(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(2))
	env.run()
	env.changeSpec(class("v2"))
	env.Fault = func(r harness.Request) error {
		if r.Kind == "Node" && r.Verb == "patch" {
			return errBoom
		}
		return nil
	}
	if _, err := env.try(); !errors.Is(err, errBoom) {
		t.Errorf("the failure is not repeated: %v", err)
	}
	if env.set("v2").Spec.Replicas != 2 || env.set("v1").Spec.Replicas != 1 {
		t.Errorf("the rollout stands still\n%s", env.describe())
	}
}
