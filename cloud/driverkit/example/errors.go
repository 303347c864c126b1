package example

import (
	"net/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// table is what the cloud's errors mean.
var table = driverkit.Table{
	{Codes: []string{"out_of_stock"}, Means: cloud.Exhausted, Scope: driverkit.ScopeZone},
	{Codes: []string{"quota_exceeded"}, Means: cloud.Exhausted, Scope: driverkit.ScopeRegion},
	{Codes: []string{"unknown_type"}, Means: cloud.Invalid, Field: "type", Remedy: "name a type that the cloud offers"},
	{Codes: []string{"unknown_zone"}, Means: cloud.Invalid, Field: "zone", Remedy: "name a zone of the cloud"},
	{Codes: []string{"key_reused"}, Means: cloud.TokenUsed},
	{Status: http.StatusNotFound, Means: cloud.NotFound},
	{Status: http.StatusBadRequest, Means: cloud.Invalid},
}

// refused adds to the error of a creation what is exhausted.
func (s *spec) refused(r cloud.CreateRequest, e *cloud.Error) error {
	switch e.Code {
	case cloud.Exhausted:
		e.Offering = driverkit.ScopeOf(e).Of(cloud.Offering{Zone: s.zoneFor(r), InstanceType: s.Type})
	case cloud.NotFound: // of something that the class names
		e.Code = cloud.Invalid
	case cloud.Unknown, cloud.Invalid, cloud.Denied, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return e
}
