package v1alpha1

// Reasons of the condition Ready of a MCMConfig, besides those of the native
// door in api/machine/v1alpha1/conditions.go. They are output: nothing is
// decided from them.
const (
	ReasonDataSecretAvailable    = "DataSecretAvailable"
	ReasonWaitingForMachine      = "WaitingForMachine"
	ReasonWaitingForCluster      = "WaitingForCluster"
	ReasonWaitingForInfra        = "WaitingForClusterInfrastructure"
	ReasonWaitingForControlPlane = "WaitingForControlPlaneInitialized"
	ReasonWaitingForConnection   = "WaitingForConnection" // to the workload cluster
	ReasonSecretNotAllowed       = "SecretNotAllowed"     // it does not allow the namespace of the class
	ReasonDataSecretNameTaken    = "DataSecretNameTaken"
	ReasonBootstrapTokenExpired  = "BootstrapTokenExpired"
	ReasonTokenForbidden         = "BootstrapTokenForbidden" // the workload cluster does not let us make it
)
