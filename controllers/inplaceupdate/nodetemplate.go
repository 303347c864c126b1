package inplaceupdate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
)

// invalid returns what in a template could never reach a Node; empty if there is
// nothing. It is checked before the update begins: from then on the Machine cannot
// be given another template.
func invalid(t *infrav1.NodeTemplate) string {
	_, problems := nodetemplate.ApplyMCMMachine(&corev1.Node{}, t)
	return nodetemplate.Invalid(problems)
}

// synced reports whether the Node is as the template wants it. The MCMMachine's
// controller makes it so.
func synced(node *corev1.Node, t *infrav1.NodeTemplate) bool {
	want, _ := nodetemplate.ApplyMCMMachine(node, t)
	return equality.Semantic.DeepEqual(want, node)
}
