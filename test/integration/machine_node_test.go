package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// holdFinalizer keeps a pod that was evicted.
const holdFinalizer = "test.example/hold"

// bound creates a pod on a machine's node that goes when its finalizer is gone.
func (s *env) bound(m *machinev1.Machine) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: s.meta(s.name)}
	pod.Finalizers = []string{holdFinalizer}
	pod.Spec = corev1.PodSpec{
		NodeName: m.Labels[machinev1.NodeLabel], TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{Name: "main", Image: "none"}},
	}
	s.Expect(s.Client.Create(s.Context(), pod)).To(Succeed())
	return pod
}

// kubectl runs the real one.
func (s *env) kubectl(args ...string) {
	s.Helper()
	args = append([]string{"--kubeconfig", s.Cluster.Kubeconfig(), "--namespace", s.namespace}, args...)
	out, err := exec.CommandContext(s.Context(), s.Cluster.Kubectl(), args...).CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(out))
}

func (s *env) node(m *machinev1.Machine) *corev1.Node {
	s.Helper()
	node := &corev1.Node{}
	s.Expect(s.Client.Get(s.Context(), client.ObjectKey{Name: m.Labels[machinev1.NodeLabel]}, node)).To(Succeed())
	return node
}

// givenTaints are a node's taints without those that Kubernetes itself gives.
func givenTaints(n *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/")
	})
}

// nodeSees waits until a node, which is kept current, is as ok says.
func (s *env) nodeSees(n *corev1.Node, what string, ok func() bool) {
	s.Helper()
	s.eventually(what, func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if !ok() {
			return fmt.Errorf("node has labels %v, annotations %v, taints %v, capacity %v, conditions %v",
				n.Labels, n.Annotations, n.Spec.Taints, n.Status.Capacity, n.Status.Conditions)
		}
		return nil
	})
}

func deletedNodeTakesItsMachineAlong(s *env) {
	s.class()
	s.pool(2)
	all := s.running(2)
	m := &all[0]
	pod, node := s.bound(m), s.node(m)
	s.kubectl("delete", "node", node.Name, "--wait=false")

	s.sees(m, "the machine goes and drains", func() bool {
		c := condition(m, machinev1.ConditionDrained)
		return !m.DeletionTimestamp.IsZero() && c != nil && c.Status == "False"
	})
	s.eventually("the pod is evicted", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.DeletionTimestamp.IsZero() {
			return errors.New("it is not")
		}
		return nil
	})
	s.holds(2*time.Second, "VM and node wait for the pod", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		return s.alive(ctx, m.Name)
	})
	s.Expect(node.Spec.Unschedulable).To(BeTrue())
	s.Expect(nodeCondition(node, machinev1.NodeTerminating)).NotTo(BeNil())
	s.Expect(s.Edit(s.Context(), pod, func() { pod.Finalizers = nil })).To(Succeed())

	s.gone(pod, m, node)
	vms, err := s.vms(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(vms[m.Name]).To(HaveLen(1))
	s.Expect(vms[m.Name][0].Deleting.IsZero()).To(BeFalse(), "the VM goes before the machine")
	for _, left := range s.running(2) {
		s.Expect(left.UID).NotTo(Equal(m.UID))
	}
}

// What was decided for a node does not reach the next one of its name: every
// patch of a node carries the UID of the one that was read.
func patchOfFormerNodeIsRefused(s *env) {
	bare := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name}} }
	former, next := bare(), bare()
	s.Expect(s.Client.Create(s.Context(), former)).To(Succeed())
	s.Expect(s.Client.Delete(s.Context(), former)).To(Succeed())
	s.Expect(s.Client.Create(s.Context(), next)).To(Succeed())
	patch := func(uid types.UID, part string) client.Patch {
		return client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q},%s}`, uid, part))
	}
	spec, status := `"spec":{"unschedulable":true}`, `"status":{"capacity":{"x.com/a":"1"}}`
	for _, err := range []error{
		s.Client.Patch(s.Context(), bare(), patch(former.UID, spec)),
		s.Client.Status().Patch(s.Context(), bare(), patch(former.UID, status)),
	} {
		s.Expect(apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid)).To(BeTrue(), "%v", err)
		s.Expect(err).To(MatchError(ContainSubstring("metadata.uid")))
	}
	s.Expect(s.Client.Patch(s.Context(), next, patch(next.UID, spec))).To(Succeed())
	s.Expect(next.Spec.Unschedulable).To(BeTrue())
	s.Expect(s.Client.Status().Patch(s.Context(), next, patch(next.UID, status))).To(Succeed())
	s.Expect(next.Status.Capacity).To(HaveKey(corev1.ResourceName("x.com/a")))
	s.Expect(s.Client.Delete(s.Context(), next)).To(Succeed())
}

func nodeFollowsItsTemplate(s *env) {
	keep := corev1.Taint{Key: "keep", Value: "1", Effect: corev1.TaintEffectPreferNoSchedule}
	drop := corev1.Taint{Key: "drop", Effect: corev1.TaintEffectNoExecute}
	own := corev1.Taint{Key: "user", Value: "own", Effect: corev1.TaintEffectNoSchedule}
	s.class()
	d := s.pool(1, func(d *machinev1.MachineDeployment) {
		t := &d.Spec.Template.Spec.NodeTemplateSpec
		t.Labels = map[string]string{"keep": "1", "drop": "1"}
		t.Annotations = map[string]string{"keep": "1", "drop": "1"}
		t.Spec.Taints = []corev1.Taint{keep, drop}
	})
	m := &s.running(1)[0]
	n := s.node(m)
	s.nodeSees(n, "what the template says arrives", func() bool {
		return n.Labels["keep"] == "1" && n.Labels["drop"] == "1" && n.Annotations["keep"] == "1" &&
			n.Annotations["drop"] == "1" &&
			slices.Contains(n.Spec.Taints, keep) && slices.Contains(n.Spec.Taints, drop) &&
			n.Labels[machinev1.MachineNameLabel] == m.Name
	})
	s.Expect(s.Edit(s.Context(), n, func() {
		n.Labels["user"], n.Annotations["user"] = "own", "own"
		n.Spec.Taints = append(n.Spec.Taints, own)
		n.Finalizers = append([]string{"test.example/own"}, n.Finalizers...)
	})).To(Succeed())
	// One changes, one goes, one comes; the machine stays.
	changed := keep
	changed.Value = "2"
	added := corev1.Taint{Key: "add", Value: "1", Effect: corev1.TaintEffectNoSchedule}
	s.Expect(s.Edit(s.Context(), d, func() {
		t := &d.Spec.Template.Spec.NodeTemplateSpec
		t.Labels = map[string]string{"keep": "2", "add": "1"}
		t.Annotations = map[string]string{"keep": "2", "add": "1"}
		t.Spec.Taints = []corev1.Taint{changed, added}
	})).To(Succeed())
	s.nodeSees(n, "what changes in the template arrives", func() bool {
		_, label := n.Labels["drop"]
		_, annotation := n.Annotations["drop"]
		return n.Labels["keep"] == "2" && n.Labels["add"] == "1" && !label && n.Annotations["keep"] == "2" &&
			n.Annotations["add"] == "1" && !annotation &&
			slices.Contains(n.Spec.Taints, changed) && slices.Contains(n.Spec.Taints, added) && len(givenTaints(n)) == 3
	})
	survives := func() bool {
		return n.Labels["user"] == "own" && n.Annotations["user"] == "own" && slices.Contains(n.Spec.Taints, own) &&
			slices.Contains(n.Finalizers, "test.example/own") && slices.Contains(n.Finalizers, machinev1.NodeFinalizer)
	}
	s.Expect(survives()).To(BeTrue(), "what the user put onto the node is the user's: %v %v %v", n.Labels, n.Spec.Taints,
		n.Finalizers)
	// What somebody else takes away comes back.
	s.Expect(s.Edit(s.Context(), n, func() {
		delete(n.Labels, "add")
		n.Annotations["keep"] = "bent"
		n.Spec.Taints = []corev1.Taint{own}
	})).To(Succeed())
	s.nodeSees(n, "the template wins", func() bool {
		return n.Labels["add"] == "1" && n.Annotations["keep"] == "2" && slices.Contains(n.Spec.Taints, changed) &&
			slices.Contains(n.Spec.Taints, added)
	})
	s.Expect(survives()).To(BeTrue())
	s.Expect(s.Edit(s.Context(), d, func() {
		d.Spec.Template.Spec.NodeTemplateSpec = machinev1.NodeTemplateSpec{}
	})).To(Succeed())
	s.nodeSees(n, "an empty template leaves what is the user's", func() bool {
		return n.Labels["keep"] == "" && n.Labels["add"] == "" && n.Annotations["add"] == "" &&
			slices.Equal(givenTaints(n), []corev1.Taint{own})
	})
	s.Expect(survives()).To(BeTrue())
	s.Expect(s.running(1)[0].UID).To(Equal(m.UID), "no machine is replaced for that")
	s.Expect(s.Edit(s.Context(), n, func() {
		n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == "test.example/own" })
	})).To(Succeed())
}

func nodeFollowsVirtualCapacity(s *env) {
	gadgets, widgets := corev1.ResourceName("example.com/gadgets"), corev1.ResourceName("example.com/widgets")
	virtual := func(c *machinev1.MachineClass, list map[corev1.ResourceName]string) {
		c.NodeTemplate.VirtualCapacity = nil
		for name, amount := range list {
			if c.NodeTemplate.VirtualCapacity == nil {
				c.NodeTemplate.VirtualCapacity = corev1.ResourceList{}
			}
			c.NodeTemplate.VirtualCapacity[name] = resource.MustParse(amount)
		}
	}
	s.class(func(c *machinev1.MachineClass, _ *corev1.Secret) {
		virtual(c, map[corev1.ResourceName]string{gadgets: "3"})
	})
	s.pool(1)
	m := &s.running(1)[0]
	n := s.node(m)
	has := func(name corev1.ResourceName, amount string) bool {
		q, ok := n.Status.Capacity[name]
		return ok == (amount != "") && (!ok || q.String() == amount)
	}
	s.nodeSees(n, "virtual capacity arrives", func() bool { return has(gadgets, "3") && has(corev1.ResourceCPU, "2") })
	class := &machinev1.MachineClass{ObjectMeta: s.meta(s.name)}
	s.Expect(s.Edit(s.Context(), class, func() {
		virtual(class, map[corev1.ResourceName]string{gadgets: "5", widgets: "1"})
	})).To(Succeed())
	s.nodeSees(n, "virtual capacity changes", func() bool { return has(gadgets, "5") && has(widgets, "1") })
	s.Expect(s.Edit(s.Context(), class, func() {
		virtual(class, map[corev1.ResourceName]string{widgets: "1"})
	})).To(Succeed())
	s.nodeSees(n, "a resource that is taken out goes", func() bool { return has(gadgets, "") && has(widgets, "1") })
	s.Expect(s.Edit(s.Context(), class, func() { virtual(class, nil) })).To(Succeed())
	s.nodeSees(n, "virtual capacity goes, and the real one stays", func() bool {
		_, noted := n.Annotations[machinev1.LastAppliedVirtualCapacityAnnotation]
		return has(widgets, "") && has(corev1.ResourceCPU, "2") && !noted
	})
	s.Expect(s.running(1)[0].UID).To(Equal(m.UID))
}
