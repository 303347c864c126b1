package sim

import (
	"net/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// reactions says what each of the cloud's errors means for the controllers.
func reactions() map[string]cloud.Code {
	return map[string]cloud.Code{
		CodeInvalidParameter:     cloud.Invalid,
		CodeInvalidRegion:        cloud.Invalid,
		CodeInvalidZone:          cloud.Invalid,
		CodeInvalidInstanceType:  cloud.Invalid,
		CodeInvalidImage:         cloud.Invalid,
		CodeInvalidNetwork:       cloud.Invalid,
		CodeUserDataTooLarge:     cloud.Invalid,
		CodeInvalidCredentials:   cloud.Denied,
		CodeAccessDenied:         cloud.Denied,
		CodeNotFound:             cloud.NotFound,
		CodeTokenMismatch:        cloud.TokenUsed,
		CodeTokenExpired:         cloud.TokenUsed,
		CodeIncorrectState:       cloud.Unavailable,
		CodeInsufficientCapacity: cloud.Exhausted,
		CodeQuotaExceeded:        cloud.Exhausted,
		CodeAddressesExhausted:   cloud.Exhausted,
		CodeRequestLimitExceeded: cloud.Throttled,
		CodeInternalError:        cloud.Unavailable,
		CodeServiceUnavailable:   cloud.Unavailable,
	}
}

// react returns the reaction to an error of the cloud.
func react(code string, status int) cloud.Code {
	if known, ok := reactions()[code]; ok {
		return known
	}
	return byStatus(status)
}

// byStatus returns the reaction to an answer without a code that is known, e.g.
// of a proxy on the way. A 404 of that kind says nothing about a VM.
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

// offering returns what is exhausted; nil if the error is not of that kind or
// does not say.
func offering(e APIError, status int) *cloud.Offering {
	o := cloud.Offering{Region: e.Region, Zone: e.Zone, InstanceType: e.InstanceType, CapacityType: e.CapacityType}
	if react(e.Code, status) != cloud.Exhausted || o == (cloud.Offering{}) {
		return nil
	}
	return &o
}
