package example

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// item is a VM or a disk as the cloud shows it.
type item struct {
	ID       string            `json:"id"`
	Key      string            `json:"key,omitempty"`
	Zone     string            `json:"zone,omitempty"`
	Type     string            `json:"type,omitempty"`
	Image    string            `json:"image,omitempty"`
	DiskGiB  int32             `json:"disk_gib,omitempty"`
	State    string            `json:"state,omitempty"`
	Address  string            `json:"address,omitempty"`
	VM       string            `json:"vm,omitempty"` // that a disk is attached to
	Labels   map[string]string `json:"labels"`
	UserData []byte            `json:"user_data,omitempty"`
	Created  time.Time         `json:"created"`
}

// client speaks to the cloud with the credentials of one Secret.
type client struct {
	url     string
	session driverkit.Session[string] // the login is a token
}

func (d *Driver) connect(address, key string, creds cloud.Credentials) *client {
	c := &client{url: address}
	c.session.API = driverkit.API{
		HTTP: &http.Client{Transport: d.transport}, UserAgent: "cluster-api-provider-mcm", Errors: table, Refusal: refusal,
	}
	c.session.Login = driverkit.NewLogin(driverkit.LoginOptions{
		Refusals: &d.refusals, Fingerprint: creds.Fingerprint(),
	}, func(ctx context.Context) (string, error) {
		var out struct{ Token string }
		e := c.session.API.Do(ctx, "log in", driverkit.Call{
			Method: http.MethodPost, URL: address + "/login", Body: map[string]string{"key": key}, Out: &out,
		})
		if e != nil {
			return "", e
		}
		return out.Token, nil
	})
	return c
}

// refusal reads the cloud's errors.
func refusal(body []byte) (code, message string) {
	var said struct{ Code, Message string }
	_ = json.Unmarshal(body, &said) // what is none of the cloud's is not quoted
	return said.Code, said.Message
}

// do makes a call, whose URL is relative to the cloud's, with the token.
func (c *client) do(ctx context.Context, op string, call driverkit.Call) *cloud.Error {
	call.URL = c.url + call.URL
	return c.session.Do(ctx, op, func(token string) driverkit.Call {
		call.Header = map[string]string{"Authorization": "Bearer " + token}
		return call
	})
}

// list yields the VMs ("vms") or disks ("disks") that have these labels, page by page. A
// label without a value may have any.
func (c *client) list(ctx context.Context, op, kind string, labels map[string]string) iter.Seq2[item, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, page string) ([]item, string, error) {
		query := url.Values{"page": {page}}
		for key, value := range labels {
			query.Add("label", key+":"+value)
		}
		var out struct {
			Items []item
			Next  string
		}
		e := c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: "/" + kind + "?" + query.Encode(), Out: &out})
		if e != nil {
			return nil, "", e
		}
		return out.Items, out.Next, nil
	})
}

// remove deletes a VM or a disk. One that has gone is no error.
func (c *client) remove(ctx context.Context, op, kind, id string) error {
	e := c.do(ctx, op, driverkit.Call{Method: http.MethodDelete, URL: "/" + kind + "/" + id})
	if e == nil || e.Code == cloud.NotFound {
		return nil
	}
	return driverkit.Restrict(e)
}
