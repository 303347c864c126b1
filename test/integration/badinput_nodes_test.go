package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// shortestName: a Machine of one character has a VM and a node.
func (t *trial) shortestName() {
	class := t.class("v1")
	m := t.machine(class, "", func(m *machinev1.Machine) { m.Name = "x" })
	t.Expect(t.node(m).Labels).To(HaveKeyWithValue(machinev1.MachineNameLabel, "x"))
	t.remove(m)
}

// triggerDeletionList: entries that cannot be read, or are not the deployment's,
// are told about and dropped; the others count.
func (t *trial) triggerDeletionList() {
	class := t.class("v1")
	foreign := t.machine(class, "foreign")
	d := t.deployment(class, 2, "1", "0")
	machines := t.settled(d)
	now := time.Now().UTC().Format(time.RFC3339)
	list := []string{
		"a~b~c", machines[0].Name + "~never", foreign.Name + "~" + now, "", "~" + now,
		youngest(machines).Name + "~" + now,
	}
	t.edit(d, func() {
		d.Spec.Replicas = 1
		d.Annotations = with(d.Annotations, machinev1.TriggerDeletionAnnotation, strings.Join(list, ","))
	})
	t.heard(d, machinev1.ReasonInvalidSpec, machinev1.TriggerDeletionAnnotation, "a~b~c")
	t.heard(d, machinev1.ReasonInvalidSpec, machinev1.TriggerDeletionAnnotation, "~never")
	t.heard(d, machinev1.ReasonInvalidSpec, machinev1.TriggerDeletionAnnotation, foreign.Name)
	want := uids(machines)
	delete(want, youngest(machines).UID)
	t.Expect(uids(t.settled(d))).To(Equal(want))
	t.Expect(t.Client.Get(t.Context(), namespaced(foreign.Name), foreign)).To(Succeed())
	t.Expect(foreign.DeletionTimestamp).To(BeNil())
	t.Expect(foreign.Annotations).NotTo(HaveKeyWithValue(machinev1.PriorityAnnotation, machinev1.HighestPriority))
}

// sharedNode: two Machines claim a node. The one that it does not belong to says
// so; deleting that one touches neither the node nor its pods.
func (t *trial) sharedNode() {
	class := t.class("v1")
	rightful, wrong := t.machine(class, "rightful"), t.machine(class, "wrong")
	node := t.node(rightful)
	pod := t.pod("p", node.Name)
	t.runs(pod)
	own := wrong.Labels[machinev1.NodeLabel]
	t.edit(wrong, func() { wrong.Labels[machinev1.NodeLabel] = node.Name })
	t.says(wrong, machinev1.ConditionNodeReady, metav1.ConditionFalse, machinev1.ReasonNodeShared, node.Name, "label node")
	t.heard(wrong, machinev1.ReasonNodeShared, node.Name, "correct the label")
	t.edit(wrong, func() { wrong.Labels[machinev1.NodeLabel] = own })
	t.says(wrong, machinev1.ConditionNodeReady, metav1.ConditionTrue, "NodeHealthy")
	t.says(rightful, machinev1.ConditionNodeReady, metav1.ConditionTrue, "NodeHealthy")

	t.edit(wrong, func() { wrong.Labels[machinev1.NodeLabel] = node.Name })
	t.says(wrong, machinev1.ConditionNodeReady, metav1.ConditionFalse, machinev1.ReasonNodeShared)
	t.remove(wrong)
	t.Expect(t.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node)).To(Succeed())
	t.Expect(node.DeletionTimestamp).To(BeNil())
	t.Expect(node.Spec.Unschedulable).To(BeFalse())
	t.Expect(t.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	t.Expect(pod.DeletionTimestamp).To(BeNil())
	t.says(rightful, machinev1.ConditionNodeReady, metav1.ConditionTrue, "NodeHealthy")
	t.phase(rightful, machinev1.MachineRunning)
}

// podWithoutPriority: a cluster without priority admission has pods without
// priority, and pods with volumes are sorted by it.
func (t *trial) podWithoutPriority() {
	t.withoutPriority()
	m := t.machine(t.class("v1"), "m")
	node := m.Labels[machinev1.NodeLabel]
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b"} {
		p := t.pod(name, node, t.disk(name))
		t.Expect(p.Spec.Priority).To(BeNil())
		t.runs(p)
		pods = append(pods, p)
	}
	for i, name := range []string{"a", "b"} {
		t.attach(name, "elsewhere") // nothing to wait for
		t.runs(pods[i])
	}
	t.remove(m)
	for _, p := range pods {
		t.goes(p)
	}
}

// withoutPriority makes the API server take the priority from the trial's pods.
func (t *trial) withoutPriority() {
	t.Helper()
	again := admissionv1.IfNeededReinvocationPolicy // the plugin that sets the priority is asked again, too
	p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: t.name}}
	p.Spec = admissionv1.MutatingAdmissionPolicySpec{
		ReinvocationPolicy: again,
		MatchConstraints: &admissionv1.MatchResources{
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.name}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}},
		},
		Mutations: []admissionv1.Mutation{{
			PatchType: admissionv1.PatchTypeJSONPatch,
			JSONPatch: &admissionv1.JSONPatch{
				Expression: `has(object.spec.priority) ? [JSONPatch{op: "remove", path: "/spec/priority"}] : []`,
			},
		}},
	}
	t.Expect(t.Client.Create(t.Context(), p)).To(Succeed())
	b := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: t.name}}
	b.Spec.PolicyName = p.Name
	t.Expect(t.Client.Create(t.Context(), b)).To(Succeed())
	tries := 0
	t.eventually("the policy is in force", func(ctx context.Context) error {
		tries++
		probe := t.pod(fmt.Sprint("probe-", tries), "")
		t.Expect(t.Client.Delete(ctx, probe, client.GracePeriodSeconds(0))).To(Succeed())
		if probe.Spec.Priority != nil {
			return fmt.Errorf("a pod has priority %d", *probe.Spec.Priority)
		}
		return nil
	})
}

// inlineVolume: an attachment of a volume that is none of a PersistentVolume is
// no obstacle.
func (t *trial) inlineVolume() {
	m := t.machine(t.class("v1"), "m")
	node := m.Labels[machinev1.NodeLabel]
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: t.name}}
	va.Spec = storagev1.VolumeAttachmentSpec{Attacher: csiDriver, NodeName: node}
	va.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: "vol-inline"},
		},
	}
	t.Expect(t.Client.Create(t.Context(), va)).To(Succeed())
	p := t.pod("p", node, t.disk("d"))
	t.runs(p)
	t.onNode(node, "d")
	own := t.attach("d", node)
	t.deleting(m)
	t.says(m, machinev1.ConditionDrained, metav1.ConditionFalse, machinev1.ReasonDetachingVolumes, t.name+"-d")
	t.onNode(node)
	t.remove(own)
	t.attach("d", "elsewhere")
	t.goes(m)
	t.Expect(t.Client.Delete(t.Context(), va)).To(Succeed())
}
