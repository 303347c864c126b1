package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opLogin = "log in"

// service is one of OpenStack's.
type service string

// The services that are called.
const (
	nova    service = "compute"
	glance  service = "image"
	neutron service = "network"
	cinder  service = "block storage"
	octavia service = "load balancer"
)

// serviceTypes are the names of a service in catalogs, the best first, and what
// its URL has to end with.
var serviceTypes = map[service]struct {
	names  []string
	suffix string
}{
	nova:    {names: []string{"compute"}},
	glance:  {names: []string{"image"}, suffix: "v2"},
	neutron: {names: []string{"network", "networking"}, suffix: "v2.0"},
	cinder:  {names: []string{"volumev3", "block-storage", "block-store", "volume"}},
	octavia: {names: []string{"load-balancer"}, suffix: "v2.0"},
}

// auth is what a login gives.
type auth struct {
	token   string
	project string             // that it is for; empty if it is for none
	urls    map[service]string // with a slash at the end
}

// session makes calls with a login that is renewed when Keystone has ended it.
type session struct {
	driver *Driver
	who    login
	region string

	calls driverkit.Session[auth]
}

// connect returns a session that has not logged in yet.
func (d *Driver) connect(who login, region string) (*session, error) {
	config, err := who.tls()
	if err != nil {
		return nil, err
	}
	transport := d.transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
		own.TLSClientConfig = config
		transport = own
	}
	const longest = 10 * time.Minute // those who call have shorter limits
	s := &session{driver: d, who: who, region: region}
	s.calls.API = driverkit.API{
		HTTP: &http.Client{Transport: transport}, UserAgent: "cluster-api-provider-mcm", Errors: reactions, Refusal: said,
		Timeout: longest, Now: d.now,
	}
	s.calls.Login = driverkit.NewLogin(driverkit.LoginOptions{
		Refusals: &d.refusals, Fingerprint: who.fingerprint, Now: d.now,
	}, s.authenticate)
	return s, nil
}

// close ends the session.
func (s *session) close() {
	s.calls.Login.Close()
	if s.driver.transport == nil {
		s.calls.API.HTTP.CloseIdleConnections()
	}
}

// catalog is what Keystone tells of the services.
type catalog []struct {
	Type      string `json:"type"`
	Endpoints []struct {
		Interface string `json:"interface"`
		Region    string `json:"region"`
		RegionID  string `json:"region_id"`
		URL       string `json:"url"`
	} `json:"endpoints"`
}

// authenticate asks Keystone for a token.
func (s *session) authenticate(ctx context.Context) (auth, error) {
	options := s.who.authOptions()
	scope, err := options.ToTokenV3ScopeMap()
	body := map[string]any{}
	if err == nil {
		body, err = options.ToTokenV3CreateMap(scope)
	}
	if err != nil {
		return auth{}, cloud.Errorf(cloud.Denied, opLogin, "NoCredentials", "the credentials cannot be used: %w",
			driverkit.Innermost(err))
	}
	var header http.Header
	var out struct {
		Token struct {
			Catalog catalog `json:"catalog"`
			Project struct {
				ID string `json:"id"`
			} `json:"project"`
		} `json:"token"`
	}
	if failed := s.calls.API.Do(ctx, opLogin, driverkit.Call{
		Method: http.MethodPost, URL: options.IdentityEndpoint + "auth/tokens", Body: body, Out: &out, OutHeader: &header,
	}); failed != nil {
		return auth{}, refused(failed)
	}
	a, err := s.authOf(header.Get("X-Subject-Token"), out.Token.Catalog)
	a.project = out.Token.Project.ID
	return a, err
}

// authOf returns a login with this token and the services of the catalog.
func (s *session) authOf(token string, all catalog) (auth, error) {
	if token == "" {
		return auth{}, cloud.Errorf(cloud.Unavailable, opLogin, "NoToken", "the answer of Keystone has no token")
	}
	a := auth{token: token, urls: map[service]string{}}
	for of := range serviceTypes {
		if url := s.find(all, of); url != "" {
			a.urls[of] = url
		}
	}
	if a.urls[nova] == "" {
		return auth{}, s.noRegion(all)
	}
	return a, nil
}

// refused returns the error of a login. Keystone answers 404 for an application
// credential that was deleted.
func refused(e *cloud.Error) error {
	switch e.Code {
	case cloud.NotFound, cloud.Invalid, cloud.Denied:
		e.Code = cloud.Denied
		e.Err = fmt.Errorf("the credentials of the Secret are refused by Keystone; correct them: %w", e.Err)
	case cloud.Exhausted, cloud.TokenUsed, cloud.Unknown:
		e.Code = cloud.Unavailable
	case cloud.Throttled, cloud.Unavailable:
	}
	return e
}

// find returns the URL of a service in the region, with a slash at its end;
// empty if there is none.
func (s *session) find(all catalog, of service) string {
	for _, name := range serviceTypes[of].names {
		for _, entry := range all {
			if entry.Type != name {
				continue
			}
			for _, e := range entry.Endpoints {
				if e.Interface == string(s.who.endpoints) && (e.Region == s.region || e.RegionID == s.region) {
					return versioned(e.URL, serviceTypes[of].suffix)
				}
			}
		}
	}
	return ""
}

// versioned adds the version to a URL that has none.
func versioned(url, suffix string) string {
	url = strings.TrimRight(url, "/")
	if suffix == "v2.0" {
		url = strings.TrimSuffix(url, "/v2") // Octavia's other name of it
	}
	if suffix != "" && !strings.HasSuffix(url, "/"+suffix) {
		url += "/" + suffix
	}
	return url + "/"
}

// reasonNoRegion is that of a catalog without the region.
const reasonNoRegion = "NoSuchRegion"

// noRegion is the error of a catalog without the region.
func (s *session) noRegion(all catalog) error {
	var regions []string
	for _, entry := range all {
		for _, e := range entry.Endpoints {
			if entry.Type == "compute" && !slices.Contains(regions, e.Region) {
				regions = append(regions, e.Region)
			}
		}
	}
	slices.Sort(regions)
	e := cloud.Errorf(cloud.Invalid, opLogin, reasonNoRegion, "Nova has no %s endpoint in region %q, only in: %s",
		s.who.endpoints, s.region, strings.Join(regions, ", "))
	return driverkit.WithField(e, "spec.region", "name a region of the catalog")
}

// has reports whether the catalog has a service.
func (s *session) has(ctx context.Context, of service) bool {
	a, _, err := s.calls.Login.Get(ctx, opLogin)
	return err == nil && a.urls[of] != ""
}

// call is one request. The zero value of each field is none.
type call struct {
	method string
	of     service
	path   string // relative to the service's URL
	body   any
	out    any // pointer
	header map[string]string
}

// ask makes a call.
func (s *session) ask(ctx context.Context, op string, c call) error {
	a, _, err := s.calls.Login.Get(ctx, op)
	if err != nil {
		return err
	}
	if a.urls[c.of] == "" {
		return cloud.Errorf(cloud.Unavailable, op, "NoEndpoint", "the catalog has no %s service in region %q", c.of, s.region)
	}
	failed := s.calls.Do(ctx, op, func(now auth) driverkit.Call {
		header := map[string]string{"X-Auth-Token": now.token}
		maps.Copy(header, c.header)
		return driverkit.Call{
			Method: c.method, URL: cmp.Or(now.urls[c.of], a.urls[c.of]) + c.path, Header: header, Body: c.body, Out: c.out,
		}
	})
	if failed == nil {
		return nil
	}
	if failed.Reason == reasonNoRegion { // it has gone
		failed.Code, failed.Problems = cloud.Unavailable, nil
	}
	return failed
}
