package hetzner

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// client calls Hetzner's API with one token.
type client struct {
	api         driverkit.API
	endpoint    string
	token       string
	fingerprint string
	refusals    *cloud.Refusals
	meter       *meter
	now         func() time.Time
}

func (d *Driver) connect(token string, creds cloud.Credentials) client {
	return client{
		api: driverkit.API{
			HTTP: &http.Client{Transport: d.options.Transport}, UserAgent: "cluster-api-provider-mcm",
			Errors: table, Refusal: refusal, RequestID: "X-Correlation-Id", Now: d.options.Now,
		},
		endpoint: d.options.Endpoint, token: token, fingerprint: creds.Fingerprint(),
		refusals: &d.refusals, meter: &meter{}, now: d.options.Now,
	}
}

// do makes a call, whose URL is relative to the API's. A token that was refused is not tried
// again for a while.
func (c *client) do(ctx context.Context, op string, call driverkit.Call) *cloud.Error {
	if c.refusals.Lately(c.fingerprint, c.now()) {
		return cloud.Errorf(cloud.Denied, op, "RefusedLately",
			"Hetzner refused the token a moment ago; it is tried again in ten minutes, or when the Secret changes")
	}
	if e := c.meter.admit(op, c.now()); e != nil {
		return e
	}
	var header http.Header
	call.URL, call.OutHeader = c.endpoint+call.URL, &header
	call.Header = map[string]string{"Authorization": "Bearer " + c.token}
	e := c.api.Do(ctx, op, call)
	c.meter.learn(header, c.now())
	switch {
	case e == nil:
	case codeOf(e) == "unauthorized":
		c.refusals.Note(c.fingerprint, c.now())
	case e.Code == cloud.Throttled && e.RetryAfter == 0:
		c.meter.empty(c.now())
		// RateLimit-Reset says when the whole hour's bucket is full again, and the next call
		// fits after a second. Others of the project wait for it too.
		e.RetryAfter = throttledWait
	}
	return e
}

// throttledWait is when it is worth asking again after an answer that says nothing of that.
const throttledWait = 10 * time.Second

// get reads what one path shows.
func (c *client) get(ctx context.Context, op, path string, out any) *cloud.Error {
	return c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: path, Out: out})
}

// pageSize is the most that Hetzner puts on a page.
const pageSize = 50

// page is what an answer says about its place in a listing.
type page struct {
	Meta struct {
		Pagination struct {
			LastPage int `json:"last_page"`
		} `json:"pagination"`
	} `json:"meta"`
}

// listed is a kind of things that are listed: their path, which is also their field in answers,
// and the field's value in such an answer.
type listed[A, T any] struct {
	path  string
	items func(answer *A) (all []T, at page)
	id    func(item T) int64
}

// list yields the things of that kind that a query selects, each once, in no order.
//
// Pages have numbers, so what is deleted on one page moves what is on the pages behind it
// forward, past a reader who goes in their order. So the pages are read from the last to the
// second, where what moves comes twice and not never, and the first one again at the end. What
// is made meanwhile has a higher id and comes last.
func list[A, T any](ctx context.Context, c *client, op string, of listed[A, T], query url.Values) iter.Seq2[T, error] {
	next := 1
	seen := map[int64]bool{}
	read := reader[A, T]{c, op, of, query}
	return driverkit.Pages(ctx, func(ctx context.Context, token string) ([]T, string, error) {
		items, at, err := read.page(ctx, next)
		if err != nil {
			return nil, "", err
		}
		fresh := make([]T, 0, len(items))
		for _, item := range items {
			if id := of.id(item); !seen[id] {
				seen[id] = true
				fresh = append(fresh, item)
			}
		}
		switch {
		case token == "" && at.Meta.Pagination.LastPage > 1:
			next = at.Meta.Pagination.LastPage
		case token == "" || next == 1:
			return fresh, "", nil
		default:
			next--
		}
		return fresh, strconv.Itoa(next), nil
	})
}

// reader reads the pages of a listing.
type reader[A, T any] struct {
	*client

	op    string
	of    listed[A, T]
	query url.Values
}

func (r reader[A, T]) page(ctx context.Context, number int) (items []T, at page, err error) {
	asked := url.Values{"page": {strconv.Itoa(number)}, "per_page": {strconv.Itoa(pageSize)}, "sort": {"id:asc"}}
	maps.Copy(asked, r.query)
	var answer A
	if e := r.get(ctx, r.op, "/"+r.of.path+"?"+asked.Encode(), &answer); e != nil {
		return nil, page{}, e
	}
	items, at = r.of.items(&answer)
	return items, at, nil
}
