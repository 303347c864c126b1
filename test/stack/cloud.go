package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// Region, zone and account of the simulated cloud that the stack uses.
const (
	Region    = "sim-1"
	Zone      = "sim-1a"
	AccountID = "demo"
	SecretKey = "demo-secret"
)

// Cloud is the owner's view of a running simcloud.
type Cloud struct {
	Endpoint string // of its HTTP API
	http     *http.Client
}

func newCloud(address string) *Cloud {
	address = strings.TrimSpace(address)
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return &Cloud{Endpoint: address, http: &http.Client{Timeout: 30 * time.Second}}
}

// Live returns the resources of a kind that are not gone; "" is every kind.
func (c *Cloud) Live(ctx context.Context, kind string) ([]sim.Resource, error) {
	var out []sim.Resource
	return out, c.call(ctx, http.MethodGet, "/admin/resources?kind="+kind, nil, &out)
}

// VMs returns the VMs that are not on their way out, by name.
func (c *Cloud) VMs(ctx context.Context) (map[string]sim.Resource, error) {
	all, err := c.Live(ctx, sim.KindVM)
	if err != nil {
		return nil, err
	}
	out := map[string]sim.Resource{}
	for _, r := range all {
		if r.Deleting.IsZero() {
			out[r.Tags[sim.NameTag]] = r
		}
	}
	return out, nil
}

// Ledger returns every resource of a kind that was ever made.
func (c *Cloud) Ledger(ctx context.Context, kind string) ([]sim.Resource, error) {
	var out []sim.Resource
	return out, c.call(ctx, http.MethodGet, "/admin/ledger?kind="+kind, nil, &out)
}

// Calls returns how many calls the accounts have made.
func (c *Cloud) Calls(ctx context.Context) (int, error) {
	var out struct{ Total int }
	return out.Total, c.call(ctx, http.MethodGet, "/admin/calls", nil, &out)
}

// CallsByOperation returns how often the accounts have called each operation.
func (c *Cloud) CallsByOperation(ctx context.Context) (map[string]int, error) {
	var out struct{ Counts []sim.Count }
	if err := c.call(ctx, http.MethodGet, "/admin/calls", nil, &out); err != nil {
		return nil, err
	}
	calls := map[string]int{}
	for _, n := range out.Counts {
		calls[n.Op] += n.Total
	}
	return calls, nil
}

// UserData returns what a VM boots with.
func (c *Cloud) UserData(ctx context.Context, id string) ([]byte, error) {
	var out struct{ UserData []byte }
	err := c.call(ctx, http.MethodGet, "/admin/vms/"+id+"/user-data", nil, &out)
	return out.UserData, err
}

// StopVM switches a VM off, as a host that fails does.
func (c *Cloud) StopVM(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, "/admin/vms/"+id+"/stop", nil, nil)
}

// Terminate takes a VM away, as somebody in the cloud's console would.
func (c *Cloud) Terminate(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, "/admin/vms/"+id+"/terminate", nil, nil)
}

// CreateVM makes a VM with the ownership tags of the stack's classes and no
// Machine behind it, and returns its id.
func (c *Cloud) CreateVM(ctx context.Context, name string) (string, error) {
	in := sim.VMInput{Zone: Zone, InstanceType: "small", Image: "linux-1", Tags: map[string]string{sim.NameTag: name}}
	maps.Copy(in.Tags, ownership)
	var out sim.Resource
	err := c.call(ctx, http.MethodPost, "/v1/regions/"+Region+"/vms", in, &out)
	return out.ID, err
}

// ownership are the tags that say what belongs to the stack's cluster.
var ownership = map[string]string{"kubernetes.io/cluster/sim": "1", "kubernetes.io/role/node": "1"}

// AddFault makes calls fail from now on.
func (c *Cloud) AddFault(ctx context.Context, f sim.Fault) error {
	return c.call(ctx, http.MethodPost, "/admin/faults", f, nil)
}

// ClearFaults takes all faults back.
func (c *Cloud) ClearFaults(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "/admin/faults", nil, nil)
}

// Change merges a patch into the cloud's settings.
func (c *Cloud) Change(ctx context.Context, patch map[string]any) error {
	return c.call(ctx, http.MethodPatch, "/admin/settings", patch, nil)
}

// call makes one call, as the cloud's owner where the path is an admin's and as
// the account else.
func (c *Cloud) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint+path, body)
	if err != nil {
		return err
	}
	req.SetBasicAuth(AccountID, SecretKey)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(text)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}
