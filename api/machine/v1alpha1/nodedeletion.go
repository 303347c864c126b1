package v1alpha1

import corev1 "k8s.io/api/core/v1"

// NodeDeletionAnnotation on a Node that is being deleted says what its Machine does about
// that, where many Nodes are deleted together: [NodeDeletionHeld] or [NodeDeletionApproved].
const NodeDeletionAnnotation = "mcm.cluster.x-k8s.io/node-deletion"

// Values of [NodeDeletionAnnotation].
const (
	NodeDeletionHeld     = "held"     // by the manager: the Machine stays for now
	NodeDeletionApproved = "approved" // by a person: the Machine is deleted
)

// IsNodeDeletionHeld reports whether the Machine of a Node that is being deleted stays for
// now. A nil Node is not held.
func IsNodeDeletionHeld(node *corev1.Node) bool {
	return node != nil && !node.DeletionTimestamp.IsZero() && node.Annotations[NodeDeletionAnnotation] == NodeDeletionHeld
}
