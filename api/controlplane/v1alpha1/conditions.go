package v1alpha1

// Conditions of a MCMExternalControlPlane, besides Available, Ready and Paused,
// which are Cluster API's. They are output: nothing is decided from them.
const (
	// KubeconfigReadyCondition reports whether the Secret with the kubeconfig of the
	// Cluster is as it should be.
	KubeconfigReadyCondition = "KubeconfigReady"
	// KubeletVersionsMatchCondition is False while a Machine has another version in
	// its spec than its kubelet reports: Cluster API never takes it for up to date.
	KubeletVersionsMatchCondition = "KubeletVersionsMatch"
)

// Reasons of the conditions above, of Available and of Ready. Those that the
// native door has too stand in api/machine/v1alpha1/conditions.go.
const (
	ReasonKubeconfigReady   = "KubeconfigReady"
	ReasonKubeconfigRefused = "KubeconfigRefused" // its content
	ReasonSecretNameTaken   = "KubeconfigSecretNameTaken"
	ReasonIdentityTaken     = "IdentityNameTaken"
	ReasonTokenNotRenewed   = "TokenNotRenewed"
	ReasonForbidden         = "Forbidden" // this manager lacks rights in its own cluster
	ReasonMovedAway         = "SelfHostedElsewhere"
	ReasonWaitingForCluster = "WaitingForCluster"
	ReasonWaitingForInfra   = "WaitingForClusterInfrastructure"
	ReasonConnected         = "Connected"
	ReasonNotConnected      = "NotConnected"
	ReasonVersionsMatch     = "VersionsMatch"
	ReasonVersionsDiffer    = "VersionsDiffer"
)
