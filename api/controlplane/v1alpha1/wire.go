package v1alpha1

// Annotations that only the controller of MCMExternalControlPlanes reads and
// writes.
const (
	// HomeAnnotation on a self-hosted MCMExternalControlPlane is the UID of the
	// namespace kube-system of the cluster that it means. After a move to another
	// management cluster that is still the one that it came from.
	HomeAnnotation = "mcm.cluster.x-k8s.io/self-hosted-in"
	// FilledEndpointAnnotation on a MCMExternalControlPlane is the endpoint that was
	// filled in from the kubeconfig. Another one in the spec is the user's.
	FilledEndpointAnnotation = "mcm.cluster.x-k8s.io/endpoint-from-kubeconfig"
	// MadeForAnnotation on ServiceAccounts, roles and bindings is the namespace and
	// name of the MCMExternalControlPlane that they were made for.
	MadeForAnnotation = "mcm.cluster.x-k8s.io/made-for"
	// RenewTokenAnnotation on a kubeconfig Secret is when its token is to be renewed.
	RenewTokenAnnotation = "mcm.cluster.x-k8s.io/renew-token-at"
	// TokenOfAnnotation on a kubeconfig Secret is the UID of the ServiceAccount that
	// its token is bound to.
	TokenOfAnnotation = "mcm.cluster.x-k8s.io/token-of"
)
