package v1alpha1

// Annotations of external control planes. docs/annotations.md explains all.
const (
	// HomeAnnotation on a self-hosted MCMExternalControlPlane is the UID of the
	// namespace kube-system of its workload cluster. After a move that is still the
	// management cluster that the object was created in.
	HomeAnnotation = "mcm.cluster.x-k8s.io/self-hosted-in"
	// FilledEndpointAnnotation on an MCMExternalControlPlane is the endpoint that
	// the controller filled in from the kubeconfig. Another endpoint in the spec is the
	// user's.
	FilledEndpointAnnotation = "mcm.cluster.x-k8s.io/endpoint-from-kubeconfig"
	// MadeForAnnotation on ServiceAccounts, roles and bindings is the namespace and
	// name of the MCMExternalControlPlane that they were created for.
	MadeForAnnotation = "mcm.cluster.x-k8s.io/made-for"
	// RenewTokenAnnotation on a kubeconfig Secret is when its token has to be renewed.
	RenewTokenAnnotation = "mcm.cluster.x-k8s.io/renew-token-at"
	// TokenOfAnnotation on a kubeconfig Secret is the UID of the ServiceAccount that
	// its token is bound to.
	TokenOfAnnotation = "mcm.cluster.x-k8s.io/token-of"
)
