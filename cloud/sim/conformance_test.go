package sim_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// rules is the validation table.
func rules() []cloudtest.Rule {
	rule := func(reason string, edits spec, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{
			Name: fmt.Sprintf("%s %v", field, edits), Reason: reason, Class: class("rule", edits),
			Field: field, Severity: severity,
		}
	}
	disk := func(d spec) spec { return spec{"disks": []any{spec{"sizeGiB": 20}, d}} }
	tags := func(keys ...string) spec {
		all := map[string]string{}
		for _, key := range keys {
			all[key] = "1"
		}
		return spec{"tags": all}
	}
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	return []cloudtest.Rule{
		rule("the smallest spec", nil, "", 0),
		rule("every field", full(), "", 0),
		rule("a cloud that chooses the zone itself", spec{"zone": nil}, "", 0),
		rule("nothing can be called without it", spec{"endpoint": nil}, "providerSpec.endpoint", all),
		rule("a URL is needed", spec{"endpoint": "sim.invalid:80"}, "providerSpec.endpoint", all),
		rule("credentials in a URL would show up in texts", spec{"endpoint": "http://a:b@sim.invalid"},
			"providerSpec.endpoint", all),
		rule("nothing can be called without it", spec{"region": ""}, "providerSpec.region", all),
		rule("a wrong type does not hide other problems", spec{"region": 1, "image": true}, "providerSpec.image", create),
		rule("without a cluster tag nothing is owned", tags("kubernetes.io/role/node"), "providerSpec.tags", all),
		rule("without a role tag nothing is owned", tags("kubernetes.io/cluster/c1"), "providerSpec.tags", all),
		rule("an ownership tag has to name something", tags("kubernetes.io/cluster/", "kubernetes.io/role/"),
			"providerSpec.tags", all),
		rule("tags are strings", spec{"tags": spec{"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1", "x": 1}},
			"providerSpec.tags[x]", create),
		rule("the manager sets it", tags("kubernetes.io/cluster/c1", "kubernetes.io/role/node", "Name"),
			"providerSpec.tags[Name]", warning),
		rule("it does not keep a VM from being deleted", spec{"instanceType": nil}, "providerSpec.instanceType", create),
		rule("it does not keep a VM from being deleted", spec{"image": " "}, "providerSpec.image", create),
		rule("a disk has a size", disk(spec{}), "providerSpec.disks[1].sizeGiB", create),
		rule("a disk has a size", disk(spec{"sizeGiB": -1}), "providerSpec.disks[1].sizeGiB", create),
		rule("a size is a whole number", disk(spec{"sizeGiB": 1.5}), "providerSpec.disks[1].sizeGiB", create),
		rule("a disk is an object", spec{"disks": []any{7}}, "providerSpec.disks[0]", create),
		rule("a misspelt field is found", disk(spec{"sizeGiB": 1, "sizeGB": 1}), "providerSpec.disks[1].sizeGB", warning),
		rule("an interface has a network", spec{"networks": []any{spec{}}}, "providerSpec.networks[0].id", create),
		rule("a load balancer has an id", spec{"loadBalancers": []any{spec{"port": 1}}}, "providerSpec.loadBalancers[0].id",
			create),
		rule("an id is one element of a path", spec{"loadBalancers": []any{spec{"id": "a/b", "port": 1}}},
			"providerSpec.loadBalancers[0].id", create),
		rule("a port is needed", spec{"loadBalancers": []any{spec{"id": "a"}}}, "providerSpec.loadBalancers[0].port", create),
		rule("a port is at most 65535", spec{"loadBalancers": []any{spec{"id": "a", "port": 65536}}},
			"providerSpec.loadBalancers[0].port", create),
		rule("a boolean is no string", spec{"spot": "true"}, "providerSpec.spot", create),
		rule("a misspelt field is found", spec{"instancetypes": "x"}, "providerSpec.instancetypes", warning),
	}
}

func secrets() []cloudtest.Secret {
	edit := func(key string, change func([]byte) []byte) func(cloud.Credentials) cloud.Credentials {
		return func(c cloud.Credentials) cloud.Credentials {
			if c[key] = change(c[key]); c[key] == nil {
				delete(c, key)
			}
			return c
		}
	}
	spaced := func(v []byte) []byte { return append(append([]byte(" "), v...), '\n') }
	return []cloudtest.Secret{
		{Name: "as documented", Reason: "it is", Credentials: func(c cloud.Credentials) cloud.Credentials { return c }},
		{Name: "account with white space", Reason: "editors leave it", Credentials: edit("accountID", spaced)},
		{Name: "key with white space", Reason: "base64 of echo leaves it", Credentials: edit("secretKey", spaced)},
		{Name: "no account", Reason: "nobody calls", Credentials: edit("accountID", func([]byte) []byte {
			return nil
		}), Missing: "secret.accountID"},
		{Name: "blank key", Reason: "no key", Credentials: edit("secretKey", func([]byte) []byte {
			return []byte(" ")
		}), Missing: "secret.secretKey"},
	}
}

// errorRows is what the cloud answers, and what comes of it.
func errorRows() []cloudtest.ErrorRow {
	row := func(op string, status int, code, extra string, want cloud.Code) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{
			Name: op + " " + code, Op: op, Code: want, Reason: code,
			Reply: cloudtest.Reply{Status: status, Body: fmt.Sprintf(`{"error":{"code":%q,"message":"no"%s}}`, code, extra)},
		}
	}
	with := func(r cloudtest.ErrorRow, change func(*cloudtest.ErrorRow)) cloudtest.ErrorRow {
		change(&r)
		return r
	}
	plain := func(status int, want cloud.Code) cloudtest.ErrorRow {
		return cloudtest.ErrorRow{
			Name: fmt.Sprintf("proxy answers %d", status), Op: "get", Code: want, Reason: fmt.Sprintf("HTTP%d", status),
			Reply: cloudtest.Reply{Status: status, Body: "<html>no</html>"},
		}
	}
	return []cloudtest.ErrorRow{
		row("create", 400, sim.CodeInvalidParameter, "", cloud.Invalid),
		row("create", 400, sim.CodeInvalidRegion, "", cloud.Invalid),
		row("create", 400, sim.CodeInvalidZone, "", cloud.Invalid),
		row("create", 400, sim.CodeInvalidInstanceType, "", cloud.Invalid),
		row("capacity", 400, sim.CodeInvalidInstanceType, "", cloud.Invalid),
		row("create", 400, sim.CodeInvalidImage, "", cloud.Invalid),
		row("create", 400, sim.CodeInvalidNetwork, "", cloud.Invalid),
		row("create", 400, sim.CodeUserDataTooLarge, "", cloud.Invalid),
		row("list", 401, sim.CodeInvalidCredentials, "", cloud.Denied),
		row("delete", 403, sim.CodeAccessDenied, "", cloud.Denied),
		with(row("get", 404, sim.CodeNotFound, "", cloud.NotFound), func(r *cloudtest.ErrorRow) {
			r.Op = "create"
			r.Code, r.Reason = cloud.Unavailable, "DependencyNotFound"
		}),
		row("create", 409, sim.CodeTokenMismatch, "", cloud.TokenUsed),
		row("create", 409, sim.CodeTokenExpired, "", cloud.TokenUsed),
		row("create", 409, sim.CodeIncorrectState, "", cloud.Unavailable),
		with(row("create", 409, sim.CodeInsufficientCapacity,
			`,"region":"r","zone":"z","instanceType":"t","capacityType":"spot"`, cloud.Exhausted),
			func(r *cloudtest.ErrorRow) {
				r.Of = &cloud.Offering{Region: "r", Zone: "z", InstanceType: "t", CapacityType: "spot"}
			}),
		row("create", 409, sim.CodeQuotaExceeded, "", cloud.Exhausted),
		row("create", 409, sim.CodeAddressesExhausted, "", cloud.Exhausted),
		with(row("create", 429, sim.CodeRequestLimitExceeded, `,"retryAfter":"1.5s"`, cloud.Throttled),
			func(r *cloudtest.ErrorRow) {
				r.Reply.Header = map[string]string{"Retry-After": "2"}
				r.After = 1500 * time.Millisecond
			}),
		with(row("get", 429, sim.CodeRequestLimitExceeded, "", cloud.Throttled), func(r *cloudtest.ErrorRow) {
			r.Reply.Header = map[string]string{"Retry-After": "7"}
			r.After = 7 * time.Second
		}),
		row("list", 500, sim.CodeInternalError, "", cloud.Unavailable),
		row("delete", 503, sim.CodeServiceUnavailable, "", cloud.Unavailable),
		row("get", 418, "Teapot", "", cloud.Unknown),
		plain(404, cloud.Unknown), plain(401, cloud.Denied), plain(403, cloud.Denied), plain(429, cloud.Throttled),
		plain(502, cloud.Unavailable), plain(400, cloud.Unknown),
		{
			Name: "not JSON", Op: "get", Code: cloud.Unavailable, Reason: "NoAnswer",
			Reply: cloudtest.Reply{Status: 200, Body: string(bytes.Repeat([]byte("x"), 10))},
		},
	}
}
