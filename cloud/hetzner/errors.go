package hetzner

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

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
	reasonNotHere  = "UnsupportedLocation"
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
		Codes: []string{"invalid_input"}, Texts: []string{"unsupported location for server type"}, Means: cloud.Invalid,
		Reason: reasonNotHere, Field: "serverType", Remedy: "name a server type that Hetzner offers in this location",
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

// notHere is the error where Hetzner refuses a server type in a location. It has the same words for a type
// that it does not offer there, which only a person mends, and for one of which it has no more, which passes:
// what it says of the type tells them apart.
func (a *account) notHere(ctx context.Context, s *spec, r cloud.CreateRequest, e *cloud.Error) error {
	kind, err := a.serverType(ctx, opCreate, s.ServerType)
	if err != nil {
		return s.refused(r, e)
	}
	location := locationOf(s.zoneFor(r))
	var offered []string
	for _, at := range kind.Locations {
		if at.Deprecation == nil || a.now().Before(at.Deprecation.UnavailableAfter) {
			offered = append(offered, at.Name)
		}
	}
	if !slices.Contains(offered, location) {
		remedy := "name a server type that Hetzner offers in " + location
		if len(offered) > 0 {
			remedy += ", or one of " + strings.Join(offered, ", ") + " as zone"
		}
		return s.refused(r, driverkit.WithField(e, "serverType", remedy))
	}
	soldOut := *e
	soldOut.Code, soldOut.Problems = cloud.Exhausted, nil
	soldOut.Offering = s.offering(r)
	return &soldOut
}

// offering is what a request asks Hetzner for.
func (s *spec) offering(r cloud.CreateRequest) *cloud.Offering {
	of := cloud.Offering{Region: locationOf(s.zoneFor(r)), Zone: s.zoneFor(r), InstanceType: s.ServerType}
	if s.groupID() != "" || s.PlacementGroupPrefix != "" {
		of.CapacityType = "spread" // perhaps it is only the group that no host is left for
	}
	return &of
}

// refused adds to the error of a creation what is exhausted.
func (s *spec) refused(r cloud.CreateRequest, e *cloud.Error) error {
	switch e.Code {
	case cloud.Exhausted:
		e.Offering = driverkit.ScopeOf(e).Of(*s.offering(r))
	case cloud.NotFound: // of something that the class names
		e.Code = cloud.Invalid
	case cloud.Unknown, cloud.Invalid, cloud.Denied, cloud.Throttled, cloud.Unavailable, cloud.TokenUsed:
	}
	return e
}
