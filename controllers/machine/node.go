package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// findNode learns the node of a Machine that was deleted before it was recorded.
func (c *Controller) findNode(ctx context.Context, p *pass) (bool, error) {
	if c.Target == nil || p.nodeName != "" {
		return true, nil
	}
	found, err := c.lookUpVM(ctx, p)
	if err != nil {
		return false, err
	}
	if !isLabelValue(found.NodeName) || found.NodeName == "" {
		return true, nil // it has no node, or one whose name could never be recorded
	}
	if err := c.engine.Record(ctx, c.vm(p), found); err != nil {
		return false, fmt.Errorf("record Node %s: %w", found.NodeName, err)
	}
	return true, c.observeNode(ctx, p)
}

// lookUpVM is what the cloud knows of the Machine's VM; the zero VM if it
// has none, or if the cloud cannot be asked.
func (c *Controller) lookUpVM(ctx context.Context, p *pass) (cloud.VM, error) {
	if _, err := c.engine.Account(ctx, c.vm(p)); err != nil {
		return cloud.VM{}, p.seen.classErr // deleteVM reports it; without the cloud there is no way to learn a node
	}
	found, err := c.engine.Get(ctx, c.vm(p))
	code := cloud.CodeOf(err)
	if err != nil && (code == cloud.NotFound || (code == cloud.Denied && mayReleaseWithoutVM(p.machine))) {
		return cloud.VM{}, nil
	}
	return found, err
}

// ownsNode reports whether the node of that name is this Machine's. A node of
// another VM, one that registered under the name of another machine, or whose
// other claimant lives, is not ours to drain or delete.
func ownsNode(p *pass) bool {
	if p.nodeOwner != ownershipUnknown {
		return p.nodeOwner == ownedByThis
	}
	name := p.node.Labels[machinev1.MachineNameLabel]
	return p.otherClaimant == "" && (name == "" || name == p.machine.Name)
}

// deleteNode deletes the Machine's Node.
func (c *Controller) deleteNode(ctx context.Context, p *pass) (bool, error) {
	if p.node == nil || !ownsNode(p) {
		return true, nil
	}
	if err := c.deleteNodeObject(ctx, p); err != nil {
		p.did.deletionWaitsFor = &waiting{
			machinev1.ReasonDeletingNode, fmt.Sprintf("Node %s could not be deleted", p.node.Name),
		}
		return false, err
	}
	return true, nil
}

// deleteNodeObject takes our finalizer, which kept the node until now, off it and
// deletes it, unless somebody has deleted it already.
func (c *Controller) deleteNodeObject(ctx context.Context, p *pass) error {
	node := p.node.DeepCopy()
	if err := patch.RemoveFinalizer(ctx, c.Target.Client, node, machinev1.NodeFinalizer); err != nil {
		return fmt.Errorf("remove finalizer of Node %s: %w", node.Name, err)
	}
	if !node.DeletionTimestamp.IsZero() { // as the answer says
		return nil
	}
	opts := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.node.UID}}
	if err := c.Target.Client.Delete(ctx, node, opts); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return nil
}

// deleteToken deletes the bootstrap token of a Machine that never joined.
func (c *Controller) deleteToken(ctx context.Context, p *pass) (bool, error) {
	if c.Target == nil || p.machine.Status.NodeRef != nil ||
		p.machine.Status.CurrentStatus.Phase == machinev1.MachineRunning {
		return true, nil
	}
	if err := token.DeleteOwned(ctx, c.tokens(), c.tokenRequest(p)); err != nil && !apierrors.IsForbidden(err) {
		return false, err // one that we may not delete is left to its expiry
	}
	return true, nil
}

// patchNode applies change to the machine's node and writes what differs, if
// anything does.
func (c *Controller) patchNode(ctx context.Context, p *pass, change func(*corev1.Node)) error {
	changed := p.node.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(p.node.ObjectMeta, changed.ObjectMeta) &&
		equality.Semantic.DeepEqual(p.node.Spec, changed.Spec) {
		return nil
	}
	if err := target.PatchNode(ctx, c.Target.Client, p.node, changed); err != nil {
		return fmt.Errorf("patch Node %s: %w", p.node.Name, err)
	}
	p.node = changed
	return nil
}

// setNodeCondition writes a condition of the machine's node unless it is there
// with that status, reason and message.
func (c *Controller) setNodeCondition(ctx context.Context, p *pass, want corev1.NodeCondition) error {
	i := slices.IndexFunc(p.node.Status.Conditions, func(n corev1.NodeCondition) bool { return n.Type == want.Type })
	at := metav1.NewTime(p.seen.now)
	want.LastHeartbeatTime, want.LastTransitionTime = at, at
	changed := p.node.DeepCopy()
	if i < 0 {
		changed.Status.Conditions = append(changed.Status.Conditions, want)
	} else {
		was := p.node.Status.Conditions[i]
		if was.Status == want.Status && was.Reason == want.Reason && was.Message == want.Message {
			return nil
		}
		if was.Status == want.Status && was.Reason == want.Reason {
			want.LastTransitionTime = was.LastTransitionTime
		}
		changed.Status.Conditions[i] = want
	}
	if err := target.PatchNodeStatus(ctx, c.Target.Client, p.node, changed); err != nil {
		return fmt.Errorf("set condition %s of Node %s: %w", want.Type, p.node.Name, err)
	}
	p.node = changed
	return nil
}

// nodeConditionOf returns the condition of that type, nil if the node has none.
func nodeConditionOf(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
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
