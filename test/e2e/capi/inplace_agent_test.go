package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plays is the agent on every node, for one moment: it acts on nodes that are
// handed to it, and says what is not as it should be then.
func (p *pool) plays(ctx context.Context, act func(*corev1.Node)) error {
	nodes, _, err := p.nodes.Nodes(ctx)
	if err != nil {
		return err
	}
	for i := range nodes {
		n := &nodes[i]
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == machinev1.NodeInPlaceUpdate && c.Reason == machinev1.ReasonReadyForUpdate
		})
		if !ready || n.Labels[machinev1.UpdateResultLabel] != "" {
			continue
		}
		var pods corev1.PodList
		if err := p.nodes.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
			return err
		}
		if len(pods.Items) > 0 || !n.Spec.Unschedulable {
			return fmt.Errorf("node %s was handed to its agent with %d pods, cordoned: %v", n.Name, len(pods.Items),
				n.Spec.Unschedulable)
		}
		before := n.DeepCopy()
		act(n)
		status := n.DeepCopy()
		if err := p.nodes.Client.Status().Patch(ctx, status, client.MergeFrom(before)); err != nil {
			return err
		}
		n.Status = before.Status
		if err := p.nodes.Client.Patch(ctx, n, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// succeed is an agent that brings the kubelet to a version.
func succeed(version string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.NodeInfo.KubeletVersion = version
		n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateSuccessful
	}
}

// updateByAgent: another image and version are made on the VMs that there are,
// one after the other, each without its pods.
func (p *pool) updateByAgent(t *testing.T) {
	t.Helper()
	const version = "v1.36.4"
	before := p.who(t)
	nodes, _, err := p.nodes.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "moves"}, Spec: corev1.PodSpec{
		NodeName: nodes[0].Name, AutomountServiceAccountToken: new(false),
		Containers:  []corev1.Container{{Name: "c", Image: "none"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	if err := p.nodes.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	p.template(t, "image-3", p.class(t, "image-3", "linux-3"), func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Annotations = map[string]string{infrav1.NodeAgentUpdatesAnnotation: "version,providerSpec.image"}
		md.Spec.Template.Spec.Version = version
	})
	p.until(t, "two workers, updated by their agents", func(ctx context.Context) error {
		if err := p.plays(ctx, succeed(version)); err != nil {
			return err
		}
		return errors.Join(p.settled(2)(ctx), p.idleNodes(ctx, version))
	})
	p.same(t, before)
	if err := p.nodes.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err == nil {
		t.Error("the pod of a node that was updated is still there")
	}
}

// idleNodes reports whether all nodes are in service, with that version.
func (p *pool) idleNodes(ctx context.Context, version string) error {
	nodes, _, err := p.nodes.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		for _, label := range []string{
			machinev1.CandidateForUpdateLabel, machinev1.SelectedForUpdateLabel,
			machinev1.UpdateResultLabel,
		} {
			if _, ok := n.Labels[label]; ok {
				return fmt.Errorf("node %s has label %s", n.Name, label)
			}
		}
		if n.Spec.Unschedulable || n.Status.NodeInfo.KubeletVersion != version {
			return fmt.Errorf("node %s is cordoned: %v, version %s", n.Name, n.Spec.Unschedulable,
				n.Status.NodeInfo.KubeletVersion)
		}
	}
	return nil
}

// failingAgent: a failure holds the rollout, is reported, and can be corrected.
func (p *pool) failingAgent(t *testing.T) {
	t.Helper()
	const version, why = "v1.36.5", "the disk is full"
	before := p.who(t)
	p.change(t, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = version })
	failed := map[string]bool{}
	p.until(t, "the failure is told", func(ctx context.Context) error {
		err := p.plays(ctx, func(n *corev1.Node) {
			failed[n.Name] = true
			n.Labels[machinev1.UpdateResultLabel] = machinev1.UpdateFailed
			if n.Annotations == nil {
				n.Annotations = map[string]string{}
			}
			n.Annotations[machinev1.UpdateFailedReasonAnnotation] = why
		})
		if err != nil {
			return err
		}
		return p.told(ctx, why)
	})
	if len(failed) != 1 {
		t.Errorf("agents of %d nodes have failed: %v; the first failure holds the others", len(failed), failed)
	}
	p.same(t, before)
	p.until(t, "two workers, after the agent tries again and succeeds", func(ctx context.Context) error {
		nodes, _, err := p.nodes.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Labels[machinev1.UpdateResultLabel] != machinev1.UpdateFailed {
				continue
			}
			corrected := n.DeepCopy()
			delete(corrected.Labels, machinev1.UpdateResultLabel)
			if err := p.nodes.Client.Patch(ctx, corrected, client.MergeFrom(&n)); err != nil {
				return err
			}
		}
		if err := p.plays(ctx, succeed(version)); err != nil {
			return err
		}
		return errors.Join(p.settled(2)(ctx), p.idleNodes(ctx, version))
	})
	p.same(t, before)
}

// told: core says of a Machine that its update has failed, and the MCMMachine why.
func (p *pool) told(ctx context.Context, why string) error {
	machines, err := p.machines(ctx)
	if err != nil {
		return err
	}
	for i := range machines {
		c := meta.FindStatusCondition(machines[i].Status.Conditions, clusterv1.MachineUpdatingCondition)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != clusterv1.MachineInPlaceUpdateFailedReason {
			err = errors.Join(err, fmt.Errorf("Machine %s: %+v", machines[i].Name, c))
			continue
		}
		var infra infrav1.MCMMachine
		if err := p.m.cl.Get(ctx, client.ObjectKeyFromObject(&machines[i]), &infra); err != nil {
			return err
		}
		c = meta.FindStatusCondition(infra.Status.Conditions, infrav1.UpdatedInPlaceCondition)
		if c == nil || c.Reason != infrav1.ReasonNodeAgentFailed || !strings.Contains(c.Message, why) {
			return fmt.Errorf("MCMMachine %s: %+v", infra.Name, c)
		}
		return nil
	}
	return err
}
