package gcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/gcp"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest/parity"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
)

// TestParity compares the driver with MCM's for GCP (provider-gcp f192d121 with MCM v0.62.1), whose requests
// were recorded.
func TestParity(t *testing.T) {
	t.Parallel()
	parity.Run(t, parity.Suite{File: "testdata/parity.jsonl", Ours: requestsForParity, Rules: parityRules()})
}

func parityRules() []parity.Rule {
	return []parity.Rule{
		{
			Path: `networkInterfaces\[0\]/ipv6AccessType`,
			Reason: "Google's description has the field as an output, which follows the subnetwork; the driver asks for " +
				"ipv6AccessConfigs in its place",
		},
		{
			Path: `networkInterfaces\[0\]/ipv6AccessConfigs`,
			Reason: "without one, says Google's description, an instance has no IPv6 access to the internet, for which a " +
				"class with EXTERNAL asks",
		},
		{
			Cases: ".*stackType=1-IPV4_IPV6|e-nic-IPV4_IPV6-.*-noalias-norange", Path: `aliasIpRanges`,
			Reason: "MCM asks for an alias range without a size or a name, although the class asks for none",
		},
		{
			Cases: "a-minimal-no-disk-type|c-disks.0.type=2-|f-disks-several", Path: `diskType`,
			Reason: "MCM names a disk type with an empty name; without the field, the disk has the cloud's default type",
		},
		{
			Cases:  "b-sample.*|c-shieldedInstanceConfiguration=[78].*",
			Path:   `enableVtpm|enableIntegrityMonitoring|shieldedInstanceConfig=\{\}`,
			Reason: "the class says false, which MCM's client library drops",
		},
		{
			Cases: "d-userdata-(ignition|include|jinja)", Path: `metadata/items\[0\]/key`,
			Reason: "only cloud-init or Ignition reads it; MCM has Google's agent run it as a script",
		},
		{
			Cases: "c-metadata=2-.*", Path: `metadata/items\[0\]/value`,
			Reason: "Google's description requires a value with each key, which MCM leaves out",
		},
		{
			Cases: "d-userdata-empty", Path: `metadata/items`,
			Reason: "MCM sends an empty script; no script runs either way",
		},
		{
			Cases: ".*network=1-global_networks_default", Path: `networkInterfaces\[0\]/network`,
			Reason: "the driver takes paths, which MCM puts behind another path",
		},
		{
			Cases: "g-spot-model", Path: `scheduling/(preemptible|provisioningModel)`,
			Reason: "provisioningModel is a field of the driver's own",
		},
		{
			Cases: "d-case-dup|d-case-dup-disks", Path: `/compute/.*/instances|initializeParams/diskSizeGb`,
			Reason: "of two spellings of a field the driver takes the exact one, and says so; MCM takes the last",
		},
		{
			Cases: `c-tags=2-.*`, Path: parity.Stricter,
			Reason: "MCM makes the VM and never finds it again: it looks for both marks",
		},
		{
			Cases: "g-gpu-negative", Path: parity.Stricter,
			Reason: "MCM compares with 0 only; no cloud has -1 accelerators, so that nothing is lost by saying so early",
		},
	}
}

// insertions is a cloud that accepts all requests for VMs, and keeps them.
type insertions struct {
	login http.RoundTripper
	paths []string
	body  []byte
}

func (c *insertions) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "compute.googleapis.com" {
		return c.login.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.paths, c.body = append(c.paths, r.URL.Path), body
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"name":"operation-1","status":"RUNNING"}`)),
	}, nil
}

// requestsForParity are those for a VM of the class of a case.
func requestsForParity(t *testing.T, c parity.Case) ([]parity.Request, error) {
	t.Helper()
	now := newClock().Now
	calls := &insertions{login: cloudtest.HandlerTransport(gcptest.New(gcptest.Options{Now: now}))}
	d := gcp.NewDriver(gcp.Options{Now: now, Transport: calls})
	class, problems := d.Parse(cloud.ClassInput{Name: "class", Namespace: "ns", Spec: c.Class})
	if err := cloud.Worst("parse", problems, cloud.BlocksCreate); err != nil {
		return nil, err
	}
	a, err := d.Open(t.Context(), class, credentials())
	if err != nil {
		t.Fatal(err)
	}
	input := struct{ UserData string }{"#cloud-config\nhostname: x\n"}
	if len(c.Input) > 0 && json.Unmarshal(c.Input, &input) != nil {
		t.Fatalf("%s: input %s", c.Name, c.Input)
	}
	r := cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m1", OwnerID: "22222222-2222-4222-8222-222222222222", Class: class}, Token: "11111111",
		UserData: []byte(input.UserData), Tags: map[string]string{cloud.ClusterIDTag: "c-1"},
		Checkpoint: func(context.Context, string) error { return nil },
	}
	if _, err = a.Create(t.Context(), r); err != nil {
		return nil, err
	}
	if len(calls.paths) != 1 {
		t.Errorf("%s: %v, want one request", c.Name, calls.paths)
	}
	var body map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(calls.body), &body); err != nil {
		t.Fatal(err)
	}
	return []parity.Request{{Op: calls.paths[0], Body: plain(body)}}, nil
}

// plain is a request in the form of the records: without what the driver adds to each, and without
// false where that is what Compute Engine takes an absent value for.
func plain(body map[string]any) map[string]any {
	var tags []string
	network, _ := body["tags"].(map[string]any)
	for _, tag := range network["items"].([]any) {
		tags = append(tags, tag.(string))
	}
	ofDriver := func(key string) bool { return strings.HasPrefix(key, gcptest.Prefix) }
	unlabel := func(of map[string]any, more ...string) {
		labels, _ := of["labels"].(map[string]any)
		maps.DeleteFunc(labels, func(key string, _ any) bool { return ofDriver(key) || slices.Contains(more, key) })
		if len(labels) == 0 {
			delete(of, "labels")
		}
	}
	unlabel(body)
	for _, d := range body["disks"].([]any) {
		params := d.(map[string]any)["initializeParams"].(map[string]any)
		delete(params, "diskName")
		unlabel(params, tags...)
	}
	data, _ := body["metadata"].(map[string]any)
	items, _ := data["items"].([]any)
	keyOf := func(i any) string { return i.(map[string]any)["key"].(string) }
	items = slices.DeleteFunc(items, func(i any) bool { return ofDriver(keyOf(i)) })
	slices.SortStableFunc(items, func(x, y any) int { return strings.Compare(keyOf(x), keyOf(y)) })
	data["items"] = items
	return withoutFalse(body).(map[string]any)
}

// withoutFalse is a value without the fields that are false, but for those that Compute Engine's
// documentation says are true by default.
func withoutFalse(v any) any {
	trueByDefault := []string{"automaticRestart", "enableVtpm", "enableIntegrityMonitoring"}
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key] = withoutFalse(inner); inner == false && !slices.Contains(trueByDefault, key) {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutFalse(v[i])
		}
	}
	return v
}
