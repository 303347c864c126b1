package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Reasons of ours that more than one place depends on.
const (
	reasonUnauthorized  = "Unauthorized"
	reasonNotFound      = "ItemNotFound"
	reasonNoValidHost   = "NoValidHost"
	reasonNoFlavor      = "FlavorNotFound"
	reasonServerMissing = "ServerNotFound"

	reasonHasAddress = "FloatingIPPortAlreadyAssociated"

	reasonVolumeNotReady = "VolumeNotReady"
)

// scope is what of an offering is exhausted.
type scope uint8

const (
	scopeNone   scope = iota // something that other flavors and zones need too
	scopeRegion              // the flavor in the whole region, e.g. a quota
	scopeZone                // the flavor in one zone
)

// reaction is what an answer means for the controllers. A row fits when all that
// it says is so.
type reaction struct {
	status int    // of the answer; 0 is any
	kind   string // the service's own type of error; empty is any
	text   string // part of the message, in lower case; empty is any

	code   cloud.Code
	reason string // empty is the service's own word
	scope  scope  // with cloud.Exhausted
}

// reactions is the error table. The first row that fits counts. Those without a
// status are also for the faults of servers.
var reactions = []reaction{
	{text: "no valid host was found", code: cloud.Exhausted, reason: reasonNoValidHost, scope: scopeZone},
	{text: "exceeded max scheduling attempts", code: cloud.Exhausted, reason: reasonNoValidHost, scope: scopeZone},
	{text: "exhausted all hosts available", code: cloud.Exhausted, reason: reasonNoValidHost, scope: scopeZone},
	{text: "insufficient compute resources", code: cloud.Exhausted, reason: "InsufficientResources", scope: scopeZone},
	{kind: "OverQuota", code: cloud.Exhausted},
	{kind: "IpAddressGenerationFailure", code: cloud.Exhausted},
	{kind: "IpAddressGenerationFailureAllSubnets", code: cloud.Exhausted},
	{kind: "ExternalIpAddressExhausted", code: cloud.Exhausted, reason: "IpAddressGenerationFailure"},
	{text: "no more ip addresses available", code: cloud.Exhausted, reason: "IpAddressGenerationFailure"},
	{text: "no fixed ip addresses available", code: cloud.Exhausted, reason: "IpAddressGenerationFailure"},
	{text: "maximum number of ports exceeded", code: cloud.Exhausted, reason: "OverQuota"},
	{text: "maximum number of volumes", code: cloud.Exhausted, reason: "OverQuota"},
	{text: "available volume or gigabytes quota", code: cloud.Exhausted, reason: "OverQuota"},
	{status: http.StatusForbidden, text: "quota exceeded", code: cloud.Exhausted, reason: "OverQuota", scope: scopeRegion},
	{status: http.StatusForbidden, text: "exceeds quota", code: cloud.Exhausted, reason: "OverQuota", scope: scopeRegion},
	{
		status: http.StatusForbidden, text: "exceeds allowed", code: cloud.Exhausted, reason: "OverQuota",
		scope: scopeRegion,
	},
	{status: http.StatusForbidden, kind: "overLimit", code: cloud.Exhausted, reason: "OverQuota", scope: scopeRegion},
	{status: http.StatusRequestEntityTooLarge, text: "quota", code: cloud.Exhausted, reason: "OverQuota"},
	{status: http.StatusRequestEntityTooLarge, text: "maximum number", code: cloud.Exhausted, reason: "OverQuota"},
	{status: http.StatusRequestEntityTooLarge, code: cloud.Throttled, reason: "OverLimit"},

	{status: http.StatusTooManyRequests, code: cloud.Throttled, reason: "TooManyRequests"},
	{status: 498, code: cloud.Throttled, reason: "TooManyRequests"}, // some clouds' own

	{status: http.StatusUnauthorized, code: cloud.Denied, reason: reasonUnauthorized},
	{status: http.StatusForbidden, code: cloud.Denied, reason: "Forbidden"},
	{status: http.StatusNotFound, code: cloud.NotFound},
	{status: http.StatusConflict, code: cloud.Unavailable},
	{status: http.StatusRequestTimeout, code: cloud.Unavailable},
	{status: http.StatusLocked, code: cloud.Unavailable},
	{status: http.StatusBadRequest, code: cloud.Invalid},
	{status: http.StatusUnprocessableEntity, code: cloud.Invalid},
}

// react returns the reaction to an answer.
func react(status int, kind, message string) reaction {
	message = strings.ToLower(message)
	for _, r := range reactions {
		if (r.status == 0 || r.status == status) && (r.kind == "" || r.kind == kind) && strings.Contains(message, r.text) {
			return r
		}
	}
	if status >= http.StatusInternalServerError {
		return reaction{code: cloud.Unavailable}
	}
	return reaction{code: cloud.Unknown}
}

// answer is the error of a call, whatever the call.
func answer(ctx context.Context, op string, err error) *cloud.Error {
	status, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	switch {
	case ok:
	case ctx.Err() != nil:
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from the cloud: %w", ctx.Err())
	default:
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from the cloud, or a broken one: %w", plain(err))
	}
	kind, message := said(status.Body)
	r := react(status.Actual, kind, message)
	reason := r.reason
	if reason == "" {
		reason = camel(kind)
	}
	if reason == "" {
		reason = fmt.Sprintf("HTTP%d", status.Actual)
	}
	if message == "" {
		message = fmt.Sprintf("the cloud answered HTTP status %d without an error code", status.Actual)
	}
	e := cloud.Errorf(r.code, op, reason, "%w", scoped{errors.New(briefly(message)), r.scope})
	e.RetryAfter = retryAfter(status.ResponseHeader)
	return e
}

// scoped is a cause that knows what is exhausted.
type scoped struct {
	error

	of scope
}

// refused is the error of a login. Keystone says 404 of an application
// credential that was deleted.
func refused(ctx context.Context, err error) *cloud.Error {
	e := answer(ctx, opLogin, err)
	switch e.Code {
	case cloud.NotFound, cloud.Invalid, cloud.Denied:
		e.Code = cloud.Denied
		e.Err = errors.New("the credentials of the Secret are refused by Keystone; correct them")
	case cloud.Exhausted, cloud.TokenUsed, cloud.Unknown:
		e.Code = cloud.Unavailable
	case cloud.Throttled, cloud.Unavailable:
	}
	return e
}

// said returns what an answer says: the type of error and the message, in the
// forms of Nova and Cinder, Neutron and Keystone. What has another form is not
// quoted: it may be anything.
func said(body []byte) (kind, message string) {
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return "", ""
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
			return strings.ReplaceAll(inner.Title, " ", ""), inner.Message
		}
		return key, inner.Message
	}
	return "", ""
}

// camel returns a word with a big first letter and nothing but letters and
// digits.
func camel(word string) string {
	var b strings.Builder
	for _, r := range word {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		if b.Len() == 0 {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

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

// retryAfter is the cloud's hint in the header of its answer.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// briefly cuts what is long.
func briefly(text string) string {
	const most = 500
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// blame adds the field to an error that says that it is wrong.
func blame(e *cloud.Error, field, remedy string) *cloud.Error {
	if e.Code == cloud.Invalid {
		message := strings.TrimRight(e.Err.Error(), ". ") + "; " + remedy
		e.Problems = []cloud.Problem{{Severity: cloud.BlocksCreate, Field: "providerSpec." + field, Message: message}}
	}
	return e
}

// about returns e as the error of a call that is not Create: only a class can be
// wrong, and only a creation can find nothing left.
func about(e *cloud.Error) *cloud.Error {
	switch e.Code {
	case cloud.Invalid, cloud.Exhausted, cloud.TokenUsed, cloud.NotFound:
		e.Code, e.Problems, e.Offering = cloud.Unknown, nil, nil
	case cloud.Unknown, cloud.Denied, cloud.Throttled, cloud.Unavailable:
	}
	return e
}

// unclassed is an error about a class, of a call that has no code for it.
func unclassed(err error) error {
	if e, ok := err.(*cloud.Error); ok && e.Code == cloud.Invalid { //nolint:errorlint // SpecOf returns nothing else
		return cloud.Errorf(cloud.Unknown, e.Op, e.Reason, "%w", e.Err)
	}
	return err
}

// blames returns which field is wrong, judging by the cloud's error.
var blames = []struct{ text, field, remedy string }{
	{"key_name", "spec.keyName", "name a key pair of this user"},
	{"key pair", "spec.keyName", "name a key pair of this user"},
	{"availability zone", "spec.availabilityZone", "name a zone that Nova offers"},
	{"security_group", "spec.securityGroups", "name groups of this project"},
	{"security group", "spec.securityGroups", "name groups of this project"},
	{"securitygroup", "spec.securityGroups", "name groups of this project"},
	{"external network", "spec.floatingIPPool", "connect the subnet of the first network to the pool by a router"},
	{"floating ip", "spec.floatingIPPool", "name an external network that this project can use"},
	{"subnet", "spec.subnetIDs", "name subnets of the network"},
	{"network", "spec.networkID", "name a network that this project can use"},
	{"instance group", "spec.serverGroupID", "name a server group of this project"},
	{"server group", "spec.serverGroupID", "name a server group of this project"},
	{"scheduler_hints", "spec.serverGroupID", "give the id of a server group"},
	{"metadata", "spec.tags", "use keys and values that Nova takes"},
	{"volume type", "spec.rootDiskType", "name a volume type that Cinder offers"},
	{"image", "spec.imageName", "name an image that this project can use"},
	{"flavor's disk", "spec.rootDiskSize", "boot from a volume or take a larger flavor"},
	{"address pair", "spec.podNetworkCIDRs", "list address ranges"},
	{"valid ip", "spec.podNetworkCIDRs", "list address ranges"},
}

// invalid makes an error of a creation one that names the field.
func (c *config) invalid(e *cloud.Error) *cloud.Error {
	if e.Code == cloud.NotFound { // something that the class names
		e.Code = cloud.Invalid
	}
	if e.Code != cloud.Invalid {
		return e
	}
	text := strings.ToLower(e.Reason + " " + e.Err.Error())
	for _, b := range blames {
		if !strings.Contains(text, b.text) {
			continue
		}
		return blame(e, c.written(b.field), b.remedy)
	}
	return e
}

// written returns the field that the class has where two fields can say the same.
func (c *config) written(field string) string {
	s := &c.Spec
	switch {
	case field == "spec.networkID" && s.NetworkID == "":
		return "spec.networks"
	case field == "spec.imageName" && s.ImageID != "":
		return "spec.imageID"
	case field == "spec.subnetIDs" && len(s.Subnets) > 0:
		return "spec.subnets"
	case field == "spec.serverGroupID" && s.ServerGroup != "":
		return "spec.serverGroup"
	case field == "spec.securityGroups" && s.DefaultSecurityGroup != "":
		return "spec.defaultSecurityGroup"
	}
	return field
}

// refusedServer is the error of a creation, with what is exhausted.
func (a *account) refusedServer(c *config, r cloud.CreateRequest, e *cloud.Error) *cloud.Error {
	if why, ok := errors.AsType[scoped](e.Err); ok && e.Code == cloud.Exhausted {
		e.Offering = c.offering(r, why.of)
	}
	return c.invalid(e)
}

// refusedFlavor is the error of a flavor that does not exist. MCM's driver calls
// it exhausted, and whoever scales relies on that.
func (a *account) refusedFlavor(c *config, r cloud.CreateRequest, e *cloud.Error) *cloud.Error {
	if e.Code == cloud.NotFound {
		e.Code, e.Offering = cloud.Exhausted, c.offering(r, scopeZone)
		return e
	}
	return about(e)
}

// offering is what of the class is exhausted.
func (c *config) offering(r cloud.CreateRequest, of scope) *cloud.Offering {
	switch of {
	case scopeZone:
		return &cloud.Offering{
			Region: c.Spec.Region, Zone: c.zone(r),
			InstanceType: c.Spec.FlavorName,
		}
	case scopeRegion:
		return &cloud.Offering{Region: c.Spec.Region, InstanceType: c.Spec.FlavorName}
	case scopeNone:
	}
	return nil
}
