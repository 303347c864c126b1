package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

func addFinalizer(o metav1.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	}
}

// dropFinalizer takes a finalizer off an object, and nothing else: it does not
// need the object to be current, only the finalizer in its place. An object that
// is gone, or has no such finalizer, is fine; another one of the same name keeps its own.
func dropFinalizer(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	at := slices.Index(o.GetFinalizers(), finalizer)
	if at < 0 {
		return nil
	}
	path, test := fmt.Sprintf("/metadata/finalizers/%d", at), ""
	if uid := o.GetUID(); uid != "" {
		test = fmt.Sprintf(`{"op":"test","path":"/metadata/uid","value":%q},`, uid)
	}
	patch := fmt.Appendf(nil, `[%s{"op":"test","path":%q,"value":%q},{"op":"remove","path":%q}]`, test, path, finalizer,
		path)
	return client.IgnoreNotFound(c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch)))
}

func setAnnotation(o metav1.Object, key, value string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetAnnotations(all)
}

func defaultAnnotation(o metav1.Object, key, value string) {
	if o.GetAnnotations()[key] == "" {
		setAnnotation(o, key, value)
	}
}

func setLabel(o metav1.Object, key, value string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetLabels(all)
}

// patchNode applies change to the machine's node and writes what differs, if
// anything does.
func (c *Controller) patchNode(ctx context.Context, f *facts, change func(*corev1.Node)) error {
	changed := f.node.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(f.node.ObjectMeta, changed.ObjectMeta) &&
		equality.Semantic.DeepEqual(f.node.Spec, changed.Spec) {
		return nil
	}
	if err := target.PatchNode(ctx, c.Target.Client, f.node, changed); err != nil {
		return fmt.Errorf("patch Node %s: %w", f.node.Name, err)
	}
	f.node = changed
	return nil
}

// setNodeCondition writes a condition of the machine's node unless it is there
// with that status, reason and message.
func (c *Controller) setNodeCondition(ctx context.Context, f *facts, want corev1.NodeCondition) error {
	i := slices.IndexFunc(f.node.Status.Conditions, func(n corev1.NodeCondition) bool { return n.Type == want.Type })
	at := metav1.NewTime(f.now)
	want.LastHeartbeatTime, want.LastTransitionTime = at, at
	changed := f.node.DeepCopy()
	if i < 0 {
		changed.Status.Conditions = append(changed.Status.Conditions, want)
	} else {
		was := f.node.Status.Conditions[i]
		if was.Status == want.Status && was.Reason == want.Reason && was.Message == want.Message {
			return nil
		}
		if was.Status == want.Status && was.Reason == want.Reason {
			want.LastTransitionTime = was.LastTransitionTime
		}
		changed.Status.Conditions[i] = want
	}
	if err := target.PatchNodeStatus(ctx, c.Target.Client, f.node, changed); err != nil {
		return fmt.Errorf("set condition %s of Node %s: %w", want.Type, f.node.Name, err)
	}
	f.node = changed
	return nil
}

// nodeCondition returns the condition of that type, nil if the node has none.
func nodeConditionOf(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// withoutTaint returns the taints without those of that key.
func withoutTaint(taints []corev1.Taint, key string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == key })
}

// withTaint returns the taints with t, which replaces one of its key and effect.
func withTaint(taints []corev1.Taint, t corev1.Taint) []corev1.Taint {
	out := slices.Clone(taints)
	for i := range out {
		if out[i].Key == t.Key && out[i].Effect == t.Effect {
			if out[i].Value != t.Value {
				out[i] = t
			}
			return out
		}
	}
	return append(out, t)
}
