package v1alpha1

// SpecUnchangedCondition of an MCMConfigTemplate is False after its spec was edited
// in place, which existing machines do not follow.
const SpecUnchangedCondition = "SpecUnchanged"

// Reasons of SpecUnchanged.
const (
	ReasonUnchanged     = "Unchanged"
	ReasonEditedInPlace = "EditedInPlace"
)

// Reasons of the condition Ready of an MCMConfig, besides those in
// api/machine/v1alpha1/conditions.go. They are output: no controller decides
// anything from them.
const (
	ReasonDataSecretAvailable    = "DataSecretAvailable"
	ReasonWaitingForMachine      = "WaitingForMachine"
	ReasonWaitingForCluster      = "WaitingForCluster"
	ReasonWaitingForInfra        = "WaitingForClusterInfrastructure"
	ReasonWaitingForControlPlane = "WaitingForControlPlaneInitialized"
	ReasonWaitingForConnection   = "WaitingForConnection" // to the workload cluster
	ReasonSecretNotAllowed       = "SecretNotAllowed"     // the Secret does not allow the namespace of the class
	ReasonDataSecretNameTaken    = "DataSecretNameTaken"
	ReasonBootstrapTokenExpired  = "BootstrapTokenExpired"
	ReasonTokenForbidden         = "BootstrapTokenForbidden" // the workload cluster refuses the bootstrap token
)
