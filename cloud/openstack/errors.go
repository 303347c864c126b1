package openstack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Reasons of ours that more than one place depends on.
const (
	reasonNoValidHost   = "NoValidHost"
	reasonNoFlavor      = "FlavorNotFound"
	reasonServerMissing = "ServerNotFound"
	reasonHasAddress    = "FloatingIPPortAlreadyAssociated"
	reasonNoQuota       = "OverQuota"
	reasonNoAddress     = "IpAddressGenerationFailure"

	// reasonConflict is Nova's: another task changes the server, or it is locked, rescued or shelved.
	reasonConflict = "ConflictingRequest"

	// reasonNotImplemented is Nova's for what the hypervisor's driver lacks.
	reasonNotImplemented = "NotImplemented"

	reasonVolumeNotReady = "VolumeNotReady"
)

// reactions is the error table. Rows without a status are also for the faults of servers.
var reactions = driverkit.Table{
	{
		Texts: []string{"no valid host was found", "exceeded max scheduling attempts", "exhausted all hosts available"},
		Means: cloud.Exhausted, Reason: reasonNoValidHost, Scope: driverkit.ScopeZone,
	},
	{
		Texts: []string{"insufficient compute resources"},
		Means: cloud.Exhausted, Reason: "InsufficientResources", Scope: driverkit.ScopeZone,
	},
	{Codes: []string{reasonNoQuota, reasonNoAddress + "*"}, Means: cloud.Exhausted},
	{Codes: []string{"ExternalIpAddressExhausted"}, Means: cloud.Exhausted, Reason: reasonNoAddress},
	{
		Texts: []string{"no more ip addresses available", "no fixed ip addresses available"},
		Means: cloud.Exhausted, Reason: reasonNoAddress,
	},
	{
		Texts: []string{
			"maximum number of ports exceeded", "maximum number of volumes", "available volume or gigabytes quota",
		},
		Means: cloud.Exhausted, Reason: reasonNoQuota,
	},
	{
		Status: http.StatusForbidden, Texts: []string{
			"quota exceeded", "exceeds quota", "exceeds allowed", "quota has been met",
		},
		Means: cloud.Exhausted, Reason: reasonNoQuota, Scope: driverkit.ScopeRegion,
	},
	{
		Status: http.StatusForbidden, Codes: []string{"overLimit"},
		Means: cloud.Exhausted, Reason: reasonNoQuota, Scope: driverkit.ScopeRegion,
	},
	{
		Status: http.StatusRequestEntityTooLarge, Texts: []string{"quota", "maximum number"},
		Means: cloud.Exhausted, Reason: reasonNoQuota,
	},
	{Status: http.StatusRequestEntityTooLarge, Means: cloud.Throttled, Reason: "OverLimit"},

	{Status: http.StatusTooManyRequests, Means: cloud.Throttled, Reason: "TooManyRequests"},
	{Status: 498, Means: cloud.Throttled, Reason: "TooManyRequests"}, // some clouds' own

	{Status: http.StatusUnauthorized, Means: cloud.Denied, Reason: "Unauthorized"},
	{Status: http.StatusForbidden, Means: cloud.Denied, Reason: "Forbidden"},
	{Status: http.StatusNotFound, Means: cloud.NotFound},
	{Status: http.StatusConflict, Means: cloud.Unavailable},
	{Status: http.StatusLocked, Means: cloud.Unavailable},
	{Status: http.StatusBadRequest, Means: cloud.Invalid},
	{Status: http.StatusUnprocessableEntity, Means: cloud.Invalid},
}

// said returns what an answer says: the type of error and the message, in the
// forms of Nova and Cinder, Neutron and Keystone, and Octavia. What has another form is not
// quoted: it may be anything.
func said(body []byte) (kind, message string) {
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return "", ""
	}
	if json.Unmarshal(top["faultstring"], &message) == nil {
		return "", message
	}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		var inner struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Title   string `json:"title"`
		}
		if json.Unmarshal(top[key], &inner) != nil || inner.Message == "" {
			continue
		}
		switch {
		case inner.Type != "":
			return inner.Type, inner.Message
		case inner.Title != "":
			return inner.Title, inner.Message
		}
		return key, inner.Message
	}
	return "", ""
}

// reasonOf returns the reason of an error; empty if it has none.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		return e.Reason
	}
	return ""
}

// wrong adds the field to an error that has the code Invalid.
func wrong(err error, field, remedy string) error {
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		return driverkit.WithField(e, field, remedy)
	}
	return err
}

// isGone reports whether a resource that a call was about does not exist.
func isGone(err error) bool { return err != nil && cloud.CodeOf(err) == cloud.NotFound }

// blames is which field is wrong, judging by the cloud's error.
var blames = driverkit.Table{
	{Texts: []string{"key_name", "key pair"}, Field: "spec.keyName", Remedy: "name a key pair of this user"},
	{Texts: []string{"availability zone"}, Field: "spec.availabilityZone", Remedy: "name a zone that Nova offers"},
	{
		Texts: []string{"security_group", "security group", "securitygroup"},
		Field: "spec.securityGroups", Remedy: "name groups of this project",
	},
	{
		Texts: []string{"external network"},
		Field: "spec.floatingIPPool", Remedy: "connect the subnet of the first network to the pool by a router",
	},
	{
		Texts: []string{"floating ip"},
		Field: "spec.floatingIPPool", Remedy: "name an external network that this project can use",
	},
	{Texts: []string{"subnet"}, Field: "spec.subnetIDs", Remedy: "name subnets of the network"},
	{Texts: []string{"network"}, Field: "spec.networkID", Remedy: "name a network that this project can use"},
	{
		Texts: []string{"instance group", "server group"},
		Field: "spec.serverGroupID", Remedy: "name a server group of this project",
	},
	{Texts: []string{"scheduler_hints"}, Field: "spec.serverGroupID", Remedy: "give the id of a server group"},
	{Texts: []string{"metadata"}, Field: "spec.tags", Remedy: "use keys and values that Nova takes"},
	{Texts: []string{"volume type"}, Field: "spec.rootDiskType", Remedy: "name a volume type that Cinder offers"},
	{Texts: []string{"image"}, Field: "spec.imageName", Remedy: "name an image that this project can use"},
	{
		Texts: []string{"flavor's disk"},
		Field: "spec.rootDiskSize", Remedy: "boot from a volume or take a larger flavor",
	},
	{Texts: []string{"address pair", "valid ip"}, Field: "spec.podNetworkCIDRs", Remedy: "list address ranges"},
}

// invalid makes an error of a creation one that names the field.
func (c *config) invalid(err error) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return err
	}
	if e.Code == cloud.NotFound { // something that the class names
		e.Code = cloud.Invalid
	}
	row := blames.Row(driverkit.Answer{Message: e.Reason + " " + e.Err.Error()})
	if row.Field == "" {
		return e
	}
	return driverkit.WithField(e, c.written(row.Field), row.Remedy)
}

// written returns the field that the class has where two fields can say the same.
func (c *config) written(field string) string {
	s := &c.Spec
	for _, other := range []struct {
		field, instead string
		used           bool
	}{
		{"spec.networkID", "spec.networks", s.NetworkID == ""},
		{"spec.imageName", "spec.imageID", s.ImageID != ""},
		{"spec.subnetIDs", "spec.subnets", len(s.Subnets) > 0},
		{"spec.serverGroupID", "spec.serverGroup", s.ServerGroup != ""},
		{"spec.securityGroups", "spec.defaultSecurityGroup", s.DefaultSecurityGroup != ""},
	} {
		if field == other.field && other.used {
			return other.instead
		}
	}
	return field
}

// refusedServer is the error of a creation, with what is exhausted.
func (c *config) refusedServer(r cloud.CreateRequest, err error) error {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.Exhausted {
		return c.exhaust(r, e, driverkit.ScopeOf(e))
	}
	return c.invalid(err)
}

// refusedFlavor is the error of a flavor that does not exist. MCM's driver calls
// it exhausted, and whoever scales relies on that.
func (c *config) refusedFlavor(r cloud.CreateRequest, err error) error {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.NotFound {
		e.Code, e.Offering = cloud.Exhausted, driverkit.ScopeZone.Of(c.offering(r))
		return depleted(e)
	}
	return driverkit.Restrict(err)
}

// exhaust adds to an error of code Exhausted what there is too little of. That no host is valid may be because of the
// server group or of traits that the image requires, which Nova does not say: it is then a shortage of the class, and
// not of its flavor in the zone.
func (c *config) exhaust(r cloud.CreateRequest, e *cloud.Error, of driverkit.Scope) *cloud.Error {
	o := c.offering(r)
	if s := &c.Spec; of == driverkit.ScopeZone {
		o.CapacityType = "image " + cmp.Or(s.ImageID, s.ImageName)
		if group := cmp.Or(text(s.ServerGroupID), s.ServerGroup); group != "" {
			o.CapacityType = "server group " + group + ", " + o.CapacityType
		}
		e = depleted(e)
	}
	e.Offering = of.Of(o)
	return e
}

// depleted is an error of a lack of hosts or of a flavor with MCM's word for it, by which Gardener tells it from other
// errors: Nova has no code of its own for it.
func depleted(e *cloud.Error) *cloud.Error {
	mine := *e
	mine.Err = fmt.Errorf("ResourceExhausted: %w", e.Err)
	return &mine
}

func text(v *string) string {
	if v == nil {
		return ""
	}
	return *v
}

// offering is what the class asks for.
func (c *config) offering(r cloud.CreateRequest) cloud.Offering {
	return cloud.Offering{Region: c.Spec.Region, Zone: c.zone(r), InstanceType: c.Spec.FlavorName}
}
