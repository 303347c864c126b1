package v1alpha1

// Conditions of an MCMExternalControlPlane, besides Available, Ready and Paused,
// which are Cluster API's. They are output: no controller decides anything from
// them.
const (
	// KubeconfigReadyCondition reports whether the Secret with the kubeconfig of the
	// Cluster is up to date.
	KubeconfigReadyCondition = "KubeconfigReady"
	// KubeletVersionsMatchCondition is False while spec.version of a Machine differs
	// from the version of its kubelet: Cluster API never considers such a Machine up to
	// date.
	KubeletVersionsMatchCondition = "KubeletVersionsMatch"
	// VersionReachedCondition reports whether the API server runs spec.version, or a later
	// one. It is Unknown while the API server does not tell its version.
	VersionReachedCondition = "VersionReached"
	// KubeconfigSafeCondition is False while the server of the kubeconfig need not prove who
	// it is. Ready does not depend on it.
	KubeconfigSafeCondition = "KubeconfigSafe"
)

// Reasons of the conditions above, of Available and of Ready. Those that the native
// API has too are in api/machine/v1alpha1/conditions.go.
const (
	ReasonKubeconfigReady   = "KubeconfigReady"
	ReasonKubeconfigRefused = "KubeconfigRefused" // the kubeconfig in the user's Secret cannot be used
	ReasonSecretNameTaken   = "KubeconfigSecretNameTaken"
	ReasonIdentityTaken     = "IdentityNameTaken"
	ReasonTokenNotRenewed   = "TokenNotRenewed"
	ReasonForbidden         = "Forbidden" // this manager lacks permissions in its own cluster
	ReasonMovedAway         = "SelfHostedElsewhere"
	ReasonWaitingForCluster = "WaitingForCluster"
	ReasonWaitingForInfra   = "WaitingForClusterInfrastructure"
	ReasonConnected         = "Connected"
	ReasonNotConnected      = "NotConnected"
	ReasonVersionsMatch     = "VersionsMatch"
	ReasonVersionsDiffer    = "VersionsDiffer"
	ReasonVersionReached    = "VersionReached"
	ReasonUpgradePending    = "UpgradePending"
	ReasonVersionUnknown    = "VersionUnknown"
	ReasonKubeconfigSafe    = "KubeconfigSafe"
	ReasonServerNotVerified = "ServerNotVerified"
)
