package example_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit/example"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// class is a class with these fields of its spec changed.
func class(change map[string]any) cloud.ClassInput {
	fields := map[string]any{
		"url": "http://cloud.example", "zone": "z1", "type": "small", "image": "linux-1",
		"labels": map[string]string{"cluster-c": "1", "role-node": "1"},
	}
	maps.Copy(fields, change)
	spec, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: "class", Namespace: "ns", Spec: spec}
}

func labels(keys ...string) map[string]any {
	all := map[string]string{}
	for _, key := range keys {
		all[key] = "1"
	}
	return map[string]any{"labels": all}
}

// TestConformance takes the driver through the kit.
func TestConformance(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, cloudtest.Harness{
		New: fixture,
		Lacks: map[string]string{
			"C05": "the cloud refuses what it does not know, and ignores no field", "C16": "the cloud shows a VM at once",
			"C24/Many": "a VM has one address", "C33": "the cloud takes no VM away",
			"C36": "the cloud's labels cannot change",
			"C37": "the cloud has no call that restarts a server",
			"C42": "no class keeps anything that is made with a VM",
			"C38": "the cloud has no load balancers", "C39": "the cloud shows no consoles",
			"C43": "the cloud has one account",
			"C44": "a VM is made in one call, under a name that is free", "C45": "a VM is made with all that it has",
			"C46": "the cloud has one stock", "C48": "the cloud ignores no field",
		},
		Samples: []cloudtest.Sample{{
			Name: "smallest", Class: class(nil), Defaulted: class(map[string]any{"diskGiB": 20}).Spec,
		}},
		Rules: rules(), Secrets: secrets(), Errors: errorRows(),
		ProviderIDs: []cloudtest.ProviderID{
			{Form: "manager and Node", Value: "example:///z1/vm-7", ID: "vm-7"},
			{Form: "disk", Value: "example:///z1/disk-7", Reason: "it is no VM"},
		},
		ProviderID: func(vm cloud.VM, _ cloud.Class) (mcm, node string) {
			return "example:///z1/" + vm.ID, "example:///z1/" + vm.ID
		},
		Volumes: []cloudtest.Volume{
			{Name: "csi", Volume: cloud.Volume{Driver: "csi.example.com", Handle: "disk-1"}, ID: "disk-1"},
			{Name: "foreign", Volume: cloud.Volume{Driver: "csi.other.example", Handle: "disk-1"}},
		},
		Capacity: cloud.Capacity{Architecture: "amd64", Resources: map[string]string{
			"cpu": "2", "memory": "4Gi", "ephemeral-storage": "20Gi", "pods": "110",
		}},
		Parallel: 50, Unrecorded: true,
	})
}

// fixture is a cloud of its own.
func fixture(testing.TB) *cloudtest.Fixture {
	s := newServer()
	p := cloudtest.NewProxy(cloudtest.HandlerTransport(s), func(r *http.Request, _ []byte) cloudtest.Call {
		return cloudtest.Call{
			Op: r.Method + " " + r.URL.Path, Login: r.URL.Path == "/login",
			Mutates: r.Method != http.MethodGet && r.URL.Path != "/login",
		}
	})
	return &cloudtest.Fixture{
		Driver: func() cloud.Driver { return example.NewDriver(p) },
		Class:  class(nil),
		Others: map[string]cloud.ClassInput{
			"other cluster": class(labels("cluster-d", "role-node")), "other role": class(labels("cluster-c", "role-gateway")),
		},
		Elsewhere:   class(map[string]any{"type": "large"}),
		Memory:      wrap.Offerings(0, wrap.Clock{}),
		Broken:      class(map[string]any{"type": "", "image": 5}),
		UnknownType: class(map[string]any{"type": "huge"}),
		Credentials: cloud.Credentials{"key": []byte(apiKey), "userData": []byte("#cloud-config")},
		Backend: cloudtest.Backend{
			Proxy: p, Ledger: s.ledger, Seed: s.seed, UserData: s.userData, PageSize: pageSize,
			Advance: func(_ testing.TB, d time.Duration) { locked(s, func() { s.shift += d }) },
			States: []cloudtest.VMState{
				{Name: "off", Set: s.set("off"), Want: cloud.StateStopped},
				{Name: "failed", Set: s.set("failed"), Want: cloud.StateFailed},
			},
			Fail:   s.set("failed"),
			Expire: func(testing.TB) { locked(s, func() { s.session++ }) },
			Revoke: func(testing.TB) { locked(s, func() { s.session++; s.revoked = true }) },
		},
	}
}

func rules() []cloudtest.Rule {
	rule := func(reason string, change map[string]any, field string, severity cloud.Severity) cloudtest.Rule {
		return cloudtest.Rule{
			Name: field + " " + reason, Reason: reason, Class: class(change), Field: field, Severity: severity,
		}
	}
	const create, all, warning = cloud.BlocksCreate, cloud.BlocksAll, cloud.Warning
	return []cloudtest.Rule{
		rule("the cloud chooses a zone", map[string]any{"zone": ""}, "", 0),
		rule("every call needs it", map[string]any{"url": ""}, "providerSpec.url", all),
		rule("nothing is owned without", labels("cluster-c"), "providerSpec.labels", all),
		rule("required", map[string]any{"type": ""}, "providerSpec.type", create),
		rule("required", map[string]any{"image": ""}, "providerSpec.image", create),
		rule("the cloud takes no more", map[string]any{"diskGiB": 2000}, "providerSpec.diskGiB", create),
		rule("no capitals", labels("cluster-c", "role-node", "Team"), "providerSpec.labels[Team]", create),
		rule("a misspelt field", map[string]any{"colour": "red"}, "providerSpec.colour", warning),
	}
}

func secrets() []cloudtest.Secret {
	return []cloudtest.Secret{
		{Name: "newline", Reason: "editors add one", Credentials: func(v cloud.Credentials) cloud.Credentials {
			return cloud.Credentials{"key": append(slices.Clone(v["key"]), '\n')}
		}},
		{
			Name: "none", Reason: "without a key nothing works", Missing: "secret.key",
			Credentials: func(cloud.Credentials) cloud.Credentials { return nil },
		},
	}
}

func errorRows() []cloudtest.ErrorRow {
	reply := func(status int, code string) cloudtest.Reply {
		return cloudtest.Reply{Status: status, Body: `{"code":"` + code + `","message":"no"}`}
	}
	post := func(c cloudtest.Call) bool { return strings.HasPrefix(c.Op, http.MethodPost) && !c.Login }
	slow := reply(http.StatusTooManyRequests, "slow_down")
	slow.Header = map[string]string{"Retry-After": "7"}
	return []cloudtest.ErrorRow{
		{
			Name: "stock", Op: "create", Match: post, Reply: reply(409, "out_of_stock"), Code: cloud.Exhausted,
			Reason: "OutOfStock", Of: &cloud.Offering{Zone: "z1", InstanceType: "small"},
		},
		{
			Name: "quota", Op: "create", Match: post, Reply: reply(403, "quota_exceeded"), Code: cloud.Exhausted,
			Of: &cloud.Offering{InstanceType: "small"},
		},
		{Name: "image", Op: "create", Match: post, Reply: reply(404, "unknown_image"), Code: cloud.Invalid},
		{Name: "bad", Op: "create", Match: post, Reply: reply(400, "bad_request"), Code: cloud.Invalid},
		{Name: "reused", Op: "create", Match: post, Reply: reply(409, "key_reused"), Code: cloud.TokenUsed},
		{Name: "throttled", Op: "create", Match: post, Reply: slow, Code: cloud.Throttled, After: 7 * time.Second},
		{Name: "failing", Op: "list", Reply: cloudtest.Reply{Status: 503}, Code: cloud.Unavailable},
		{Name: "forbidden", Op: "get", Reply: reply(403, "forbidden"), Code: cloud.Denied, Reason: "Forbidden"},
	}
}
