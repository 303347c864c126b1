package kubevirt

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Paths of API groups.
const (
	kubevirtAPI     = "/apis/kubevirt.io/v1"
	instancetypeAPI = "/apis/instancetype.kubevirt.io/v1beta1"
	subresourceAPI  = "/apis/subresources.kubevirt.io/v1"
	cdiAPI          = "/apis/cdi.kubevirt.io/v1beta1"
	coreAPI         = "/api/v1"
)

// pageSize is how many objects one answer of a listing holds.
const pageSize = 500

// collection is one kind of object in the account's namespace.
type collection struct{ api, plural string }

// The collections that the driver works with.
var (
	machines    = collection{kubevirtAPI, "virtualmachines"}
	instances   = collection{kubevirtAPI, "virtualmachineinstances"}
	dataVolumes = collection{cdiAPI, "datavolumes"}
	secrets     = collection{coreAPI, "secrets"}
	pods        = collection{coreAPI, "pods"}
)

// client is one API server, with the namespace of a kubeconfig.
type client struct {
	session   driverkit.Session[string]
	server    string
	namespace string
	limit     int
	own       *http.Transport // nil if the driver was given one
}

// connect returns a client that has made no call yet. Its login is a question that only a user of
// the API server gets an answer to.
func (d *Driver) connect(at config, creds cloud.Credentials) (*client, error) {
	c := &client{server: at.Server, namespace: at.Namespace, limit: d.limit}
	through := d.transport
	if d.transport == nil {
		own, err := at.transport()
		if err != nil {
			return nil, err
		}
		c.own, through = own, own
	}
	c.session.API = driverkit.API{
		HTTP: &http.Client{Transport: quoting{through}}, UserAgent: "cluster-api-provider-mcm", Errors: table,
		Refusal: refusal, Now: d.now,
	}
	c.session.Login = driverkit.NewLogin(driverkit.LoginOptions{
		Refusals: &d.refusals, Fingerprint: creds.Fingerprint(), Now: d.now,
	}, func(ctx context.Context) (string, error) {
		call := driverkit.Call{Method: http.MethodGet, URL: c.server + kubevirtAPI, Header: bearer(at.Token)}
		switch e := c.session.API.Do(ctx, "log in", call); {
		case e == nil:
			return at.Token, nil
		case e.Code == cloud.NotFound:
			return "", cloud.Errorf(cloud.Invalid, "log in", "NoKubeVirt",
				"the API server of the kubeconfig has no KubeVirt; install it, or name another cluster")
		default:
			return "", e
		}
	})
	return c, nil
}

// bearer is the header with a token; nil without one.
func bearer(token string) map[string]string {
	if token == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + token}
}

// do makes a call, whose URL is relative to the server's.
func (c *client) do(ctx context.Context, op string, call driverkit.Call) *cloud.Error {
	call.URL = c.server + call.URL
	return c.session.Do(ctx, op, func(token string) driverkit.Call {
		with := call
		with.Header = bearer(token)
		for key, value := range call.Header {
			if with.Header == nil {
				with.Header = map[string]string{}
			}
			with.Header[key] = value
		}
		return with
	})
}

// path is that of a collection, or of an object in it, or of a part of that.
func (c *client) path(of collection, parts ...string) string {
	all := []string{of.api, "namespaces", url.PathEscape(c.namespace), of.plural}
	for _, part := range parts {
		all = append(all, url.PathEscape(part))
	}
	return strings.Join(all, "/")
}

// get reads an object; found is false if there is none.
func (c *client) get(ctx context.Context, op string, of collection, name string, out any) (found bool, err error) {
	e := c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: c.path(of, name), Out: out})
	switch {
	case e == nil:
		return true, nil
	case e.Code == cloud.NotFound:
		return false, nil
	}
	return false, e
}

// post makes an object. The API server refuses fields that it does not know: it would leave them
// out otherwise.
func (c *client) post(ctx context.Context, op string, of collection, object, out any) *cloud.Error {
	return c.do(ctx, op, driverkit.Call{
		Method: http.MethodPost, URL: c.path(of) + "?fieldValidation=Strict", Body: object, Out: out,
	})
}

// merge changes fields of an object.
func (c *client) merge(ctx context.Context, op string, of collection, name string, change any) *cloud.Error {
	return c.do(ctx, op, driverkit.Call{
		Method: http.MethodPatch, URL: c.path(of, name), Body: change,
		Header: map[string]string{"Content-Type": "application/merge-patch+json"},
	})
}

// put asks for something to be done to a VM or an instance.
func (c *client) put(ctx context.Context, op string, of collection, name, what string) *cloud.Error {
	of.api = subresourceAPI
	return c.do(ctx, op, driverkit.Call{Method: http.MethodPut, URL: c.path(of, name, what), Body: struct{}{}})
}

// remove asks for an object to go, with what is its, unless another one has got its name since.
// It reports whether it has gone by then.
func (c *client) remove(ctx context.Context, op string, of collection, m meta) (gone bool, err error) {
	policy := "Background"
	if of == machines {
		policy = "Foreground" // the VM stays until its instance and its volumes have gone
	}
	body := map[string]any{
		"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy,
		"preconditions": map[string]string{"uid": m.UID},
	}
	var left struct {
		Metadata meta `json:"metadata"`
	}
	e := c.do(ctx, op, driverkit.Call{Method: http.MethodDelete, URL: c.path(of, m.Name), Body: body, Out: &left})
	switch {
	case e == nil:
		return of != machines && len(left.Metadata.Finalizers) == 0, nil
	case e.Code == cloud.NotFound, reasonOf(e) == reasonConflict:
		return true, nil // another object has the name, or none
	}
	return false, driverkit.Restrict(e)
}

// list yields the objects of a collection that have these labels, page by page. An error on any
// page ends it, since a listing that is silently short makes orphans of VMs.
func list[T any](ctx context.Context, c *client, op string, of collection, labels map[string]string,
) iter.Seq2[T, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, page string) ([]T, string, error) {
		query := url.Values{"limit": {strconv.Itoa(c.limit)}, "labelSelector": {selector(labels)}}
		if page != "" {
			query.Set("continue", page)
		}
		var out struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		e := c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: c.path(of) + "?" + query.Encode(), Out: &out})
		if e != nil {
			return nil, "", e
		}
		return out.Items, out.Metadata.Continue, nil
	})
}

// selector is Kubernetes' way to write wanted labels.
func selector(labels map[string]string) string {
	var all []string
	for key, value := range labels {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// status is how an API server refuses a call.
type status struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// refusal reads an API server's errors. Those of KubeVirt's own API are a text.
func refusal(body []byte) (code, message string) {
	var said status
	if json.Unmarshal(body, &said) != nil || said.Kind != "Status" {
		return "", ""
	}
	return said.Reason, said.Message
}

// quoting makes JSON of answers that are plain text: the logs of pods.
type quoting struct{ http.RoundTripper }

// RoundTrip makes a call.
func (q quoting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := q.RoundTripper.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK ||
		!strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") {
		return answer, err
	}
	const most = 16 << 20
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	_ = answer.Body.Close()
	if err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(string(text))
	answer.Body = io.NopCloser(bytes.NewReader(quoted))
	answer.ContentLength = int64(len(quoted))
	return answer, err
}
