package aws

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Codes of EC2 that more than the table depends on.
const (
	codeInstanceNotFound  = "InvalidInstanceID.NotFound"
	codeInterfaceNotFound = "InvalidNetworkInterfaceID.NotFound"
	codeExpiredToken      = "ExpiredToken"
)

// table is the errors of EC2.
var table = driverkit.Table{
	{Means: cloud.Exhausted, Scope: driverkit.ScopeZone, Codes: []string{
		"InsufficientCapacity", "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacityOnHost",
		"InsufficientReservedInstanceCapacity", "ReservationCapacityExceeded", "SpotMaxPriceTooLow", "UnfulfillableCapacity",
		"VolumeTypeNotAvailableInZone", "Unsupported", // the type is not offered in the zone
	}},
	{Means: cloud.Exhausted, Scope: driverkit.ScopeRegion, Codes: []string{
		"HostLimitExceeded", "InstanceLimitExceeded", "VcpuLimitExceeded", "MaxSpotInstanceCountExceeded",
		"MaxFleetCountExceeded", "PendingVerification",
	}},
	{Means: cloud.Exhausted, Codes: []string{
		"AddressLimitExceeded", "PrivateIpAddressLimitExceeded", "InsufficientVolumeCapacity", "InsufficientAddressCapacity",
		"InsufficientFreeAddressesInSubnet", "VolumeLimitExceeded", "MaxIOPSLimitExceeded", "RouteLimitExceeded",
		"NetworkInterfaceLimitExceeded", "TooManyTargets", "TooManyRegistrationsForTargetId",
	}},
	{Means: cloud.Throttled, Codes: []string{
		"RequestLimitExceeded", "Throttling*", "EC2ThrottledException", "RequestThrottled*", "TooManyRequests*",
		"BandwidthLimitExceeded",
	}},
	{Means: cloud.Unavailable, Codes: []string{
		"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout*", "IncorrectState",
		"IncorrectInstanceState", "VolumeInUse", "InvalidNetworkInterface.InUse", "HealthUnavailable",
		codeInterfaceNotFound, // one of ours that is not shown yet
	}},
	{Means: cloud.Denied, Codes: []string{
		"UnauthorizedOperation", "AccessDenied*", "OptInRequired", "Blocked", "AuthFailure", "InvalidClientTokenId",
		"SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken", "InvalidIdentityToken",
		"IDPRejectedClaim", codeExpiredToken + "*", "RequestExpired",
		"OperationNotPermitted", // e.g. termination protection: somebody has to lift it
	}},
	{Means: cloud.Unavailable, Codes: []string{"InvalidParameterValue"}, Texts: []string{
		"is currently in use", // an interface that is attached, or not shown as loose yet
	}},
	{Means: cloud.NotFound, Codes: []string{codeInstanceNotFound, "InvalidInstanceID.Malformed"}},
	{Means: cloud.TokenUsed, Codes: []string{"IdempotentParameterMismatch", "IdempotentInstanceTerminated"}},
	{Means: cloud.Invalid, Codes: []string{
		"InvalidAMIID.*", "InvalidSubnet*", "InvalidGroup.*", "InvalidGroupId.*", "InvalidSecurityGroupID.*",
		"InvalidKeyPair.*", "InvalidParameter*", "InvalidBlockDeviceMapping", "MissingParameter", "UnknownParameter",
		"InvalidSnapshot.*", "InvalidInstanceType", "InvalidPlacementGroup.*", "InvalidHostID.*",
		"InvalidCapacityReservation*", "InvalidTagKey.*", "InvalidUserData.*", "TagLimitExceeded",
		codeNoTargetGroup, codeInvalidTarget, "ValidationError",
		"SecurityGroupsPerInstanceLimitExceeded", "UnsupportedOperation", "VPCIdNotSpecified",
	}},
}

// refusal is the error of a call of the SDK, whatever the call.
func refusal(ctx context.Context, op string, err error, now time.Time) *cloud.Error {
	var a driverkit.Answer
	var session *cloud.Redactor
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil && r.Response.Response != nil {
		a.Status, a.RetryAfter = r.HTTPStatusCode(), driverkit.RetryAfter(r.Response.Header, now)
		if sent := r.Response.Request; sent != nil {
			session = driverkit.SessionRedactor(sent.Header)
		}
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() != "UnknownError" {
		a.Code, a.Message = api.ErrorCode(), session.Text(api.ErrorMessage())
	}
	if noToken, ok := errors.AsType[*cloud.Error](err); ok { // of identityToken
		return driverkit.WithOp(op, noToken).(*cloud.Error) //nolint:errorlint,forcetypeassert // WithOp returns nothing else
	}
	switch {
	case a.Code != "" || a.Status >= http.StatusMultipleChoices:
		return table.Error(op, a)
	case ctx.Err() == nil && strings.Contains(err.Error(), "get identity: "): // the SDK has no type for it
		return cloud.Errorf(cloud.Denied, op, "NoCredentials",
			"no credentials could be had; put an access key into the Secret or see to the identity of the manager")
	}
	return driverkit.NoAnswer(ctx, op, err)
}

// reading is e as the error of a call that makes nothing; nil if it is nil.
func reading(e *cloud.Error) error {
	if e == nil {
		return nil
	}
	return driverkit.Restrict(e, cloud.NotFound)
}
