package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Codes of EC2 that more than the table depends on.
//
//nolint:gosec // codes about tokens are no tokens
const (
	codeInstanceNotFound = "InvalidInstanceID.NotFound"
	codeTokenMismatch    = "IdempotentParameterMismatch"
	codeTokenTerminated  = "IdempotentInstanceTerminated"
	codeExpiredToken     = "ExpiredToken"
	codeInvalidParameter = "InvalidParameterValue"
)

// scope is what of an offering is exhausted.
type scope uint8

const (
	scopeNone   scope = iota // something that other types and zones need too
	scopeRegion              // the type in the whole region, e.g. a quota
	scopeZone                // the type in one zone
)

// reaction is what an error of EC2 means for the controllers.
type reaction struct {
	code  cloud.Code
	scope scope // with cloud.Exhausted
}

// reactions is the error table. A key that ends in a star stands for all codes
// with that beginning; a longer key goes before a shorter one.
var reactions = map[string]reaction{
	"InsufficientCapacity":                 {cloud.Exhausted, scopeZone},
	"InsufficientInstanceCapacity":         {cloud.Exhausted, scopeZone},
	"InsufficientHostCapacity":             {cloud.Exhausted, scopeZone},
	"InsufficientReservedInstanceCapacity": {cloud.Exhausted, scopeZone},
	"InsufficientCapacityOnHost":           {cloud.Exhausted, scopeZone},
	"HostLimitExceeded":                    {cloud.Exhausted, scopeRegion},
	"VolumeTypeNotAvailableInZone":         {cloud.Exhausted, scopeZone},
	"AddressLimitExceeded":                 {cloud.Exhausted, scopeNone},
	"PrivateIpAddressLimitExceeded":        {cloud.Exhausted, scopeNone},
	"InsufficientVolumeCapacity":           {cloud.Exhausted, scopeNone},
	"InsufficientAddressCapacity":          {cloud.Exhausted, scopeNone},
	"InsufficientFreeAddressesInSubnet":    {cloud.Exhausted, scopeNone},
	"InstanceLimitExceeded":                {cloud.Exhausted, scopeRegion},
	"VcpuLimitExceeded":                    {cloud.Exhausted, scopeRegion},
	"MaxSpotInstanceCountExceeded":         {cloud.Exhausted, scopeRegion},
	"MaxFleetCountExceeded":                {cloud.Exhausted, scopeRegion},
	"PendingVerification":                  {cloud.Exhausted, scopeRegion},
	"SpotMaxPriceTooLow":                   {cloud.Exhausted, scopeZone},
	"UnfulfillableCapacity":                {cloud.Exhausted, scopeZone},
	"ReservationCapacityExceeded":          {cloud.Exhausted, scopeZone},
	"Unsupported":                          {cloud.Exhausted, scopeZone}, // the type is not offered in the zone
	"VolumeLimitExceeded":                  {cloud.Exhausted, scopeNone},
	"MaxIOPSLimitExceeded":                 {cloud.Exhausted, scopeNone},
	"RouteLimitExceeded":                   {cloud.Exhausted, scopeNone},
	"NetworkInterfaceLimitExceeded":        {cloud.Exhausted, scopeNone},

	"RequestLimitExceeded":   {code: cloud.Throttled},
	"Throttling*":            {code: cloud.Throttled},
	"EC2ThrottledException":  {code: cloud.Throttled},
	"RequestThrottled*":      {code: cloud.Throttled},
	"TooManyRequests*":       {code: cloud.Throttled},
	"BandwidthLimitExceeded": {code: cloud.Throttled},

	"InternalError":                      {code: cloud.Unavailable},
	"InternalFailure":                    {code: cloud.Unavailable},
	"ServiceUnavailable":                 {code: cloud.Unavailable},
	"Unavailable":                        {code: cloud.Unavailable},
	"RequestTimeout*":                    {code: cloud.Unavailable},
	"IncorrectState":                     {code: cloud.Unavailable},
	"IncorrectInstanceState":             {code: cloud.Unavailable},
	"InvalidNetworkInterfaceID.NotFound": {code: cloud.Unavailable}, // one of ours that is not shown yet
	"VolumeInUse":                        {code: cloud.Unavailable},
	"InvalidNetworkInterface.InUse":      {code: cloud.Unavailable},

	"UnauthorizedOperation":      {code: cloud.Denied},
	"AccessDenied*":              {code: cloud.Denied},
	"OptInRequired":              {code: cloud.Denied},
	"Blocked":                    {code: cloud.Denied},
	"AuthFailure":                {code: cloud.Denied},
	"InvalidClientTokenId":       {code: cloud.Denied},
	"SignatureDoesNotMatch":      {code: cloud.Denied},
	"IncompleteSignature":        {code: cloud.Denied},
	"MissingAuthenticationToken": {code: cloud.Denied},
	"InvalidIdentityToken":       {code: cloud.Denied},
	"IDPRejectedClaim":           {code: cloud.Denied},
	codeExpiredToken + "*":       {code: cloud.Denied},
	"RequestExpired":             {code: cloud.Denied},
	"OperationNotPermitted":      {code: cloud.Denied}, // e.g. termination protection: somebody has to lift it

	"InvalidAMIID.*":                         {code: cloud.Invalid},
	"InvalidSubnetID.*":                      {code: cloud.Invalid},
	"InvalidSubnet*":                         {code: cloud.Invalid},
	"InvalidGroup.*":                         {code: cloud.Invalid},
	"InvalidGroupId.*":                       {code: cloud.Invalid},
	"InvalidSecurityGroupID.*":               {code: cloud.Invalid},
	"InvalidKeyPair.*":                       {code: cloud.Invalid},
	"InvalidParameter*":                      {code: cloud.Invalid},
	"InvalidBlockDeviceMapping":              {code: cloud.Invalid},
	"MissingParameter":                       {code: cloud.Invalid},
	"UnknownParameter":                       {code: cloud.Invalid},
	"InvalidSnapshot.*":                      {code: cloud.Invalid},
	"InvalidInstanceType":                    {code: cloud.Invalid},
	"InvalidPlacementGroup.*":                {code: cloud.Invalid},
	"InvalidHostID.*":                        {code: cloud.Invalid},
	"InvalidCapacityReservation*":            {code: cloud.Invalid},
	"InvalidTagKey.*":                        {code: cloud.Invalid},
	"InvalidUserData.*":                      {code: cloud.Invalid},
	"TagLimitExceeded":                       {code: cloud.Invalid},
	"SecurityGroupsPerInstanceLimitExceeded": {code: cloud.Invalid},
	"UnsupportedOperation":                   {code: cloud.Invalid},
	"VPCIdNotSpecified":                      {code: cloud.Invalid},

	codeInstanceNotFound:          {code: cloud.NotFound},
	"InvalidInstanceID.Malformed": {code: cloud.NotFound},

	codeTokenMismatch:   {code: cloud.TokenUsed},
	codeTokenTerminated: {code: cloud.TokenUsed},
}

// react returns the reaction to a code of EC2.
func react(code string, status int) reaction {
	if known, ok := reactions[code]; ok {
		return known
	}
	for n := len(code); n > 0; n-- {
		if known, ok := reactions[code[:n]+"*"]; ok {
			return known
		}
	}
	return reaction{code: byStatus(status)}
}

// byStatus returns the reaction to an answer without a code that is known, e.g.
// of a proxy on the way.
func byStatus(status int) cloud.Code {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cloud.Denied
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status >= http.StatusInternalServerError:
		return cloud.Unavailable
	}
	return cloud.Unknown
}

// refusal is the error of a call of the SDK, whatever the call.
func refusal(ctx context.Context, op string, err error) *cloud.Error {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() != "" && api.ErrorCode() != "UnknownError" {
		e := cloud.Errorf(react(api.ErrorCode(), statusOf(err)).code, op, api.ErrorCode(), "%s", briefly(api.ErrorMessage()))
		e.RetryAfter = retryAfter(err)
		return e
	}
	if status := statusOf(err); status >= http.StatusMultipleChoices {
		e := cloud.Errorf(byStatus(status), op, fmt.Sprintf("HTTP%d", status),
			"the cloud answered HTTP status %d without an error code",
			status)
		e.RetryAfter = retryAfter(err)
		return e
	}
	if ended := ctx.Err(); ended != nil {
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from the cloud: %w", ended)
	}
	if isLogin(err) {
		return cloud.Errorf(cloud.Denied, op, "NoCredentials",
			"no credentials could be had; put an access key into the Secret or see to the identity of the manager")
	}
	return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from the cloud, or a broken one: %w", plain(err))
}

// isLogin reports whether err is about getting credentials, for which the SDK has
// no type.
func isLogin(err error) bool { return strings.Contains(err.Error(), "get identity: ") }

// plain returns the innermost cause: those around it quote requests.
func plain(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return errors.New(briefly(err.Error()))
		}
		err = next
	}
}

// statusOf returns the status of the answer; 0 when there was none.
func statusOf(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil && r.Response.Response != nil {
		return r.HTTPStatusCode()
	}
	return 0
}

// retryAfter is the cloud's hint in the header of its answer.
func retryAfter(err error) time.Duration {
	r, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || r.Response == nil || r.Response.Response == nil {
		return 0
	}
	seconds, err := strconv.Atoi(r.Response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// briefly cuts what is long, such as an encoded authorization failure.
func briefly(text string) string {
	const most = 500
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// about returns e as the error of a call that is not Create: only a class can be
// wrong and only a creation can find nothing left.
func about(e *cloud.Error) *cloud.Error {
	switch e.Code {
	case cloud.Invalid, cloud.Exhausted, cloud.TokenUsed:
		e.Code = cloud.Unknown
	case cloud.Unknown, cloud.NotFound, cloud.Denied, cloud.Throttled, cloud.Unavailable:
	}
	return e
}

// named returns err, which several callers share, as that of one operation; nil
// stays nil.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*cloud.Error) //nolint:errorlint // calls return nothing else
	if !ok {
		return cloud.Errorf(cloud.Unknown, op, "Unclassified", "%w", err)
	}
	mine := *e
	mine.Op = op
	return &mine
}
