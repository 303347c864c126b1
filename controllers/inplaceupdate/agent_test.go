package inplaceupdate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// agentEnv wants another version and class of a node with an agent and a pod.
func agentEnv(t *testing.T) *env {
	t.Helper()
	w := newEnv(t)
	w.pod("p", nil)
	w.want(func(m *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
		annotate(m, "version,providerSpec.image")
		m.Spec.Version = "v1.2.0"
		i.Spec.MachineClassRef.Name = "c2"
	})
	return w
}

// TestAgent: the whole way of an update by the agent, and another one after it.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := agentEnv(t)
	if r := w.call(); progressOf(r) != inProgress ||
		!strings.Contains(r.Message, "waiting for default/p, which is ending") {
		t.Fatalf("%+v, want a drain", r)
	}
	n := w.node()
	if w.reason() != machinev1.ReasonSelectedForUpdate || n.Labels[machinev1.SelectedForUpdateLabel] != yes ||
		!n.Spec.Unschedulable {
		t.Fatalf("%s, %v, cordoned %v; want a Node that is selected and cordoned", w.reason(), n.Labels, n.Spec.Unschedulable)
	}
	w.expect("drained", inProgress, "Waiting for the agent on Node n")
	if w.reason() != machinev1.ReasonReadyForUpdate {
		t.Fatalf("%s, want %s", w.reason(), machinev1.ReasonReadyForUpdate)
	}
	w.edit(func(n *corev1.Node) { n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful })
	w.expect("the kubelet has not restarted", inProgress, "to report version v1.2.0 instead of v1.1.0")
	w.edit(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.2.0" })
	w.expect("it has", done, "")
	w.untouched("at the end")
	if w.reason() != machinev1.ReasonUpdateSuccessful {
		t.Errorf("%s, want %s", w.reason(), machinev1.ReasonUpdateSuccessful)
	}
	w.pod("q", nil)
	w.want(func(_ *clusterv1.Machine, i *infrav1.MCMMachine, _ *bootstrapv1.MCMConfig) {
		i.Spec.NodeTemplate.Labels = map[string]string{"a": "b"}
	})
	w.expect("a label after it is nothing to the agent", inProgress, "Waiting for the controller")
	w.untouched("a label")
	w.want(func(_ *clusterv1.Machine, _ *infrav1.MCMMachine, c *bootstrapv1.MCMConfig) {
		c.Spec.UserDataSecretRef.Name = "d2"
	})
	if r := w.call(); !strings.Contains(r.Message, "Draining") {
		t.Errorf("%q, want the next update by the agent, which the last result does not end", r.Message)
	}
}

// TestAgentFails: a failure says why, and what to do; a person who does it is heard.
func TestAgentFails(t *testing.T) {
	t.Parallel()
	w := agentEnv(t)
	w.call()
	w.expect("drained", inProgress, "agent")
	w.edit(func(n *corev1.Node) {
		n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateFailed
		n.Annotations[machinev1.UpdateFailedReasonAnnotation] = "the disk is full"
	})
	w.expect("failed", broken, "The agent on Node n has failed: the disk is full; remove its label")
	c := (&update{infra: w.live()}).condition(infrav1.UpdatedInPlaceCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != infrav1.ReasonNodeAgentFailed ||
		!strings.Contains(c.Message, "the disk is full") {
		t.Errorf("condition %+v: core does not show the message of a failure, so the MCMMachine has to", c)
	}
	if n := len(w.Events.Events); n != 1 {
		t.Errorf("%d Events of one failure", n)
	}
	if w.reason() != machinev1.ReasonUpdateFailed || !w.node().Spec.Unschedulable {
		t.Errorf("%s, cordoned %v; want a failed Node that gets no pods", w.reason(), w.node().Spec.Unschedulable)
	}
	w.edit(func(n *corev1.Node) { delete(n.Labels, machinev1.UpdateResultLabel) })
	w.expect("tried again", inProgress, "Waiting for the agent")
	w.edit(func(n *corev1.Node) {
		n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful
		n.Status.NodeInfo.KubeletVersion = "v1.2.0"
	})
	w.expect("and succeeded", done, "")
	w.untouched("at the end")
	if c := (&update{infra: w.live()}).condition(infrav1.UpdatedInPlaceCondition); c == nil ||
		c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v, want the failure to be over", c)
	}
}

// TestAgentIsSilent: an update without an agent fails after its time, and may still
// succeed.
func TestAgentIsSilent(t *testing.T) {
	t.Parallel()
	w := agentEnv(t)
	w.call()
	w.expect("drained", inProgress, "agent")
	w.Advance(time.Hour)
	w.expect("in time", inProgress, "agent")
	w.Advance(time.Second)
	w.expect("overdue", broken, "The agent on the node has given no result within 1h0m0s of 2026-01-02T03:04:05Z")
	w.edit(func(n *corev1.Node) { n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful })
	w.expect("half done", broken, "The kubelet has not reported version v1.2.0")
	w.edit(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.2.0" })
	w.expect("late", done, "")
}

// TestCordonOfAPersonStays: only what was cordoned for the update is uncordoned.
func TestCordonOfAPersonStays(t *testing.T) {
	t.Parallel()
	w := agentEnv(t)
	w.edit(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.call()
	w.expect("drained", inProgress, "agent")
	w.edit(func(n *corev1.Node) {
		n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful
		n.Status.NodeInfo.KubeletVersion = "v1.2.0"
	})
	w.expect("updated", done, "")
	if !w.node().Spec.Unschedulable {
		t.Error("a Node that a person had cordoned was uncordoned")
	}
}

// TestWhatAnEarlierUpdateLeft: labels and condition count for the update that
// they were written for only.
func TestWhatAnEarlierUpdateLeft(t *testing.T) {
	t.Parallel()
	w := agentEnv(t)
	w.edit(func(n *corev1.Node) {
		n.Labels = map[string]string{machinev1.UpdateResultLabel: machinev1.UpdateSuccessful}
		n.Annotations = map[string]string{infrav1.UpdateTargetAnnotation: "another"}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: machinev1.NodeInPlaceUpdate, Status: corev1.ConditionTrue,
			Reason: machinev1.ReasonReadyForUpdate,
		}}
	})
	if r := w.call(); !strings.Contains(r.Message, "Draining") || w.reason() != machinev1.ReasonSelectedForUpdate {
		t.Fatalf("%q, %s: an agent would update a node with pods", r.Message, w.reason())
	}
}
