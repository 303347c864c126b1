package hetzner_test

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

func samples() []cloudtest.Sample {
	return []cloudtest.Sample{
		{
			Name: "MCM's", Class: class(map[string]any{"floatingPoolName": "pool", "placementGroupID": "501"}),
			Defaulted: class(map[string]any{
				"floatingPoolName": "pool", "placementGroupID": "501", "assignPublicIPv4": true, "assignPublicIPv6": true,
			}).Spec,
		},
		{Name: "location", Class: class(map[string]any{
			"zone": "fsn1", "networkName": "", "withoutSSHKey": true, "sshFingerprint": "",
		})},
		{Name: "Kubermatic's", Class: class(map[string]any{
			"networks": []string{"nodes"}, "networkName": "", "firewalls": []string{"workers"},
			"labels": map[string]string{"team": "a"}, "assignPublicIPv4": false, "placementGroupPrefix": "spread",
		})},
	}
}

func rules() []cloudtest.Rule {
	rule := func(reason string, change map[string]any, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{
			Name: field + " " + reason, Reason: reason, Class: class(change), Field: field, Severity: severity,
		}
	}
	label := func(key, value string) map[string]any { return map[string]any{"labels": map[string]string{key: value}} }
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	return []cloudtest.Rule{
		rule("MCM requires it, and nothing is owned without", map[string]any{"cluster": ""}, "providerSpec.cluster", all),
		rule("it is a label", map[string]any{"cluster": "a b"}, "providerSpec.cluster", all),
		rule("MCM requires it", map[string]any{"zone": ""}, "providerSpec.zone", create),
		rule("no location is like that", map[string]any{"zone": "fsn1/dc1"}, "providerSpec.zone", create),
		rule("MCM requires it", map[string]any{"serverType": ""}, "providerSpec.serverType", create),
		rule("MCM requires it", map[string]any{"imageName": ""}, "providerSpec.imageName", create),
		rule("MCM requires it", map[string]any{"sshFingerprint": ""}, "providerSpec.sshFingerprint", create),
		rule("one may do without a key", map[string]any{"sshFingerprint": "", "withoutSSHKey": true}, "", 0),
		rule("the key counts", map[string]any{"withoutSSHKey": true}, "providerSpec.withoutSSHKey", warning),
		rule("it is an id", map[string]any{"placementGroupID": "spread"}, "providerSpec.placementGroupID", create),
		rule("MCM does not use it then", map[string]any{"placementGroupID": "501"}, "providerSpec.placementGroupID", warning),
		rule("the id counts", map[string]any{
			"placementGroupID": "501", "placementGroupPrefix": "a", "floatingPoolName": "pool",
		},
			"providerSpec.placementGroupPrefix", warning),
		rule("it is a label", map[string]any{"floatingPoolName": "a b"}, "providerSpec.floatingPoolName", create),
		rule("nothing could reach the server", map[string]any{
			"networkName": "", "assignPublicIPv4": false, "assignPublicIPv6": false,
		}, "providerSpec.networks", create),
		rule("Hetzner refuses it", map[string]any{"networks": []string{"nodes"}}, "providerSpec.networks", create),
		rule("Hetzner refuses it", label("a key", "1"), "providerSpec.labels[a key]", create),
		rule("Hetzner refuses it", label("team", "-"), "providerSpec.labels[team]", create),
		rule("the driver's own wins", label("topology.kubernetes.io/zone", "z"),
			"providerSpec.labels[topology.kubernetes.io/zone]", warning),
		rule("MCM ignores it", map[string]any{"datacenter": "hel1-dc2"}, "providerSpec.datacenter", warning),
	}
}

func secrets() []cloudtest.Secret {
	return []cloudtest.Secret{
		{Name: "newline", Reason: "MCM strips it", Credentials: func(v cloud.Credentials) cloud.Credentials {
			return cloud.Credentials{"token": append(slices.Clone(v["token"]), '\n')}
		}},
		{
			Name: "none", Reason: "without a token nothing works", Missing: "secret.token",
			Credentials: func(cloud.Credentials) cloud.Credentials { return nil },
		},
	}
}

func providerIDs() []cloudtest.ProviderID {
	return []cloudtest.ProviderID{
		{Form: "MCM", Value: "hcloud:///hel1-dc2/4711", ID: "4711"},
		{Form: "Node", Value: "hcloud://4711", ID: "4711"},
		{Form: "MCM, lost", Value: "hcloud:///hel1-dc2/0", Reason: "MCM's driver writes 0 where it lost the id"},
		{Form: "bare metal", Value: "hcloud://bm-4711", Reason: "it is a server of Hetzner Robot"},
		{Form: "bare metal", Value: "hrobot://4711", Reason: "it is a server of Hetzner Robot"},
	}
}

// errorRows are Hetzner's errors and what comes of them.
func errorRows() []cloudtest.ErrorRow {
	reply := func(status int, code string) cloudtest.Reply {
		return cloudtest.Reply{Status: status, Body: `{"error":{"code":"` + code + `","message":"no","details":null}}`}
	}
	post := func(c cloudtest.Call) bool { return strings.HasPrefix(c.Op, http.MethodPost) }
	create := func(status int, code string, want cloud.Code) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{Name: "create " + code, Op: "create", Match: post, Reply: reply(status, code), Code: want}
	}
	here := &cloud.Offering{Region: "hel1", Zone: "hel1-dc2", InstanceType: "cx23"}
	stock, full := create(412, "resource_unavailable", cloud.Exhausted), create(422, "placement_error", cloud.Exhausted)
	stock.Of, full.Of = here, here
	group := create(422, "placement_group_member_limit_reached", cloud.Exhausted)
	slow := create(429, "rate_limit_exceeded", cloud.Throttled)
	slow.After = 10 * time.Second
	return []cloudtest.ErrorRow{
		stock, full, group, slow,
		create(403, "resource_limit_exceeded", cloud.Exhausted), create(409, "no_subnet_available", cloud.Exhausted),
		create(404, "not_found", cloud.Invalid), create(400, "invalid_input", cloud.Invalid),
		create(400, "invalid_server_type", cloud.Invalid), create(403, "forbidden", cloud.Denied),
		create(423, "locked", cloud.Unavailable), create(409, "conflict", cloud.Unavailable),
		create(503, "maintenance", cloud.Unavailable), create(500, "server_error", cloud.Unavailable),
		{Name: "list failing", Op: "list", Reply: cloudtest.Reply{Status: 503}, Code: cloud.Unavailable},
		{Name: "get forbidden", Op: "get", Reply: reply(403, "forbidden"), Code: cloud.Denied, Reason: "Forbidden"},
		{
			Name: "protected", Op: "delete",
			Match: func(c cloudtest.Call) bool { return strings.HasPrefix(c.Op, http.MethodDelete) },
			Reply: reply(403, "protected"), Code: cloud.Denied, Reason: "Protected",
		},
	}
}
