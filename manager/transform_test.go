package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStripPod(t *testing.T) {
	t.Parallel()
	claim := corev1.Volume{
		Name:         "c",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
	}
	owner := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r"}}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "u", Labels: map[string]string{"a": "b"}, OwnerReferences: owner,
			ManagedFields: []metav1.ManagedFieldsEntry{{}},
			Annotations:   map[string]string{corev1.MirrorPodAnnotationKey: "m", "big": "x"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", Priority: new(int32(5)), TerminationGracePeriodSeconds: new(int64(30)),
			Containers: []corev1.Container{{Name: "c"}},
			Volumes:    []corev1.Volume{{Name: "e"}, claim},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "1.2.3.4", ContainerStatuses: []corev1.ContainerStatus{{}}},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "u", Labels: map[string]string{"a": "b"}, OwnerReferences: owner,
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "m"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", Priority: new(int32(5)), TerminationGracePeriodSeconds: new(int64(30)),
			Volumes: []corev1.Volume{claim},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for range 2 { // a cache may strip an object again
		got, err := stripPod(p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a pod keeps what draining looks at, and no more (-want +got):\n%s", diff)
		}
	}
}

func TestStripNode(t *testing.T) {
	t.Parallel()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Finalizers: []string{"f"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k"}}},
	}
	want := n.DeepCopy()
	n.Status.Images = []corev1.ContainerImage{{}}
	n.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	got, err := stripNode(n)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a node keeps all but images and managed fields (-want +got):\n%s", diff)
	}
}

func TestStripOther(t *testing.T) {
	t.Parallel()
	for _, strip := range []func(any) (any, error){stripObject, stripPod, stripNode} {
		if got, err := strip("tombstone"); got != "tombstone" || err != nil {
			t.Errorf("what is no object stays: %v %v", got, err)
		}
	}
}
