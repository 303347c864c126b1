package nodetemplate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// ApplyMCMMachine is Apply for spec.nodeTemplate of an MCMMachine. What was applied
// is recorded in MCM's form, so that a Node that is migrated between the two APIs
// keeps nothing that no template asks for. Unlike Apply it records no empty
// template: most MCMMachines have none.
func ApplyMCMMachine(node *corev1.Node, template *infrav1.NodeTemplate) (*corev1.Node, []Problem) {
	t := &machinev1.NodeTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations},
		Spec:       corev1.NodeSpec{Taints: template.CoreTaints()},
	}
	want, problems := Apply(node, t, Fields{
		Labels: "spec.nodeTemplate.labels", Annotations: "spec.nodeTemplate.annotations",
		Taints: "spec.nodeTemplate.taints",
	})
	if Empty(t) {
		delete(want.Annotations, machinev1.LastAppliedNodeTemplateAnnotation)
	}
	return want, problems
}

// Invalid joins the texts of the problems that are the template's own; empty if
// there are none.
func Invalid(problems []Problem) string {
	var texts []string
	for _, p := range problems {
		if !p.Note {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "; ")
}
