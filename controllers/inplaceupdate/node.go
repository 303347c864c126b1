package inplaceupdate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// yes is the value of labels and annotations that only have to be there.
const yes = "true"

// shown is the Node's condition InPlaceUpdate, by which agents know when it is
// their turn; nil if there is none.
func shown(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == machinev1.NodeInPlaceUpdate {
			return c
		}
	}
	return nil
}

// show sets that condition; nothing is written if it says so already. Its time
// is when it began to give this reason. A Node that has changed is a conflict:
// what was read may not be so any more.
func (e *Extension) show(ctx context.Context, u *update, reason, message string) error {
	c := shown(u.node)
	if c != nil && c.Reason == reason && c.Status == corev1.ConditionTrue {
		return nil
	}
	now := metav1.NewTime(u.now)
	want := corev1.NodeCondition{
		Type: machinev1.NodeInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	changed := u.node.DeepCopy()
	if c = shown(changed); c != nil {
		*c = want
	} else {
		changed.Status.Conditions = append(changed.Status.Conditions, want)
	}
	merge := client.StrategicMergeFrom(u.node, client.MergeFromWithOptimisticLock{})
	if err := u.cluster.Status().Patch(ctx, changed, merge); err != nil {
		return fmt.Errorf("set condition %s of Node %s: %w", want.Type, u.node.Name, err)
	}
	u.node = changed
	return nil
}

// selectNode marks the node, and takes away what an update before has left.
func (e *Extension) selectNode(ctx context.Context, u *update) error {
	return e.change(ctx, u, func(n *corev1.Node) {
		set(&n.Labels, machinev1.CandidateForUpdateLabel, yes)
		set(&n.Labels, machinev1.SelectedForUpdateLabel, yes)
		delete(n.Labels, machinev1.UpdateResultLabel)
		delete(n.Annotations, machinev1.UpdateFailedReasonAnnotation)
		set(&n.Annotations, infrav1.UpdateTargetAnnotation, u.target)
	})
}

// cordon keeps new pods off the node. It stays cordoned afterwards if it was
// before.
func (e *Extension) cordon(ctx context.Context, u *update) error {
	if u.node.Spec.Unschedulable {
		return nil
	}
	return e.change(ctx, u, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		set(&n.Annotations, infrav1.CordonedForUpdateAnnotation, yes)
	})
}

// release takes away all marks of the update.
func (e *Extension) release(ctx context.Context, u *update) error {
	return e.change(ctx, u, func(n *corev1.Node) {
		for _, label := range []string{
			machinev1.CandidateForUpdateLabel, machinev1.SelectedForUpdateLabel,
			machinev1.UpdateResultLabel,
		} {
			delete(n.Labels, label)
		}
		if _, cordoned := n.Annotations[infrav1.CordonedForUpdateAnnotation]; cordoned {
			n.Spec.Unschedulable = false
		}
		for _, a := range []string{
			machinev1.UpdateFailedReasonAnnotation, infrav1.CordonedForUpdateAnnotation,
			infrav1.UpdateTargetAnnotation,
		} {
			delete(n.Annotations, a)
		}
	})
}

// change writes what how changes of the Node. A Node that has changed meanwhile
// is a conflict.
func (e *Extension) change(ctx context.Context, u *update, how func(*corev1.Node)) error {
	changed := u.node.DeepCopy()
	how(changed)
	if err := patch.Object(ctx, u.cluster, u.node, changed); err != nil {
		return fmt.Errorf("write Node %s: %w", u.node.Name, err)
	}
	u.node = changed
	return nil
}

func set(all *map[string]string, key, value string) {
	if *all == nil {
		*all = map[string]string{}
	}
	(*all)[key] = value
}
