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

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// OwnershipTags returns the tags that say what belongs to the stack's cluster.
func OwnershipTags() map[string]string { return maps.Clone(ownership) }

// SetAccounts replaces all accounts of the cloud but the stack's own.
func (c *Cloud) SetAccounts(ctx context.Context, accounts ...sim.Tenant) error {
	own := sim.Tenant{ID: AccountID, SecretKeys: []string{SecretKey}}
	return c.Change(ctx, map[string]any{"accounts": append([]sim.Tenant{own}, accounts...)})
}

// SetCapacity limits how many VMs of a type the stack's zone has; a negative
// number is no limit.
func (c *Cloud) SetCapacity(ctx context.Context, instanceType string, vms int) error {
	in := map[string]any{"zone": Zone, "instanceType": instanceType, "vms": vms}
	return c.call(ctx, http.MethodPut, "/admin/capacity", in, nil)
}

// Kubelet changes how the kubelet of a VM does; see docs/clouds/sim.md.
func (c *Cloud) Kubelet(ctx context.Context, vm string, how map[string]any) error {
	return c.call(ctx, http.MethodPatch, "/admin/vms/"+vm+"/kubelet", how, nil)
}

// Console returns what a VM has written to its console.
func (c *Cloud) Console(ctx context.Context, vm string) ([]sim.ConsoleLine, error) {
	var out []sim.ConsoleLine
	return out, c.call(ctx, http.MethodGet, "/admin/vms/"+vm+"/console", nil, &out)
}

// CallsOf returns how often an account has called an operation.
func (c *Cloud) CallsOf(ctx context.Context, account, operation string) (int, error) {
	var out struct{ Counts []sim.Count }
	if err := c.call(ctx, http.MethodGet, "/admin/calls", nil, &out); err != nil {
		return 0, err
	}
	total := 0
	for _, n := range out.Counts {
		if n.Account == account && n.Op == operation {
			total += n.Total
		}
	}
	return total, nil
}

// ClearFaultsOf takes the faults back that concern one account only.
func (c *Cloud) ClearFaultsOf(ctx context.Context, account string) error {
	var faults []sim.Fault
	if err := c.call(ctx, http.MethodGet, "/admin/faults", nil, &faults); err != nil {
		return err
	}
	for _, f := range faults {
		if f.Account != account {
			continue
		}
		if err := c.call(ctx, http.MethodDelete, fmt.Sprintf("/admin/faults/%d", f.ID), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// MakeVM makes a VM as an account, and returns it.
func (c *Cloud) MakeVM(ctx context.Context, account sim.Tenant, in sim.VMInput) (sim.Resource, error) {
	var out sim.Resource
	text, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Endpoint+"/v1/regions/"+Region+"/vms",
		bytes.NewReader(text))
	if err != nil {
		return out, err
	}
	req.SetBasicAuth(account.ID, account.SecretKeys[0])
	resp, err := c.http.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return out, fmt.Errorf("make VM: %s: %s", resp.Status, strings.TrimSpace(string(answer)))
	}
	return out, json.Unmarshal(answer, &out)
}

// Disrupt does to a VM what happens to VMs: terminate, reclaim, stop, start, fail.
func (c *Cloud) Disrupt(ctx context.Context, id, how string) error {
	return c.call(ctx, http.MethodPost, "/admin/vms/"+id+"/"+how, nil, nil)
}
