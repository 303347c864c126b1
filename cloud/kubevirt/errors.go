package kubevirt

import (
	"net/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Reasons of API servers that the driver acts on.
const (
	reasonExists   = "AlreadyExists"
	reasonConflict = "Conflict"
)

// Of quotas: what API servers say, to whomever asks for an object, and the driver's reason for it.
const (
	quotaText   = "exceeded quota"
	reasonQuota = "ExceededQuota"
)

// table is what the API server's errors mean.
var table = driverkit.Table{
	{
		Codes: []string{"Forbidden"}, Texts: []string{quotaText}, Means: cloud.Exhausted, Reason: reasonQuota,
		Scope: driverkit.ScopeRegion,
	},
	{Codes: []string{"TooManyRequests"}, Means: cloud.Throttled},
	{Status: http.StatusTooManyRequests, Means: cloud.Throttled},
	{Codes: []string{"NotFound"}, Means: cloud.NotFound},
	{Status: http.StatusNotFound, Means: cloud.NotFound},
	{Codes: []string{reasonExists}, Means: cloud.Unknown},
	{Codes: []string{reasonConflict}, Means: cloud.Unavailable},
	{Codes: []string{"Expired", "Gone"}, Means: cloud.Unavailable, Reason: "Expired"},
	// A webhook that cannot be called is KubeVirt's trouble, and none of the class.
	{Texts: []string{"failed calling webhook"}, Means: cloud.Unavailable, Reason: "WebhookFailed"},
	{Codes: []string{"InternalError", "ServerTimeout", "Timeout", "ServiceUnavailable"}, Means: cloud.Unavailable},
	{Texts: []string{"denied the request"}, Means: cloud.Invalid, Reason: "DeniedByWebhook"},
	{Codes: []string{"Invalid", "BadRequest", "UnsupportedMediaType", "RequestEntityTooLarge"}, Means: cloud.Invalid},
	{Status: http.StatusBadRequest, Means: cloud.Invalid},
	{Status: http.StatusUnprocessableEntity, Means: cloud.Invalid},
	{Codes: []string{"Forbidden", "Unauthorized"}, Means: cloud.Denied},
}

// reasonOf is the API server's own word for an error.
func reasonOf(e *cloud.Error) string {
	answer, _ := driverkit.AnswerOf(e)
	return answer.Code
}

// refused adds to the error of a creation what is exhausted.
func (s *spec) refused(r cloud.CreateRequest, e *cloud.Error) error {
	switch e.Code {
	case cloud.Exhausted:
		e.Offering = s.ofQuota(r)
	case cloud.NotFound: // of the namespace, of an instance type, or of KubeVirt's API
		e.Code = cloud.Invalid
	case cloud.Unknown, cloud.Invalid, cloud.Denied, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return e
}

// ofQuota is what is exhausted when a quota has no room for the VM of r. A smaller one may fit into it: without an
// instance type, nothing tells them apart, and it is nil.
func (s *spec) ofQuota(r cloud.CreateRequest) *cloud.Offering {
	if s.instanceType() == "" {
		return nil
	}
	return driverkit.ScopeRegion.Of(s.offering(r))
}
