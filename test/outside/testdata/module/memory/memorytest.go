package memory

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// testKey is the key of the clouds of the kit.
const testKey = "s3cret/key+of=memory"

// testClass is a class with these fields changed.
func testClass(change map[string]any) cloud.ClassInput {
	fields := map[string]any{"url": "http://memory.example", "zone": "z1", "type": "small", "cluster": "c", "role": "node"}
	maps.Copy(fields, change)
	spec, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: "class", Namespace: "ns", Spec: spec}
}

// Harness is that of a driver of this cloud, which driver makes.
func Harness(driver func(transport http.RoundTripper, s *Server) cloud.Driver) cloudtest.Harness {
	return cloudtest.Harness{
		New: func(testing.TB) *cloudtest.Fixture { return fixture(driver) },
		Lacks: map[string]string{
			"C05": "the cloud ignores no field", "C10": "a VM is made in one call, and cannot fail later",
			"C15": "a list has one page",
			"C16": "the cloud shows a VM at once", "C19/Expired": "there are no sessions", "C19/MidFlow": "there are no sessions",
			"C24/Many": "a VM has one address", "C25": "the cloud has no volumes", "C26": "the cloud has no disks",
			"C28": "the cloud has VMs only", "C32": "the cloud has one stock", "C41": "its stock does not end",
			"C33": "the cloud takes no VM away",
			"C34": "a list has one page", "C36": "the cloud's tags cannot change",
			"C37": "the cloud cannot restart a VM", "C38": "the cloud has no load balancers",
			"C39": "the cloud shows no consoles", "C42": "the cloud has VMs only",
			"C43": "the cloud has one account",
			"C44": "a VM is made in one call, under a name that is free", "C45": "a VM is made with all that it has",
			"C46": "the cloud has one stock", "C48": "the cloud ignores no field",
		},
		Samples: []cloudtest.Sample{{Name: "plain", Class: testClass(nil)}},
		Rules: []cloudtest.Rule{
			{
				Name: "type", Reason: "A VM needs one.", Class: testClass(map[string]any{"type": ""}), Field: "providerSpec.type",
				Severity: cloud.BlocksCreate,
			},
			{Name: "zone", Reason: "The cloud chooses.", Class: testClass(map[string]any{"zone": ""})},
		},
		Secrets: []cloudtest.Secret{
			{Name: "newline", Reason: "Editors add one.", Credentials: func(v cloud.Credentials) cloud.Credentials {
				return cloud.Credentials{"key": append(v["key"], '\n')}
			}},
			{
				Name: "none", Reason: "Without a key nothing works.",
				Credentials: func(cloud.Credentials) cloud.Credentials { return nil }, Missing: "key",
			},
		},
		ProviderIDs: []cloudtest.ProviderID{{Form: "MCM", Value: "memory:///vm-1", ID: "vm-1"}},
		ProviderID: func(vm cloud.VM, _ cloud.Class) (mcm, node string) {
			return "memory:///" + vm.ID, "memory:///" + vm.ID
		},
		Errors: []cloudtest.ErrorRow{
			{
				Name: "throttled", Op: "create", Code: cloud.Throttled, After: 7 * time.Second,
				Reply: cloudtest.Reply{Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: `{"code":"TooMany"}`},
			},
			{Name: "failing", Op: "list", Reply: cloudtest.Reply{Status: 503}, Code: cloud.Unavailable},
			{Name: "refused", Op: "get", Reply: cloudtest.Reply{Status: 401, Body: `{"code":"BadKey"}`}, Code: cloud.Denied},
			{Name: "bad", Op: "create", Reply: cloudtest.Reply{Status: 400, Body: `{"code":"BadRequest"}`}, Code: cloud.Invalid},
			{Name: "full", Op: "create", Reply: cloudtest.Reply{Status: 409, Body: `{"code":"Full"}`}, Code: cloud.Exhausted},
		},
		Capacity: cloud.Capacity{Resources: map[string]string{"cpu": "2", "memory": "4Gi"}, Architecture: "amd64"},
		Parallel: 50, Unrecorded: true,
	}
}

// fixture is a cloud of its own.
func fixture(driver func(transport http.RoundTripper, s *Server) cloud.Driver) *cloudtest.Fixture {
	s := NewServer(testKey)
	p := cloudtest.NewProxy(cloudtest.HandlerTransport(s), func(r *http.Request, _ []byte) cloudtest.Call {
		return cloudtest.Call{Op: r.Method, Mutates: r.Method != http.MethodGet}
	})
	return &cloudtest.Fixture{
		Driver: func() cloud.Driver { return driver(p, s) },
		Class:  testClass(nil),
		Others: map[string]cloud.ClassInput{
			"other cluster": testClass(map[string]any{"cluster": "d"}),
			"other role":    testClass(map[string]any{"role": "gateway"}),
		},
		Broken:      testClass(map[string]any{"type": ""}),
		UnknownType: testClass(map[string]any{"type": "huge"}),
		Credentials: cloud.Credentials{"key": []byte(testKey), "userData": []byte("#cloud-config")},
		Backend: cloudtest.Backend{
			Proxy: p, Ledger: s.ledger, Seed: s.seed,
			Advance:  func(_ testing.TB, d time.Duration) { s.Advance(d) },
			UserData: s.userData,
			States: []cloudtest.VMState{
				{Name: "stopped", Set: s.state("stopped"), Want: cloud.StateStopped},
				{Name: "failed", Set: s.state("failed"), Want: cloud.StateFailed},
			},
			Revoke: func(testing.TB) { s.Revoke() },
		},
	}
}

func (s *Server) ledger(testing.TB) []cloud.Resource {
	var all []cloud.Resource
	for _, vm := range s.VMs() {
		all = append(all, cloud.Resource{Kind: cloud.KindVM, ID: vm.ID, MachineName: vm.Name, OwnerID: vm.Tags[ownerTag]})
	}
	return all
}

func (s *Server) seed(_ testing.TB, d cloudtest.Seed) string {
	vm := VM{Name: d.Name, Type: "small", Tags: map[string]string{}}
	if spec, _ := ParseSpec(specOf(d.Class)); !d.Untagged {
		vm.Tags["cluster"], vm.Tags["role"] = spec.Cluster, spec.Role
	}
	if d.OwnerID != "" {
		vm.Tags[ownerTag] = d.OwnerID
	}
	return s.Add(vm, d.Age)
}

// specOf is the spec of a class of either driver.
func specOf(c cloud.Class) json.RawMessage {
	if in, ok := c.Spec.(cloud.ClassInput); ok {
		return in.Spec
	}
	text, err := json.Marshal(c.Spec)
	if err != nil {
		panic(err)
	}
	return text
}

func (s *Server) userData(_ testing.TB, id string) []byte {
	for _, vm := range s.VMs() {
		if vm.ID == id {
			return vm.UserData
		}
	}
	return nil
}

func (s *Server) state(name string) func(testing.TB, string) {
	return func(_ testing.TB, id string) { s.SetState(id, name) }
}
