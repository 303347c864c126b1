package v1alpha1

// Conditions of the kinds of this group, besides Ready, Paused and Deleting,
// which are Cluster API's. They are output: no controller decides anything from
// them.
const (
	// VMProvisionedCondition of an MCMMachine reports whether its VM is running. Ready
	// follows it.
	VMProvisionedCondition = "VMProvisioned"
	// CloudReachableCondition of an MCMMachine reports whether the cloud can be
	// reached. Ready does not depend on it once the VM has been created.
	CloudReachableCondition = "CloudReachable"
	// CredentialsAvailableCondition of an MCMMachine reports whether the cloud accepts
	// the credentials of the class. Ready does not depend on it once the VM has been
	// created.
	CredentialsAvailableCondition = "CredentialsAvailable"
	// NodeSyncedCondition of an MCMMachine reports whether spec.nodeTemplate is applied
	// to the Node. It is absent where the template is empty.
	NodeSyncedCondition = "NodeSynced"
	// IPAddressesClaimedCondition of an MCMMachine reports whether its IPAddressClaims
	// have the addresses that the VM is created with. It is absent where spec.network
	// names no pool.
	IPAddressesClaimedCondition = "IPAddressesClaimed"
	// TagsUpdatedCondition of an MCMMachine is False while the tags of the VM cannot be
	// changed to those of the class. It is absent otherwise.
	TagsUpdatedCondition = "TagsUpdated"
	// BootDataRemovedCondition of an MCMMachine is False while the boot data that the cloud
	// keeps of its VM cannot be removed although the node has joined. It is absent otherwise.
	BootDataRemovedCondition = "BootDataRemoved"
	// LoadBalancerRegisteredCondition of an MCMMachine reports whether its VM is registered
	// with the load balancers that its class names. It is absent where the class names none.
	LoadBalancerRegisteredCondition = "LoadBalancerRegistered"
	// UpdatedInPlaceCondition of an MCMMachine is False after an in-place update has
	// failed. It is absent where none ever has.
	UpdatedInPlaceCondition = "UpdatedInPlace"
	// CapacityKnownCondition of an MCMMachineTemplate reports whether its status has
	// the capacity of a node.
	CapacityKnownCondition = "CapacityKnown"
	// SpecUnchangedCondition of an MCMMachineTemplate is False after its spec was
	// edited in place, which existing machines do not follow.
	SpecUnchangedCondition = "SpecUnchanged"

	// RemediatedCondition of an MCMRemediation reports whether the Machine is healthy again.
	RemediatedCondition = "Remediated"

	// FailureDomainsOfferedCondition of an MCMCluster reports whether a MachineClass of the
	// Cluster can honour each of the spec's failure domains.
	FailureDomainsOfferedCondition = "FailureDomainsOffered"
	// KubeconfigSafeCondition of an MCMCluster is False while the kubeconfig of the Cluster is
	// not used, or is used although its server need not prove who it is. Ready does not
	// depend on it. It is absent where there is no kubeconfig.
	KubeconfigSafeCondition = "KubeconfigSafe"
)

// Reasons of the conditions above, of Ready and of Deleting. Those that the native
// API has too are in api/machine/v1alpha1/conditions.go.
const (
	ReasonProvisioned          = "Provisioned"
	ReasonWaitingForMachine    = "WaitingForMachine"
	ReasonWaitingForCluster    = "WaitingForCluster"
	ReasonWaitingForInfra      = "WaitingForClusterInfrastructure"
	ReasonWaitingForEndpoint   = "WaitingForControlPlaneEndpoint"
	ReasonWaitingForBootstrap  = "WaitingForBootstrapData"
	ReasonWaitingForAddresses  = "WaitingForAddresses"
	ReasonWaitingForClass      = "WaitingForClassProtection"
	ReasonBootstrapNotFound    = "BootstrapDataNotFound"
	ReasonInvalidBootstrapData = "InvalidBootstrapData"
	ReasonPlainBootData        = "PlainBootData" // private keys that others than the guest could read
	ReasonSecretNotAllowed     = "SecretNotAllowed"
	ReasonInstanceNotFound     = "InstanceNotFound"
	ReasonInstanceDeleting     = "InstanceDeleting"
	ReasonOwnerIDTaken         = "OwnerIDTaken"
	ReasonClassChanged         = "ClassChanged"
	ReasonReachable            = "Reachable"
	ReasonAccepted             = "Accepted"
	ReasonNodeSynced           = "NodeSynced"
	ReasonNodeTemplateInvalid  = "NodeTemplateInvalid"
	ReasonNodeRefused          = "NodeRefused"
	ReasonUpdatedInPlace       = "UpdatedInPlace"
	ReasonNodeAgentFailed      = "NodeAgentFailed"
	ReasonNodeAgentTimedOut    = "NodeAgentTimedOut"
	ReasonUpdateImpossible     = "UpdateImpossible"
	ReasonDeleting             = "Deleting"
	ReasonWaitingForMachines   = "WaitingForMachines"
	ReasonCapacityOfClass      = "CapacityOfClass"
	ReasonCapacityOfCloud      = "CapacityOfCloud"
	ReasonUnchanged            = "Unchanged"
	ReasonEditedInPlace        = "EditedInPlace"
	ReasonReady                = "Ready"
	ReasonOffered              = "Offered"
	ReasonZoneNotInClass       = "ZoneNotInClass"
	ReasonClassNotKnown        = "ClassNotKnown"
	ReasonKubeconfigSafe       = "KubeconfigSafe"
	ReasonKubeconfigRefused    = "KubeconfigRefused" // it names files or programs of the manager, or cannot be read
	ReasonServerNotVerified    = "ServerNotVerified"

	ReasonIPAddressesClaimed    = "IPAddressesClaimed"
	ReasonWaitingForIPAddresses = "WaitingForIPAddresses"
	ReasonIPAddressClaimFailed  = "IPAddressClaimFailed"
	ReasonIPAMNotServed         = "IPAMNotServed"
	ReasonIPAddressLost         = "IPAddressLost"
	ReasonNoStaticAddresses     = "StaticAddressesNotSupported"
)

// Reasons of Remediated, and of ExternallyRemediated of the Machine.
const (
	ReasonMachineHealthy        = "MachineHealthy" // True
	ReasonWaitingForHealthCheck = "WaitingForHealthCheck"
	ReasonMachineDeleting       = "MachineDeleting" // Cluster API replaces it anyway
	ReasonRebooted              = "Rebooted"        // the node has time to become healthy
	ReasonRebootUncertain       = "RebootUncertain" // the answer was lost
	ReasonRemediationHeld       = "RemediationHeld" // by a person or an update in place
	ReasonOutage                = "Outage"          // nodes became unhealthy together
	ReasonNotReachable          = "ClusterNotReachable"
	ReasonRetriesUsedUp         = "RetriesUsedUp"   // from here on the Machine is handed over
	ReasonCooldown              = "CooldownNotOver" // rebooted a short time ago, and unhealthy again
	ReasonNeverJoined           = "NodeNeverJoined" // a reboot runs no boot data
	ReasonNodeDeleted           = "NodeDeleted"     //
	ReasonNotRebootable         = "VMNotRebootable" // gone, failed, or the cloud refuses
	ReasonOtherInfra            = "NoMCMMachine"    // of another provider
)
