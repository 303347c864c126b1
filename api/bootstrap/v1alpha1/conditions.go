package v1alpha1

// SpecUnchangedCondition of a MCMConfigTemplate is False once its spec was edited
// in place, which no machine that exists follows.
const SpecUnchangedCondition = "SpecUnchanged"

// Its reasons.
const (
	ReasonUnchanged     = "Unchanged"
	ReasonEditedInPlace = "EditedInPlace"
)

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
