package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scaling: 0 to 3 to 1.
func (p *pool) scaling(t *testing.T) {
	t.Helper()
	p.until(t, "the Cluster is available without workers", p.available)
	p.scale(t, 3)
	p.until(t, "three workers", p.settled(3))
	p.providerIDs(t)
	p.scale(t, 1)
	p.until(t, "one worker", p.settled(1))
}

// providerIDs: Machine, MCMMachine and Node name the VM alike, in all characters.
func (p *pool) providerIDs(t *testing.T) {
	t.Helper()
	machines, err := p.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range machines {
		m := &machines[i]
		var node corev1.Node
		if err := p.nodes.Client.Get(t.Context(), client.ObjectKey{Name: m.Status.NodeRef.Name}, &node); err != nil {
			t.Error(err)
			continue
		}
		var infra infrav1.MCMMachine
		if err := p.m.cl.Get(t.Context(), client.ObjectKeyFromObject(m), &infra); err != nil {
			t.Error(err)
			continue
		}
		if m.Spec.ProviderID != node.Spec.ProviderID || infra.Spec.ProviderID != node.Spec.ProviderID ||
			node.Spec.ProviderID == "" {
			t.Errorf("Machine %s has providerID %q, its MCMMachine %q, its Node %q", m.Name, m.Spec.ProviderID,
				infra.Spec.ProviderID, node.Spec.ProviderID)
		}
		if len(m.Status.Addresses) == 0 {
			t.Errorf("Machine %s has no addresses", m.Name)
		}
	}
}

// rollout: another template replaces the machine, and its node has what the
// template says.
func (p *pool) rollout(t *testing.T) {
	t.Helper()
	before, err := p.vms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var old infrav1.MCMMachineTemplate
	if err := p.m.cl.Get(t.Context(), p.key(p.name+"-md-0"), &old); err != nil {
		t.Fatal(err)
	}
	next := &infrav1.MCMMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name + "-md-0-v2"},
		Spec:       *old.Spec.DeepCopy(),
	}
	next.Spec.Template.Spec.NodeTemplate = infrav1.NodeTemplate{
		Labels: map[string]string{"example.com/revision": "v2"}, Taints: []infrav1.Taint{{
			Key:    "example.com/reserved",
			Effect: "NoSchedule",
		}},
	}
	if err := p.m.cl.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	p.change(t, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = next.Name })
	p.until(t, "a worker of the new template instead of the old", func(ctx context.Context) error {
		if err := p.settled(1)(ctx); err != nil {
			return err
		}
		now, err := p.vms(ctx)
		if err == nil && slices.Equal(now, before) {
			err = fmt.Errorf("still VM %v", now)
		}
		return err
	})
	// Nothing names the old template any more, so nothing would own it either.
	if err := p.m.cl.Delete(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	p.until(t, "label and taint of the new template", func(ctx context.Context) error {
		nodes, _, err := p.nodes.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/reserved" })
			if n.Labels["example.com/revision"] != "v2" || !tainted {
				return fmt.Errorf("node %s has labels %v, taints %v", n.Name, n.Labels, n.Spec.Taints)
			}
		}
		return nil
	})
}

// drain: the VM stays while a PodDisruptionBudget forbids the eviction of a pod
// on its node, and goes when nothing does.
func (p *pool) drain(t *testing.T) {
	t.Helper()
	machines, err := p.machines(t.Context())
	if err != nil || len(machines) != 1 {
		t.Fatalf("%d machines, %v", len(machines), err)
	}
	labels := map[string]string{"app": "held"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held", Labels: labels}}
	pod.Spec = corev1.PodSpec{
		NodeName: machines[0].Status.NodeRef.Name, AutomountServiceAccountToken: new(false),
		Containers:  []corev1.Container{{Name: "c", Image: "none"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: pod.ObjectMeta, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	for _, o := range []client.Object{budget, pod} {
		if err := p.nodes.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	p.scale(t, 0)
	p.until(t, "the drain is held by a PodDisruptionBudget", func(ctx context.Context) error {
		m := &clusterv1.Machine{}
		if err := p.m.cl.Get(ctx, client.ObjectKeyFromObject(&machines[0]), m); err != nil {
			return err
		}
		c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
		if c == nil || c.Reason != clusterv1.MachineDeletingDrainingNodeReason ||
			!strings.Contains(c.Message, "disruption budget") {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	if vms, err := p.vms(t.Context()); err != nil || len(vms) != 1 {
		t.Errorf("VMs %v (%v) while the node is drained", vms, err)
	}
	if err := p.nodes.Client.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	p.until(t, "no worker", p.settled(0))
}

// health: a MachineHealthCheck replaces a machine whose kubelet says that it is
// not ready.
func (p *pool) health(t *testing.T) {
	t.Helper()
	p.scale(t, 1)
	p.until(t, "a worker from zero", p.settled(1))
	vms, err := p.nodes.Cloud.VMs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	broken := ""
	for name, vm := range vms {
		broken = name
		if err := p.nodes.Cloud.Kubelet(t.Context(), vm.ID, map[string]any{"ready": false}); err != nil {
			t.Fatal(err)
		}
	}
	p.until(t, "a healthy worker instead of the broken one", func(ctx context.Context) error {
		if err := p.settled(1)(ctx); err != nil {
			return err
		}
		now, err := p.vms(ctx)
		if err == nil && slices.Contains(now, broken) {
			err = fmt.Errorf("VM %s is still there", broken)
		}
		return err
	})
}

// unfinished leaves more workers being made: their VMs were asked for, and boot.
func (p *pool) unfinished(t *testing.T, replicas int32) {
	t.Helper()
	if err := p.nodes.Cloud.Change(t.Context(), map[string]any{"bootTime": "60s"}); err != nil {
		t.Fatal(err)
	}
	p.scale(t, replicas)
	p.until(t, "VMs that boot", func(ctx context.Context) error {
		all, err := p.nodes.Cloud.VMs(ctx)
		if err != nil {
			return err
		}
		machines, err := p.machines(ctx)
		if err != nil {
			return err
		}
		nodes := slices.DeleteFunc(machines, func(m clusterv1.Machine) bool { return !m.Status.NodeRef.IsDefined() })
		if len(all) <= len(nodes) {
			err = fmt.Errorf("%d VMs, %d Machines with nodes", len(all), len(nodes))
		}
		return err
	})
}

// remove deletes the Cluster; its cloud is empty then.
func (p *pool) remove(t *testing.T) {
	t.Helper()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}}
	if err := p.m.cl.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the Cluster is gone", func(ctx context.Context) error {
		if err := p.m.cl.Get(ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Cluster is there, or not to be read: %v", err) //nolint:errorlint // may be nil
		}
		return nil
	})
	p.until(t, "the cloud is empty", func(ctx context.Context) error {
		left, err := p.nodes.Cloud.Live(ctx, "")
		if err != nil {
			return err
		}
		for _, r := range left {
			err = fmt.Errorf("%s %s %v is left of %d", r.Kind, r.ID, r.Tags, len(left))
		}
		return err
	})
	p.once(t)
	p.until(t, "no Node is left", func(ctx context.Context) error {
		nodes, _, err := p.nodes.Nodes(ctx)
		if err == nil && len(nodes) > 0 {
			err = fmt.Errorf("%d Nodes", len(nodes))
		}
		return err
	})
}

// once: no machine ever had two VMs.
func (p *pool) once(t *testing.T) {
	t.Helper()
	ledger, err := p.nodes.Cloud.Ledger(t.Context(), sim.KindVM)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]int{}
	for _, vm := range ledger {
		made[vm.Tags[sim.NameTag]]++
	}
	for name, n := range made {
		if n > 1 {
			t.Errorf("%d VMs were made for machine %s", n, name)
		}
	}
	if len(made) < 3 {
		t.Errorf("the cloud remembers %d machines", len(made))
	}
}
