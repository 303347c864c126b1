package gcp

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	computeURL = "https://compute.googleapis.com/compute/v1"

	// endpointVariable is that by which gcloud finds the API at another address, e.g. that of Private
	// Service Connect.
	endpointVariable = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"

	userAgent = "cluster-api-provider-mcm"

	// pageSize is the most that the API shows in one page.
	pageSize = 500
)

// client speaks to Compute Engine with the credentials of one Secret.
type client struct {
	who      identity
	endpoint string
	now      func() time.Time
	readFile func(string) ([]byte, error)
	session  driverkit.Session[string] // the login is an access token
}

func (d *Driver) connect(who identity, creds cloud.Credentials) *client {
	c := &client{who: who, endpoint: d.options.Endpoint, now: d.options.Now, readFile: d.options.ReadFile}
	c.session.API = driverkit.API{
		HTTP: &http.Client{Transport: d.options.Transport}, UserAgent: userAgent, Errors: table, Refusal: refusal,
		Now: d.options.Now,
	}
	c.session.Login = driverkit.NewLogin(driverkit.LoginOptions{
		Refusals: &d.refusals, Fingerprint: creds.Fingerprint(), Now: d.options.Now,
	}, c.logIn)
	return c
}

// do makes a call, whose URL is relative to the project.
func (c *client) do(ctx context.Context, op string, call driverkit.Call) *cloud.Error {
	call.URL = c.endpoint + "/projects/" + url.PathEscape(c.who.project) + call.URL
	e := c.session.Do(ctx, op, func(token string) driverkit.Call {
		call.Header = bearer(token)
		return call
	})
	return toMinute(e, c.now())
}

// in returns the URL of something in a zone, with what is done to it if that is named.
func in(zone, kind, name string, action ...string) string {
	parts := []string{"", "zones", url.PathEscape(zone), kind}
	for _, part := range append([]string{name}, action...) {
		if part != "" {
			parts = append(parts, url.PathEscape(part))
		}
	}
	return strings.Join(parts, "/")
}

// get returns the instance at a place; nil if there is none.
func (c *client) get(ctx context.Context, op string, at place) (*instance, error) {
	var found instance
	e := c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: in(at.zone, "instances", at.name), Out: &found})
	switch {
	case e == nil:
		return &found, nil
	case e.Code == cloud.NotFound:
		return nil, nil //nolint:nilnil // that there is none is an answer
	}
	return nil, e
}

// change asks for something to be done to an instance.
func (c *client) change(ctx context.Context, op string, at place, action string, body any) *cloud.Error {
	return c.do(ctx, op, driverkit.Call{
		Method: http.MethodPost, URL: in(at.zone, "instances", at.name, action), Body: body,
	})
}

// remove asks for an instance or a disk to be deleted. One that has gone is no error, nor is one
// that is going.
func (c *client) remove(ctx context.Context, op, kind string, at place) (gone bool, err error) {
	e := c.do(ctx, op, driverkit.Call{Method: http.MethodDelete, URL: in(at.zone, kind, at.name)})
	switch {
	case e == nil || e.Reason == reasonBusy:
		return false, nil
	case e.Code == cloud.NotFound:
		return true, nil
	}
	return false, driverkit.Restrict(e)
}

// unreachable is the code of a warning that something was not reached.
const unreachable = "UNREACHABLE"

// warning is what a page of a listing lacks.
type warning struct {
	Code string `json:"code"`
}

// partial returns the error of a page that lacks something: who takes it for whole believes that
// what is missing has gone.
func (w *warning) partial(op, where string) error {
	if w == nil || w.Code == "" || w.Code == "NO_RESULTS_ON_PAGE" {
		return nil
	}
	return cloud.Errorf(cloud.Unavailable, op, "PartialListing", "the listing lacks what is in %s: %s; it is read again",
		where, w.Code)
}

// scopedPage is a page of what is in all zones: by zone, what of it has which kind. The API answers
// also where it did not reach all of them, and names those that it did not reach.
type scopedPage struct {
	Items map[string]struct {
		Instances []instance `json:"instances"`
		Disks     []disk     `json:"disks"`
		Warning   *warning   `json:"warning"`
	} `json:"items"`
	Next         string   `json:"nextPageToken"`
	Unreachables []string `json:"unreachables"`
	Warning      *warning `json:"warning"`
}

// check returns the error of a page that lacks something of a region. Trouble elsewhere is no matter
// for the region, so that a warning which the unreachable scopes explain is none.
func (p scopedPage) check(op, region string) error {
	var errs []error
	if p.Warning != nil && (p.Warning.Code != unreachable || len(p.Unreachables) == 0) {
		errs = append(errs, p.Warning.partial(op, "some zones"))
	}
	for _, scope := range p.Unreachables {
		if concerns(scope, region) {
			errs = append(errs, (&warning{Code: unreachable}).partial(op, scope))
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(p.Items)) {
		if concerns(scope, region) {
			errs = append(errs, p.Items[scope].Warning.partial(op, scope))
		}
	}
	return cmp.Or(errs...)
}

// concerns reports whether a scope, such as zones/<zone> or regions/<region>, may be in a region:
// all but the zones of other regions and these themselves.
func concerns(scope, region string) bool {
	kind, name := path.Base(path.Dir(scope)), path.Base(scope)
	switch kind {
	case "zones":
		return regionOf(name) == region
	case "regions":
		return name == region
	}
	return true
}

// page reads a page of what is in all zones; it may lack only what is in other regions.
func (c *client) page(ctx context.Context, op, kind, region, q string) (scopedPage, error) {
	var out scopedPage
	if e := c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: "/aggregated/" + kind + q, Out: &out}); e != nil {
		return scopedPage{}, e
	}
	return out, out.check(op, region)
}

// instanceFields are what a listing shows of instances: not the metadata, which has the user data.
// items is a map by zone, of which * selects all.
const instanceFields = "nextPageToken,unreachables,warning(code),items/*/warning(code)," +
	"items/*/instances(name,zone,machineType,status," +
	"statusMessage,creationTimestamp,labels,tags(items),networkInterfaces(networkIP,ipv6Address," +
	"accessConfigs(natIP,externalIpv6),ipv6AccessConfigs(externalIpv6)))"

// instances yields all instances of the project, or an error if those of a region are not all there.
// They are sorted out here: a filter costs more of the project's quota than a plain listing.
func (c *client) instances(ctx context.Context, op, region string) iter.Seq2[instance, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, token string) ([]instance, string, error) {
		out, err := c.page(ctx, op, "instances", region, query("", instanceFields, token))
		var all []instance
		for _, zone := range slices.Sorted(maps.Keys(out.Items)) {
			all = append(all, out.Items[zone].Instances...)
		}
		return all, out.Next, err
	})
}

// disks yields the disks of the project that pass a filter, or an error if those of a region are not
// all there: most are volumes of pods.
func (c *client) disks(ctx context.Context, op, region, filter string) iter.Seq2[disk, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, token string) ([]disk, string, error) {
		out, err := c.page(ctx, op, "disks", region, query(filter, "", token))
		var all []disk
		for _, zone := range slices.Sorted(maps.Keys(out.Items)) {
			all = append(all, out.Items[zone].Disks...)
		}
		return all, out.Next, err
	})
}

// disksIn yields the disks of a zone that pass a filter.
func (c *client) disksIn(ctx context.Context, op, zone, filter string) iter.Seq2[disk, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, token string) ([]disk, string, error) {
		var out struct {
			Items   []disk   `json:"items"`
			Next    string   `json:"nextPageToken"`
			Warning *warning `json:"warning"`
		}
		call := driverkit.Call{Method: http.MethodGet, URL: in(zone, "disks", "") + query(filter, "", token), Out: &out}
		if e := c.do(ctx, op, call); e != nil {
			return nil, "", e
		}
		return out.Items, out.Next, out.Warning.partial(op, zone)
	})
}

// query returns the parameters of a listing.
func query(filter, fields, page string) string {
	q := url.Values{"maxResults": {strconv.Itoa(pageSize)}}
	for key, value := range map[string]string{"filter": filter, "fields": fields, "pageToken": page} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return "?" + q.Encode()
}
