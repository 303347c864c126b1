package gcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	reasonExists = "AlreadyExists"
	reasonBusy   = "ResourceNotReady"
	reasonMember = "MembershipChanges"
	soldOut      = "ZoneResourcePoolExhausted"
	outOfQuota   = "QuotaExceeded"
)

// table is what errors of requests and of operations mean. A quota of concurrent operations or of
// calls in a minute is none of machines, although its code may say so.
var table = driverkit.Table{
	{Codes: []string{
		"rateLimitExceeded", "userRateLimitExceeded", "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", "RATE_LIMIT_EXCEEDED",
		"RESOURCE_OPERATION_RATE_EXCEEDED",
	}, Means: cloud.Throttled},
	{Codes: []string{
		"ZONE_RESOURCE_POOL_EXHAUSTED*", "RESOURCE_POOL_EXHAUSTED*", "INSUFFICIENT_CAPACITY", "STOCKOUT*",
	}, Means: cloud.Exhausted, Reason: soldOut, Scope: driverkit.ScopeZone},
	{Texts: []string{"does not exist in zone"}, Means: cloud.Exhausted, Reason: "NotInZone", Scope: driverkit.ScopeZone},
	{Codes: []string{"IP_SPACE_EXHAUSTED*"}, Means: cloud.Exhausted, Reason: "IPSpaceExhausted"},
	{
		Codes: []string{"quotaExceeded", "QUOTA*", "LIMIT_EXCEEDED"}, Means: cloud.Exhausted, Reason: outOfQuota,
		Scope: driverkit.ScopeRegion,
	},
	{Texts: []string{"quota '"}, Means: cloud.Exhausted, Reason: outOfQuota, Scope: driverkit.ScopeRegion},
	{Texts: []string{
		"does not have available resources", "no available resources in specified reservations",
	}, Means: cloud.Exhausted, Reason: "ReservationExhausted", Scope: driverkit.ScopeRegion},
	{Texts: []string{"constraint constraints/"}, Means: cloud.Denied, Reason: "OrganizationPolicy"},
	{Codes: []string{
		"PERMISSIONS_ERROR", "invalid_grant", "invalid_client", "unauthorized_client", "access_denied", "account_disabled",
		"invalid_target",
	}, Means: cloud.Denied},
	{Codes: []string{"alreadyExists", "RESOURCE_ALREADY_EXISTS"}, Means: cloud.Unavailable, Reason: reasonExists},
	{Codes: []string{
		"resourceNotReady", "RESOURCE_NOT_READY", "resourceInUseByAnotherResource", "RESOURCE_IN_USE*",
	}, Means: cloud.Unavailable, Reason: reasonBusy},
	{Codes: []string{"memberAlreadyExists", "memberNotFound"}, Means: cloud.Invalid, Reason: reasonMember},
	{Codes: []string{"backendError", "internalError", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE"}, Means: cloud.Unavailable},
	{Codes: []string{
		"RESOURCE_NOT_FOUND", "INVALID_USAGE", "INVALID_FIELD*", "UNSUPPORTED_OPERATION",
	}, Means: cloud.Invalid},
	{Status: http.StatusNotFound, Means: cloud.NotFound},
	{Status: http.StatusPreconditionFailed, Means: cloud.Unavailable, Reason: "ConditionNotMet"},
	{Status: http.StatusBadRequest, Means: cloud.Invalid},
}

// refusal reads the errors of the API, and those of the services that give out tokens.
func refusal(body []byte) (code, message string) {
	var said struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	if json.Unmarshal(body, &said) != nil {
		return "", "" // what is none of the cloud's is not quoted
	}
	if json.Unmarshal(said.Error, &code) == nil {
		return code, said.Description
	}
	var api struct {
		Code    int
		Status  string
		Message string
		Errors  []struct{ Reason string }
	}
	if json.Unmarshal(said.Error, &api) != nil {
		return "", ""
	}
	if code = api.Status; len(api.Errors) > 0 {
		code = api.Errors[0].Reason
	}
	return code, fmt.Sprintf("Error %d: %s", api.Code, api.Message) // as Google's libraries write it
}

// toMinute adds when to try again to the error of a throttled call: quotas of calls are filled up
// at the beginning of each minute.
func toMinute(e *cloud.Error, now time.Time) *cloud.Error {
	if e == nil || e.Code != cloud.Throttled || e.RetryAfter > 0 {
		return e
	}
	mine := *e
	mine.RetryAfter = now.Truncate(time.Minute).Add(time.Minute).Sub(now)
	return &mine
}

// refused adds to the error of a creation what is exhausted.
func (s *spec) refused(e *cloud.Error, zone string) *cloud.Error {
	switch e.Code {
	case cloud.Exhausted:
		e.Offering = driverkit.ScopeOf(e).Of(s.offering(zone))
	case cloud.NotFound: // of something that the class names
		e.Code = cloud.Invalid
	case cloud.Unknown, cloud.Invalid, cloud.Denied, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return e
}
