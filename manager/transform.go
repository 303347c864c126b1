package manager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a cache does not keep. Everything that is written back is kept whole:
// patches are made from what changed, and what both sides lack does not change.

// stripObject drops who wrote which field of an object.
func stripObject(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// stripSecret keeps the metadata of a Secret. Whole Secrets are never watched, but what
// kubectl applied is in an annotation, too.
func stripSecret(o any) (any, error) {
	if s, ok := o.(*corev1.Secret); ok {
		s.Data = nil
	}
	if m, ok := o.(metav1.Object); ok {
		delete(m.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return stripObject(o)
}

// stripNode also drops the list of images, most of a node's size.
func stripNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.Status.Images = nil
	}
	return stripObject(o)
}

// stripPod keeps what draining a node looks at: who owns the pod, which volumes
// it uses, in which order it goes, and whether it is gone or ready.
func stripPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	mirror, isMirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	p.Annotations = nil
	if isMirror {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirror}
	}
	p.Spec = corev1.PodSpec{
		NodeName: p.Spec.NodeName, Volumes: claimsOnly(p.Spec.Volumes), Priority: p.Spec.Priority,
		PriorityClassName: p.Spec.PriorityClassName, TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds,
	}
	p.Status = corev1.PodStatus{Phase: p.Status.Phase, Conditions: p.Status.Conditions}
	return stripObject(o)
}

// claimsOnly are the volumes that can be attached to a node.
func claimsOnly(volumes []corev1.Volume) []corev1.Volume {
	return slices.DeleteFunc(volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim == nil && v.Ephemeral == nil
	})
}
