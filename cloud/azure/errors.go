package azure

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Codes of Azure that the driver looks for itself.
const (
	codeReserved    = "NicReservedForAnotherVm"
	codeNotAllowed  = "OperationNotAllowed"
	codeConflict    = "Conflict"
	codeAnotherGoes = "AnotherOperationInProgress"
	codePreempted   = "OperationPreempted"
	codeTerms       = "MarketplacePurchaseEligibilityFailed" // they are not accepted
	codeDiskTaken   = "ConflictingUserInput"                 // also of a disk that another VM has
	codeNICTaken    = "NicInUse"
	codeNoReference = "InvalidResourceReference"
	codeNoPlan      = "VMMarketplaceInvalidInput"
)

// codeNameTaken is the driver's own: somebody else has the name of a VM or disk.
const codeNameTaken = "NameTaken"

// imageRemedy is for an image that a class names and the cloud does not know.
const imageRemedy = "name an image that exists and may be read"

// table is what the errors of Azure mean: "Common error codes" of Resource Manager and of
// allocation failures, and the quota texts that come with OperationNotAllowed.
var table = driverkit.Table{
	{Status: http.StatusTooManyRequests, Means: cloud.Throttled},
	{Codes: []string{"TooManyRequests"}, Means: cloud.Throttled},
	{
		Codes: []string{
			"ZonalAllocationFailed", "OverconstrainedZonalAllocationRequest", "AllocationFailed",
			"OverconstrainedAllocationRequest", "SkuNotAvailable",
		}, Means: cloud.Exhausted,
		Scope: driverkit.ScopeZone,
	},
	{
		Codes: []string{codeNotAllowed}, Texts: []string{"quota", "cores"}, Means: cloud.Exhausted, Reason: "QuotaExceeded",
		Scope: driverkit.ScopeRegion,
	},
	{Codes: []string{"ResourceQuotaExceeded", "QuotaExceeded"}, Means: cloud.Exhausted, Scope: driverkit.ScopeRegion},
	{Codes: []string{"SubnetIsFull", "InsufficientSubnetSize", "PublicIPCountLimitReached"}, Means: cloud.Exhausted},
	{Codes: []string{"BadRequest"}, Texts: []string{"not supported"}, Means: cloud.Exhausted, Scope: driverkit.ScopeZone},
	{Codes: []string{codeNotAllowed}, Texts: []string{"rate"}, Means: cloud.Throttled},

	{Codes: []string{
		"invalid_client", "unauthorized_client", "invalid_request", "invalid_grant", "AuthorizationFailed",
		"LinkedAuthorizationFailed", "RequestDisallowedByPolicy", "SubscriptionNotFound", "ReadOnlyDisabledSubscription",
		"InvalidAuthenticationToken*", "AuthenticationFailed",
		"ScopeLocked", "MissingSubscriptionRegistration", "SubscriptionNotRegistered", // only a person mends these
	}, Means: cloud.Denied},
	{Codes: []string{"PropertyChangeNotAllowed"}, Means: cloud.TokenUsed},
	{Status: http.StatusPreconditionFailed, Means: cloud.Unavailable},
	{
		Codes: []string{
			codeAnotherGoes, codeConflict, codePreempted, codeReserved, codeDiskTaken, codeNICTaken, "RetryableError", "InUse*",
		}, Means: cloud.Unavailable,
	},

	{
		Codes: []string{"ImageNotFound", "PlatformImageNotFound", "GalleryImageNotFound"}, Means: cloud.Invalid,
		Field: "properties.storageProfile.imageReference", Remedy: imageRemedy,
	},
	{
		Codes: []string{codeTerms}, Means: cloud.Invalid, Field: "properties.storageProfile.imageReference",
		Remedy: "accept the terms of the image for the subscription, e.g. with az vm image terms accept",
	},
	{
		Codes: []string{codeNoPlan}, Means: cloud.Invalid,
		Field:  "properties.storageProfile.imageReference",
		Remedy: "remove skipMarketplaceAgreement, with which no plan is sent",
	},
	notFound("/backendaddresspools/", "properties.networkProfile.loadBalancerPoolIDs", "a pool"),
	notFound("/networksecuritygroups/", "properties.networkProfile.securityGroupID", "a security group"),
	notFound("/availabilitysets/", "properties.availabilitySet.id", "an availability set"),
	notFound("/virtualmachinescalesets/", "properties.virtualMachineScaleSet.id", "a scale set"),
	notFound("/capacityreservationgroups/", "properties.capacityReservation.capacityReservationGroupID", "a group"),
	notFound("/userassignedidentities/", "properties.identityID", "an identity"),
	notFound("/subnets/", "subnetInfo", "a subnet"),
	notFound("/virtualnetworks/", "subnetInfo", "a network"),
	{Codes: []string{codeNoReference}, Means: cloud.Invalid},
	{Codes: []string{"SubnetNotFound"}, Means: cloud.Invalid, Field: "subnetInfo", Remedy: "name a subnet that exists"},
	{
		Codes: []string{"InvalidAvailabilityZone", "AvailabilityZoneNotSupported"}, Means: cloud.Invalid,
		Field: "properties.zone", Remedy: "name a zone of the region, e.g. 1",
	},
	{Status: http.StatusNotFound, Means: cloud.NotFound},
	{Status: http.StatusConflict, Means: cloud.Unavailable},
	{Status: http.StatusBadRequest, Means: cloud.Invalid},
}

// notFound is the row of an answer that says that one resource refers to another one which is not there. The
// cloud names it by its id, of which this is a part.
func notFound(part, field, what string) driverkit.Row {
	return driverkit.Row{
		Codes: []string{codeNoReference}, Texts: []string{part}, Means: cloud.Invalid, Field: field,
		Remedy: "name " + what + " that exists in the region",
	}
}

// refusal reads an error of Resource Manager. One of a whole deployment has the code that
// counts in its details.
func refusal(body []byte) (code, message string) {
	type said struct{ Code, Message string }
	var answer struct {
		said
		Error struct {
			said
			Details []said
		}
	}
	_ = json.Unmarshal(body, &answer) // what is none of the cloud's is not quoted
	e := answer.Error
	switch {
	case e.Code == "":
		return answer.Code, answer.Message
	case e.Code == "DeploymentFailed" && len(e.Details) > 0:
		return e.Details[0].Code, e.Details[0].Message
	}
	return e.Code, e.Message
}

// refused adds to the error of a creation what is exhausted.
func (s *spec) refused(r cloud.CreateRequest, err error) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case cloud.Exhausted:
		e.Offering = driverkit.ScopeOf(e).Of(s.offering(s.zoneFor(r)))
	case cloud.NotFound: // of something that the class names
		e.Code = cloud.Invalid
	case cloud.Unknown, cloud.Invalid, cloud.Denied, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return reserved(e)
}

// reserved adds to an error when a network interface is free again that a VM was to have
// which could not be made.
func reserved(e *cloud.Error) *cloud.Error {
	if e != nil && e.Reason == codeReserved {
		e.RetryAfter = max(e.RetryAfter, nicReservation)
	}
	return e
}
