package inframachine

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
)

// templateFields is where an MCMMachine has its template.
var templateFields = nodetemplate.Fields{
	Labels: "spec.nodeTemplate.labels", Annotations: "spec.nodeTemplate.annotations", Taints: "spec.nodeTemplate.taints",
}

func empty(t *infrav1.NodeTemplate) bool {
	return len(t.Labels) == 0 && len(t.Annotations) == 0 && len(t.Taints) == 0
}

// desired returns the Node as the template wants it, and what of that cannot be
// had. What was applied is noted in the form of the native API, so that a Node that
// moves between the APIs keeps nothing that no template asks for. Unlike there, a template that
// asks for nothing leaves no note: most machines here have none.
func desired(node *corev1.Node, t *infrav1.NodeTemplate) (*corev1.Node, []nodetemplate.Problem) {
	template := &machinev1.NodeTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations},
		Spec:       corev1.NodeSpec{Taints: t.CoreTaints()},
	}
	want, problems := nodetemplate.Apply(node, template, templateFields)
	if empty(t) {
		delete(want.Annotations, machinev1.LastAppliedNodeTemplateAnnotation)
	}
	return want, problems
}

// templateProblems returns what of the template does not reach the Node, for the
// condition. A repaired record of what was applied is an Event, once.
func templateProblems(p *pass, problems []nodetemplate.Problem) (texts string) {
	var invalid []string
	for _, problem := range problems {
		if problem.Note {
			warn(p, eventInvalidNote, problem.Text)
			continue
		}
		invalid = append(invalid, problem.Text)
	}
	return strings.Join(invalid, "; ")
}
