package hetzner

import (
	"encoding/json"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Codes of Hetzner's that the driver itself reacts to, and reasons that come of them.
const (
	codeNameTaken = "uniqueness_error"
	codeAttached  = "server_already_attached"
	codeGroupFull = "placement_group_member_limit_reached"

	reasonLocked   = "Locked"
	reasonConflict = "Conflict"
)

// table is what Hetzner's errors mean.
var table = driverkit.Table{
	{Codes: []string{"rate_limit_exceeded"}, Means: cloud.Throttled},
	{Codes: []string{"unauthorized", "forbidden", "token_readonly", "protected", "resource_locked"}, Means: cloud.Denied},
	{Codes: []string{"resource_unavailable", "placement_error"}, Means: cloud.Exhausted, Scope: driverkit.ScopeZone},
	{
		Codes: []string{
			"resource_limit_exceeded", "primary_ip_limit", "no_subnet_available", "ip_not_available", codeGroupFull,
		},
		Means: cloud.Exhausted, Scope: driverkit.ScopeNone,
	},
	{Codes: []string{"not_found"}, Means: cloud.NotFound},
	{
		Codes: []string{"invalid_server_type"}, Means: cloud.Invalid,
		Field: "serverType", Remedy: "name a server type that Hetzner offers in this location",
	},
	{
		Codes: []string{
			"invalid_input", "json_error", "unsupported_error", "networks_overlap", "incompatible_network_type",
			"private_net_only_server",
		},
		Means: cloud.Invalid,
	},
	{
		Codes: []string{
			"locked", "conflict", "maintenance", "service_error", "server_error", "timeout", "bad_gateway", "unavailable",
		},
		Means: cloud.Unavailable,
	},
}

// refusal reads Hetzner's errors.
func refusal(body []byte) (code, message string) {
	var said struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &said) // what is none of Hetzner's is not quoted
	return said.Error.Code, said.Error.Message
}

// codeOf returns Hetzner's code in an error; empty if there is none.
func codeOf(e *cloud.Error) string {
	if e == nil {
		return ""
	}
	answer, _ := driverkit.AnswerOf(e)
	return answer.Code
}

// refused adds to the error of a creation what is exhausted.
func (s *spec) refused(r cloud.CreateRequest, e *cloud.Error) error {
	switch e.Code {
	case cloud.Exhausted:
		of := cloud.Offering{Region: locationOf(s.zoneFor(r)), Zone: s.zoneFor(r), InstanceType: s.ServerType}
		if s.groupID() != "" || s.PlacementGroupPrefix != "" {
			of.CapacityType = "spread" // perhaps it is only the group that no host is left for
		}
		e.Offering = driverkit.ScopeOf(e).Of(of)
	case cloud.NotFound: // of something that the class names
		e.Code = cloud.Invalid
	case cloud.Unknown, cloud.Invalid, cloud.Denied, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return e
}
