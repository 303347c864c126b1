package integration

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// csiDriver is whose volumes the simulated cloud knows.
const csiDriver = "disk.csi.sim"

// disk makes a PersistentVolume, bound to a claim of the same name, and returns
// a change of a pod that uses it.
func (t *trial) disk(name string) func(*corev1.Pod) {
	t.Helper()
	name = t.name + "-" + name
	storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: stack.Namespace}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: modes, VolumeName: name,
		Resources: corev1.VolumeResourceRequirements{Requests: storage},
	}
	t.Expect(t.Client.Create(t.Context(), claim)).To(Succeed())
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec = corev1.PersistentVolumeSpec{
		Capacity: storage, AccessModes: modes,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
	}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: handle(name)}
	pv.Spec.ClaimRef = &corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", Namespace: stack.Namespace, Name: name,
		UID: claim.UID,
	}
	t.Expect(t.Client.Create(t.Context(), pv)).To(Succeed())
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
}

func handle(disk string) string { return "vol-" + disk }

// attach plays the attacher: a disk is attached to a node.
func (t *trial) attach(name, node string) *storagev1.VolumeAttachment {
	t.Helper()
	disk := t.name + "-" + name
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: disk + "-" + node}}
	va.Spec = storagev1.VolumeAttachmentSpec{
		Attacher: csiDriver, NodeName: node,
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &disk},
	}
	t.Expect(t.Client.Create(t.Context(), va)).To(Succeed())
	before := va.DeepCopy()
	va.Status.Attached = true
	t.Expect(t.Client.Status().Patch(t.Context(), va, client.MergeFrom(before))).To(Succeed())
	return va
}

// onNode plays the attach-detach controller: a node has exactly these disks.
func (t *trial) onNode(name string, disks ...string) {
	t.Helper()
	node := &corev1.Node{}
	t.Expect(t.Client.Get(t.Context(), client.ObjectKey{Name: name}, node)).To(Succeed())
	before := node.DeepCopy()
	node.Status.VolumesAttached = nil
	for _, d := range disks {
		node.Status.VolumesAttached = append(node.Status.VolumesAttached,
			corev1.AttachedVolume{Name: corev1.UniqueVolumeName("kubernetes.io/csi/" + csiDriver + "^" + handle(t.name+"-"+d))})
	}
	t.Expect(t.Client.Status().Patch(t.Context(), node, client.MergeFrom(before))).To(Succeed())
}

// volumesOneByOne: pods with volumes leave one after the other, the most
// important first; the next goes when the volume of the last is elsewhere.
func (t *trial) volumesOneByOne() {
	class := t.class("v1")
	m := t.machine(class, "m")
	node := m.Labels[machinev1.NodeLabel]
	important := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: t.name}, Value: 1000}
	t.Expect(t.Client.Create(t.Context(), important)).To(Succeed())
	low := t.pod("a-low", node, t.disk("low"))
	high := t.pod("b-high", node, t.disk("high"), func(p *corev1.Pod) { p.Spec.PriorityClassName = important.Name })
	plain := t.pod("c-plain", node)
	t.runs(low)
	t.runs(high)
	t.runs(plain)
	t.onNode(node, "low", "high")
	attached := map[string]*storagev1.VolumeAttachment{"low": t.attach("low", node), "high": t.attach("high", node)}
	t.deleting(m)

	waits := func(stays *corev1.Pod, reason, disk string) {
		t.Helper()
		t.says(m, machinev1.ConditionDrained, metav1.ConditionFalse, reason, t.name+"-"+disk)
		if stays != nil {
			t.Expect(t.Client.Get(t.Context(), client.ObjectKeyFromObject(stays), stays)).To(Succeed())
			t.Expect(stays.DeletionTimestamp).To(BeNil(), "its turn has not come")
		}
	}
	t.goes(high)
	t.goes(plain) // pods without volumes do not wait
	waits(low, machinev1.ReasonDetachingVolumes, "high")
	t.onNode(node, "low")
	t.remove(attached["high"])
	waits(low, "ReattachingVolumes", "high")
	t.attach("high", "elsewhere")
	t.goes(low)
	waits(nil, machinev1.ReasonDetachingVolumes, "low")
	t.onNode(node)
	t.remove(attached["low"])
	waits(nil, "ReattachingVolumes", "low")
	t.attach("low", "elsewhere")
	t.goes(m)
}

// volumesAfterForce: a forced drain frees the volumes for other nodes at once.
func (t *trial) volumesAfterForce() {
	m := t.machine(t.class("v1"), "m", func(m *machinev1.Machine) { m.Labels[machinev1.ForceDeletionLabel] = "true" })
	node := m.Labels[machinev1.NodeLabel]
	p := t.pod("p", node, t.disk("d"))
	t.runs(p)
	t.onNode(node, "d")
	va := t.attach("d", node)
	t.remove(m)
	t.goes(p)
	t.goes(va)
}
