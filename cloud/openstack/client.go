package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	tokens3 "github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

const (
	opLogin      = "log in"
	loginTimeout = 30 * time.Second
)

// service is one of OpenStack's.
type service string

// The services that are called.
const (
	nova    service = "compute"
	glance  service = "image"
	neutron service = "network"
	cinder  service = "block storage"
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
}

// session is a login that is renewed when Keystone has ended it.
type session struct {
	driver *Driver
	who    login
	region string

	http http.Client
	life context.Context //nolint:containedctx // it ends with the session
	over context.CancelFunc

	mu       sync.Mutex
	token    string
	urls     map[service]string
	renewing *renewal // nil when nobody logs in
}

// renewal is a login that several callers may wait for.
type renewal struct {
	done chan struct{}
	err  *cloud.Error
}

// connect returns a session that has not logged in yet.
func (d *Driver) connect(ctx context.Context, who login, region string) (*session, error) {
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
	s := &session{driver: d, who: who, region: region, http: http.Client{Transport: transport}}
	s.life, s.over = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// close ends the session. What is under way fails.
func (s *session) close() {
	s.over()
	if s.driver.transport == nil {
		s.http.CloseIdleConnections()
	}
}

// renew logs in unless somebody has done so since stale was the token. Those who
// want it at the same time share one login, which none of them can cancel.
func (s *session) renew(ctx context.Context, op, stale string) *cloud.Error {
	s.mu.Lock()
	if s.token != "" && s.token != stale {
		s.mu.Unlock()
		return nil
	}
	mine := s.renewing
	if mine == nil {
		mine = &renewal{done: make(chan struct{})}
		s.renewing = mine
		go s.logIn(mine) //nolint:contextcheck // none of those who wait can cancel it
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		if mine.err == nil {
			return nil
		}
		e := *mine.err
		return &e
	case <-ctx.Done():
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "no answer from Keystone: %w", ctx.Err())
	}
}

// logIn makes one login and tells those who wait.
func (s *session) logIn(r *renewal) {
	ctx, cancel := context.WithTimeout(s.life, loginTimeout)
	defer cancel()
	token, urls, err := s.authenticate(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.err = err; err == nil {
		s.token, s.urls = token, urls
	}
	s.renewing = nil
	close(r.done)
}

// authenticate asks Keystone for a token. Credentials that it refused lately are
// not tried.
func (s *session) authenticate(ctx context.Context) (token string, urls map[service]string, failed *cloud.Error) {
	if s.driver.refusals.Lately(s.who.fingerprint, s.driver.now()) {
		return "", nil, cloud.Errorf(cloud.Denied, opLogin, "RefusedLately",
			"Keystone refused these credentials a moment ago; they are tried again in ten minutes, or when they change")
	}
	options := s.who.authOptions()
	identity := &gophercloud.ServiceClient{ProviderClient: s.client(), Endpoint: options.IdentityEndpoint}
	result := tokens3.Create(ctx, identity, &options)
	if result.Err != nil {
		e := refused(ctx, result.Err)
		if e.Code == cloud.Denied {
			s.driver.refusals.Note(s.who.fingerprint, s.driver.now())
		}
		return "", nil, e
	}
	id, err := result.ExtractTokenID()
	catalog, err2 := result.ExtractServiceCatalog()
	if err = errors.Join(err, err2); err != nil || id == "" {
		return "", nil, cloud.Errorf(cloud.Unavailable, opLogin, "NoToken", "the answer of Keystone has no token or catalog")
	}
	urls = map[service]string{}
	for of := range serviceTypes {
		if url := s.find(catalog, of); url != "" {
			urls[of] = url
		}
	}
	if urls[nova] == "" {
		return "", nil, s.noRegion(catalog)
	}
	return id, urls, nil
}

// find returns the URL of a service in the region, with a slash at its end;
// empty if there is none.
func (s *session) find(catalog *tokens3.ServiceCatalog, of service) string {
	for _, name := range serviceTypes[of].names {
		for _, entry := range catalog.Entries {
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
	if suffix != "" && !strings.HasSuffix(url, "/"+suffix) {
		url += "/" + suffix
	}
	return url + "/"
}

// noRegion is the error of a catalog without the region.
func (s *session) noRegion(catalog *tokens3.ServiceCatalog) *cloud.Error {
	var regions []string
	for _, entry := range catalog.Entries {
		for _, e := range entry.Endpoints {
			if entry.Type == "compute" && !slices.Contains(regions, e.Region) {
				regions = append(regions, e.Region)
			}
		}
	}
	slices.Sort(regions)
	e := cloud.Errorf(cloud.Invalid, opLogin, "NoSuchRegion", "Nova has no %s endpoint in region %q, only in: %s",
		s.who.endpoints, s.region, strings.Join(regions, ", "))
	return blame(e, "spec.region", "name a region of the catalog")
}

// current returns the token and the URL of a service.
func (s *session) current(of service) (token, url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, s.urls[of]
}

// has reports whether the catalog has a service.
func (s *session) has(of service) bool {
	_, url := s.current(of)
	return url != ""
}

// client returns a client without any state: tokens are the session's business.
func (s *session) client() *gophercloud.ProviderClient {
	c := &gophercloud.ProviderClient{HTTPClient: s.http}
	c.UserAgent.Prepend("cluster-api-provider-mcm")
	return c
}

// call is one request. The zero value of each field is none.
type call struct {
	method string
	of     service
	path   string // relative to the service's URL
	body   any
	out    any // pointer
	codes  []int
	header map[string]string
}

// ask makes a call. A token that has ended is replaced, once.
func (s *session) ask(ctx context.Context, op string, c call) *cloud.Error {
	if err := ctx.Err(); err != nil {
		return cloud.Errorf(cloud.Unavailable, op, "NotSent", "request not sent: %w", err)
	}
	token, e := s.try(ctx, op, c)
	if e == nil || e.Reason != reasonUnauthorized {
		return e
	}
	if failed := s.renew(ctx, op, token); failed != nil {
		failed.Op = op
		if failed.Code == cloud.Invalid { // the region has gone
			failed.Code, failed.Problems = cloud.Unavailable, nil
		}
		return failed
	}
	_, e = s.try(ctx, op, c)
	return e
}

// try makes a call once and returns the token that it made it with.
func (s *session) try(ctx context.Context, op string, c call) (string, *cloud.Error) {
	token, url := s.current(c.of)
	if url == "" {
		return token, cloud.Errorf(cloud.Unavailable, op, "NoEndpoint", "the catalog has no %s service in region %q", c.of,
			s.region)
	}
	header := map[string]string{"X-Auth-Token": token}
	maps.Copy(header, c.header)
	o := &gophercloud.RequestOpts{JSONBody: c.body, OkCodes: c.codes, MoreHeaders: header}
	if len(o.OkCodes) == 0 {
		o.OkCodes = []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent}
	}
	var raw json.RawMessage
	if c.out != nil {
		o.JSONResponse = &raw
	}
	if _, err := s.client().Request(ctx, c.method, url+c.path, o); err != nil { //nolint:bodyclose // it is closed there
		failed := answer(ctx, op, err)
		if mayHappen(err) {
			failed.Err = uncertain{failed.Err}
		}
		return token, failed
	}
	if c.out == nil {
		return token, nil
	}
	if err := json.Unmarshal(raw, c.out); err != nil || len(raw) == 0 {
		return token, cloud.Errorf(cloud.Unavailable, op, "BrokenAnswer", "%w",
			uncertain{errors.New("the cloud's answer cannot be decoded")})
	}
	return token, nil
}
