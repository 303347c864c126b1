package integration

import (
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

var drainTrials = []trialCase{
	{"BudgetBlocksThenAllows", (*trial).budgetBlocks},
	{"BudgetMisconfigured", (*trial).budgetMisconfigured},
	{"DrainTimeout", (*trial).drainTimeout},
	{"ForceDeletion", (*trial).forceDeletion},
	{"MaxEvictRetries", (*trial).maxEvictRetries},
	{"PodsThatStay", (*trial).podsThatStay},
	{"VolumesOneByOne", (*trial).volumesOneByOne},
	{"VolumesAfterForce", (*trial).volumesAfterForce},
}

// pod creates a pod of the trial on a node.
func (t *trial) pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: t.name + "-" + name, Namespace: stack.Namespace,
		Labels: map[string]string{"app": t.name},
	}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "main"}}
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	for _, f := range change {
		f(p)
	}
	t.Expect(t.Client.Create(t.Context(), p)).To(Succeed())
	return p
}

// runs waits until a pod does.
func (t *trial) runs(p *corev1.Pod) {
	t.Helper()
	t.until(p, p.Name+" runs", func() error {
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
}

// budget creates a budget for the trial's pods, and waits until it has counted
// that many and allows no eviction.
func (t *trial) budget(needed, pods int) *policyv1.PodDisruptionBudget {
	t.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: t.name, Namespace: stack.Namespace}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.name}}
	b.Spec.MinAvailable = new(intstr.FromInt(needed))
	t.Expect(t.Client.Create(t.Context(), b)).To(Succeed())
	t.until(b, "the budget counts", func() error {
		s := b.Status
		if s.ObservedGeneration < b.Generation || int(s.ExpectedPods) != pods || int(s.CurrentHealthy) != needed ||
			s.DisruptionsAllowed != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return b
}

// blocked returns a Machine with a pod on it whose eviction a budget denies: of
// two pods one must be healthy, and the other is nowhere.
func (t *trial) blocked(change ...func(*machinev1.Machine)) (*machinev1.Machine, *corev1.Pod,
	*policyv1.PodDisruptionBudget,
) {
	t.Helper()
	m := t.machine(t.class("v1"), "m", change...)
	p := t.pod("p", m.Labels[machinev1.NodeLabel])
	t.pod("nowhere", "")
	t.runs(p)
	return m, p, t.budget(1, 2)
}

// deleting deletes a Machine without waiting.
func (t *trial) deleting(m *machinev1.Machine) {
	t.Helper()
	t.Expect(t.Client.Delete(t.Context(), m)).To(Succeed())
}

// budgetBlocks: a drain waits for a budget and goes on when that allows it.
func (t *trial) budgetBlocks() {
	m, p, b := t.blocked()
	t.deleting(m)
	t.says(m, machinev1.ConditionDrained, metav1.ConditionFalse, machinev1.ReasonEvictionDenied, b.Name, p.Name)
	t.says(m, machinev1.ConditionDeleted, metav1.ConditionFalse, machinev1.ReasonEvictionDenied, b.Name)
	t.heard(m, "DrainBlocked", b.Name)
	t.Expect(m.Status.LastOperation.Description).To(ContainSubstring(machinev1.StepDrain),
		"MCM's tools read the step there")
	node := t.node(m)
	t.Expect(node.Spec.Unschedulable).To(BeTrue())
	t.until(node, "the node says that it goes", func() error {
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == machinev1.NodeTerminating && c.Status == corev1.ConditionTrue &&
				c.Reason == machinev1.ReasonScaleDown
		}) {
			return errors.New("it does not")
		}
		return nil
	})
	t.Expect(t.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p)).To(Succeed())
	t.Expect(p.DeletionTimestamp).To(BeNil())
	t.edit(b, func() { b.Spec.MinAvailable = new(intstr.FromInt32(0)) })
	t.goes(m)
	t.goes(p)
	t.gone([]machinev1.Machine{*m})
}

// budgetMisconfigured: a budget that never allows an eviction is named.
func (t *trial) budgetMisconfigured() {
	m := t.machine(t.class("v1"), "m")
	p := t.pod("p", m.Labels[machinev1.NodeLabel])
	t.runs(p)
	b := t.budget(1, 1)
	t.deleting(m)
	t.says(m, machinev1.ConditionDrained, metav1.ConditionFalse, "PodDisruptionBudgetMisconfigured", b.Name, p.Name,
		"lower minAvailable")
	t.heard(m, "DrainBlocked", b.Name, "misconfigured")
	t.edit(b, func() { b.Spec.MinAvailable = new(intstr.FromInt32(0)) })
	t.goes(m)
}

// drainTimeout: when the time is up, pods are deleted whatever a budget says.
func (t *trial) drainTimeout() {
	m, p, _ := t.blocked(func(m *machinev1.Machine) {
		m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineDrainTimeout: lasting(20)}
	})
	t.deleting(m)
	t.says(m, machinev1.ConditionDrained, metav1.ConditionFalse, machinev1.ReasonEvictionDenied)
	t.goes(m)
	t.goes(p)
}

// forceDeletion: a person can end a drain at once.
func (t *trial) forceDeletion() {
	m, p, _ := t.blocked()
	t.deleting(m)
	t.says(m, machinev1.ConditionDrained, metav1.ConditionFalse, machinev1.ReasonEvictionDenied)
	begun := time.Now()
	t.edit(m, func() { m.Labels[machinev1.ForceDeletionLabel] = "true" })
	t.goes(m)
	t.goes(p)
	t.Expect(time.Since(begun)).To(BeNumerically("<", 15*time.Second), "it does not wait for the next eviction")
}

// maxEvictRetries: a pod whose eviction is refused too often is deleted.
func (t *trial) maxEvictRetries() {
	m, p, _ := t.blocked(func(m *machinev1.Machine) {
		m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: ptr.To[int32](1)}
	})
	t.deleting(m)
	t.says(m, machinev1.ConditionDrained, metav1.ConditionFalse, machinev1.ReasonEvictionDenied)
	t.goes(p) // after the second refusal
	t.goes(m)
}

// podsThatStay: pods of DaemonSets and mirror pods are not evicted, and nothing
// waits for them; finished pods and those without owner go.
func (t *trial) podsThatStay() {
	m := t.machine(t.class("v1"), "m")
	node := m.Labels[machinev1.NodeLabel]
	daemon := t.pod("daemon", node, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent",
			UID: "5a5a5a5a-0000-4000-8000-000000000000", Controller: new(true),
		}}
		p.Finalizers = []string{held}
	})
	plain := t.pod("plain", node)
	t.runs(daemon)
	t.runs(plain)
	t.remove(m)
	t.goes(plain)
	t.Expect(t.absent(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())
	t.Expect(t.Client.Get(t.Context(), client.ObjectKeyFromObject(daemon), daemon)).To(Succeed())
	t.edit(daemon, func() { daemon.Finalizers = nil })
}
