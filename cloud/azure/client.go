package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const userAgent = "cluster-api-provider-mcm"

// The versions of the APIs that the driver speaks.
const (
	computeVersion   = "2025-04-01"
	diskVersion      = "2025-01-02"
	skuVersion       = "2021-07-01"
	networkVersion   = "2025-01-01"
	resourcesVersion = "2021-04-01"
	termsVersion     = "2021-01-01"
)

// client makes the calls of a subscription.
type client struct {
	place        place
	subscription string
	http         *http.Client
	files        driverkit.TokenFiles
	session      driverkit.Session[string]
}

func (d *Driver) connect(at place, who login, fingerprint string) *client {
	if d.options.Endpoint != "" {
		at = place{api: d.options.Endpoint, authority: d.options.Endpoint}
	}
	c := &client{
		place: at, subscription: who.subscription, http: &http.Client{Transport: d.options.Transport}, files: d.files,
	}
	c.session.API = driverkit.API{
		HTTP: c.http, UserAgent: userAgent, Errors: table, Refusal: refusal, RequestID: "x-ms-request-id",
		Now: d.options.Now,
	}
	c.session.Login = driverkit.NewLogin(driverkit.LoginOptions{
		Refusals: &d.refusals, Fingerprint: fingerprint, Now: d.options.Now,
	}, func(ctx context.Context) (string, error) {
		token, e := c.logIn(ctx, who)
		if e != nil {
			return "", e
		}
		return token, nil
	})
	return c
}

// logIn asks for a token by OAuth's client credentials: a secret, or a token of another
// identity provider, which is read again each time because it changes.
func (c *client) logIn(ctx context.Context, who login) (string, *cloud.Error) {
	const op = "log in"
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {who.client}, "scope": {c.place.api + "/.default"},
	}
	if who.tokenFile == "" {
		form.Set("client_secret", who.secret)
	} else {
		token, err := who.token(c.files)
		if err != nil {
			return "", cloud.Errorf(cloud.Denied, op, "NoToken", "%w", err)
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", token)
	}
	address := c.place.authority + "/" + url.PathEscape(who.tenant) + "/oauth2/v2.0/token"
	status, body, e := c.raw(ctx, op, http.MethodPost, address, form.Encode())
	if e != nil {
		return "", e
	}
	var said struct {
		Token       string `json:"access_token"`
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	wrong := json.Unmarshal(body, &said)
	if status != http.StatusOK {
		description, _, _ := strings.Cut(said.Description, "\n") // ids and times follow
		return "", table.Error(op, driverkit.Answer{Status: status, Code: said.Code, Message: description})
	}
	if wrong != nil || said.Token == "" {
		return "", driverkit.BrokenAnswer(op, "the answer to the login has no token")
	}
	return said.Token, nil
}

// raw makes a call without the session, and returns the answer whatever its status.
func (c *client) raw(ctx context.Context, op, method, address, form string) (status int, body []byte, e *cloud.Error) {
	const most = 4 << 20
	if e := driverkit.NotSent(ctx, op); e != nil {
		return 0, nil, e
	}
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form))
	if err != nil {
		return 0, nil, cloud.Errorf(cloud.Unknown, op, "BadRequest", "the request cannot be written: %w",
			driverkit.Innermost(err))
	}
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("User-Agent", userAgent)
	plain := *c.http
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := plain.Do(request)
	if err != nil {
		return 0, nil, driverkit.NoAnswer(ctx, op, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err = io.ReadAll(io.LimitReader(answer.Body, most)); err != nil {
		return 0, nil, driverkit.NoAnswer(ctx, op, err)
	}
	return answer.StatusCode, body, nil
}

// request is a call of Resource Manager.
type request struct {
	method, path, version string
	query                 url.Values
	header                map[string]string
	body, out             any
}

// do makes a call with a token.
func (c *client) do(ctx context.Context, op string, r request) *cloud.Error {
	query := url.Values{"api-version": {r.version}}
	maps.Copy(query, r.query)
	address := c.place.api + r.path + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
	return c.send(ctx, op, driverkit.Call{Method: r.method, URL: address, Body: r.body, Out: r.out, Header: r.header})
}

// send makes a call whose URL is whole.
func (c *client) send(ctx context.Context, op string, call driverkit.Call) *cloud.Error {
	header := call.Header
	return c.session.Do(ctx, op, func(token string) driverkit.Call {
		call.Header = map[string]string{"Authorization": "Bearer " + token}
		maps.Copy(call.Header, header)
		return call
	})
}

// list yields what a call lists, page by page. The cloud gives the URL of each next page,
// which gets the token only at the same host.
func list[T any](ctx context.Context, c *client, op string, r request) iter.Seq2[T, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, page string) ([]T, string, error) {
		var out struct {
			Value []T    `json:"value"`
			Next  string `json:"nextLink"`
		}
		var e *cloud.Error
		switch {
		case page == "":
			r.method, r.out = http.MethodGet, &out
			e = c.do(ctx, op, r)
		case !strings.HasPrefix(page, c.place.api+"/"):
			e = cloud.Errorf(cloud.Unavailable, op, "BrokenAnswer", "the next page of a listing is not at %s", c.place.api)
		default:
			e = c.send(ctx, op, driverkit.Call{Method: http.MethodGet, URL: page, Out: &out})
		}
		if e != nil {
			return nil, "", e
		}
		return out.Value, out.Next, nil
	})
}

// The providers of the kinds of resources, as in their types and ids.
const (
	vmType      = "Microsoft.Compute/virtualMachines"
	diskType    = "Microsoft.Compute/disks"
	nicType     = "Microsoft.Network/networkInterfaces"
	resourceAPI = "Microsoft.Resources/tags/default"
)

// group is the path of a resource group; empty is that of the class.
func (c *client) group(s *spec, name string) string {
	return "/subscriptions/" + url.PathEscape(c.subscription) + "/resourceGroups/" +
		url.PathEscape(cmp.Or(name, s.ResourceGroup))
}

// path is that of a resource of the class's group, or of all of them if name is empty.
func (c *client) path(s *spec, kind, name string) string {
	all := c.group(s, "") + "/providers/" + kind
	if name == "" {
		return all
	}
	return all + "/" + url.PathEscape(name)
}
