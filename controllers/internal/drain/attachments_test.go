package drain

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeleteAttachments(t *testing.T) {
	t.Parallel()
	held := attachment("v1", "n", true)
	held.Finalizers = []string{"external-attacher/sim"}
	inline := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "inline"},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: "n"},
	}
	w := newEnv(t, held, inline, attachment("v2", "m", true))
	n := node()
	check := func(why string, want ...string) {
		t.Helper()
		left, err := w.drainer.DeleteAttachments(t.Context(), n)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: DeleteAttachments() = %v, %v", why, left, err)
		}
		var all storagev1.VolumeAttachmentList
		if err := w.Raw.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, va := range all.Items {
			if va.DeletionTimestamp == nil {
				got = append(got, va.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: left %v, want %v", why, got, want)
		}
	}
	check("a node without volumes is left alone", "inline", "v1-n", "v2-m")
	n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "x"}}
	check("all of the node are marked, none of another", "v2-m")
	check("those that are marked are not deleted again", "v2-m")
	if left, err := w.drainer.DeleteAttachments(t.Context(), nil); err != nil || left != nil {
		t.Errorf("DeleteAttachments(no node) = %v, %v", left, err)
	}
}
