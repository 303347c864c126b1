package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// Cordon makes the node unschedulable. It writes nothing if the node is unschedulable
// or does not exist.
func (d *Drainer) Cordon(ctx context.Context, node *corev1.Node) error {
	if node == nil || node.Spec.Unschedulable {
		return nil
	}
	changed := node.DeepCopy()
	changed.Spec.Unschedulable = true
	if err := target.PatchNode(ctx, d.target.Client, node, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cordoning node %s: %w", node.Name, err)
	}
	return nil
}

// MarkTerminating sets the node's condition Terminating, with reason ScaleDown or
// Unhealthy. It writes nothing if the condition has that reason, or if the node does
// not exist. The other conditions stay the kubelet's.
func (d *Drainer) MarkTerminating(ctx context.Context, node *corev1.Node, reason string) error {
	if node == nil {
		return nil
	}
	want := terminating(reason, metav1.NewTime(d.clock.Now()))
	changed := node.DeepCopy()
	if !setCondition(changed, want) {
		return nil
	}
	if err := target.PatchNodeStatus(ctx, d.target.Client, node, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("setting condition %s of node %s: %w", want.Type, node.Name, err)
	}
	return nil
}

func terminating(reason string, now metav1.Time) corev1.NodeCondition {
	c := corev1.NodeCondition{
		Type: machinev1.NodeTerminating, Status: corev1.ConditionTrue, Reason: reason,
		LastHeartbeatTime: now, LastTransitionTime: now, Message: "Machine Controller is scaling down machine",
	}
	if reason == machinev1.ReasonUnhealthy {
		c.Message = "Machine Controller is terminating failed machine"
	}
	return c
}

// setCondition sets a condition of the node, and reports whether it has changed.
func setCondition(node *corev1.Node, want corev1.NodeCondition) bool {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != want.Type {
			continue
		}
		if c.Status == want.Status && c.Reason == want.Reason {
			return false
		}
		if c.Status == want.Status {
			want.LastTransitionTime = c.LastTransitionTime
		}
		*c = want
		return true
	}
	node.Status.Conditions = append(node.Status.Conditions, want)
	return true
}
