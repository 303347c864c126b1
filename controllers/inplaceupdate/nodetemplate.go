package inplaceupdate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
)

// invalid says what of a template could never reach a Node; empty if nothing. A
// Machine that has begun its update cannot be given another template, so that is
// found out before.
func invalid(t *infrav1.NodeTemplate) string {
	_, problems := applied(&corev1.Node{}, t)
	return problems
}

// synced reports whether the Node is as the template wants it. The MCMMachine's
// controller makes it so.
func synced(node *corev1.Node, t *infrav1.NodeTemplate) bool {
	want, _ := applied(node, t)
	return equality.Semantic.DeepEqual(want, node)
}

// applied returns the Node as the MCMMachine's controller would write it, and
// what keeps a part of the template from reaching it.
func applied(node *corev1.Node, t *infrav1.NodeTemplate) (*corev1.Node, string) {
	template := &machinev1.NodeTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations},
		Spec:       corev1.NodeSpec{Taints: t.Taints},
	}
	want, problems := nodetemplate.Apply(node, template, nodetemplate.Fields{
		Labels: "spec.nodeTemplate.labels", Annotations: "spec.nodeTemplate.annotations", Taints: "spec.nodeTemplate.taints",
	})
	if nodetemplate.Empty(template) {
		delete(want.Annotations, machinev1.LastAppliedNodeTemplateAnnotation)
	}
	var texts []string
	for _, p := range problems {
		if !p.Note {
			texts = append(texts, p.Text)
		}
	}
	return want, strings.Join(texts, "; ")
}
