package azure_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

const (
	machineTag = "mcm.cluster.x-k8s.io~2fmachine"
	ownerTag   = "mcm.cluster.x-k8s.io~2fowner-id"
	createdTag = "mcm.cluster.x-k8s.io~2fcreated"

	ownClass = "kubernetes.io-cluster-c1 kubernetes.io-role-node" // ends Class.Owner of the fixture's classes

	smallSize, otherSize = "Standard_D2s_v5", "Standard_D2ps_v5"

	pageSize = 10
)

// clock is a clock that only a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// spec is a provider spec, or a part of one; edits change it, nil takes a field away.
type spec map[string]any

func edit(s, edits spec) spec {
	s = maps.Clone(s)
	for key, value := range edits {
		if value == nil {
			delete(s, key)
			continue
		}
		s[key] = value
	}
	return s
}

// properties are those of a small VM, changed by edits.
func properties(edits spec) spec {
	return edit(spec{
		"hardwareProfile": spec{"vmSize": smallSize},
		"storageProfile":  storage(nil),
		"osProfile":       spec{"adminUsername": "core"},
		"zone":            1,
	}, edits)
}

func storage(edits spec) spec {
	return edit(spec{
		"imageReference": spec{"id": "/images/linux-1"},
		"osDisk":         spec{"diskSizeGB": 50, "createOption": "FromImage"},
	}, edits)
}

func class(name string, edits spec) cloud.ClassInput {
	s := edit(spec{
		"location": "westeurope", "resourceGroup": "Machines", "properties": properties(nil),
		"subnetInfo": spec{"vnetName": "net", "subnetName": "nodes"}, "tags": owned("c1", "node"),
	}, edits)
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: name, Namespace: "default", Spec: text}
}

// with is a class with changed properties.
func with(edits spec) cloud.ClassInput { return class("small", spec{"properties": properties(edits)}) }

func owned(cluster, role string) spec {
	return spec{"kubernetes.io-cluster-" + cluster: "1", "kubernetes.io-role-" + role: "1"}
}

func credentials() cloud.Credentials {
	return cloud.Credentials{
		"subscriptionID": []byte(azuretest.Subscription), "tenantID": []byte(azuretest.Tenant),
		"clientID": []byte(azuretest.Client), "clientSecret": []byte(azuretest.Secret), "userData": []byte("#cloud-config"),
	}
}

// inSubscription are credentials for another subscription, which may not exist.
func inSubscription(id string) cloud.Credentials {
	creds := credentials()
	creds["subscriptionID"] = []byte(id)
	return creds
}

// at is where the endpoint of a test is, and the way there.
type at func(t testing.TB, h http.Handler) (endpoint string, next http.RoundTripper)

func inProcess(_ testing.TB, h http.Handler) (string, http.RoundTripper) {
	return "http://azure.invalid", cloudtest.HandlerTransport(h)
}

func overHTTP(t testing.TB, h http.Handler) (string, http.RoundTripper) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL, server.Client().Transport
}

// classify says what a request asks for.
func classify(r *http.Request, _ []byte) cloudtest.Call {
	parts := strings.Split(r.URL.Path, "/")
	op := r.Method + " " + parts[max(len(parts)-2, 0)]
	login := strings.HasSuffix(r.URL.Path, "/token")
	reads := r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/retrieveBootDiagnosticsData")
	return cloudtest.Call{Op: op, Login: login, Mutates: !reads && !login}
}

func settings(t testing.TB) azuretest.Settings {
	s := azuretest.DefaultSettings()
	s.Boot, s.Shutdown, s.PageSize = 20*time.Second, 10*time.Second, pageSize
	s.Violation = func(text string) { t.Errorf("the published API does not allow this: %s", text) }
	return s
}

// backend is an endpoint as cloudtest sees it.
type backend struct {
	*azuretest.Cloud

	now *clock

	mu     sync.Mutex
	serial int
}

func fixture(t testing.TB, edits spec, where at, now *clock) *cloudtest.Fixture {
	t.Helper()
	b := &backend{Cloud: azuretest.New(settings(t), now.Now), now: now}
	endpoint, next := where(t, b)
	proxy := cloudtest.NewProxy(next, classify)
	tagged := func(tags spec) cloud.ClassInput {
		return class("tagged", spec{"properties": properties(edits), "tags": edit(owned("c1", "node"), tags)})
	}
	return &cloudtest.Fixture{
		Driver: func() cloud.Driver {
			return azure.NewDriver(azure.Options{Transport: proxy, Endpoint: endpoint, Now: now.Now})
		},
		Class: with(edits),
		Others: map[string]cloud.ClassInput{
			"another cluster": class("small", spec{"tags": owned("c2", "node")}),
			"another role":    class("small", spec{"tags": owned("c1", "other")}),
			"a longer name":   class("small", spec{"tags": owned("c11", "node")}),
		},
		Elsewhere: with(spec{"hardwareProfile": spec{"vmSize": otherSize}}),
		Memory:    wrap.Offerings(0, wrap.Clock{}),
		Scarce:    b.scarce(proxy, edits),
		Interruptible: map[string]cloud.ClassInput{
			"Spot": with(spec{"priority": "Spot"}), "older than Spot": with(spec{"priority": "Low"}),
		},
		Tagged: tagged(spec{"team": "a", "stage": "test"}), Retagged: tagged(spec{"team": "b", "cost": "7"}),
		UnknownType: with(spec{"hardwareProfile": spec{"vmSize": "Standard_None"}}),
		Broken: class("broken", spec{
			"subnetInfo": spec{}, "properties": spec{"hardwareProfile": 7, "storageProfile": []any{}, "zone": "one"},
		}),
		Another: cloudtest.Another{
			Scopes:       wrap.Scopes(),
			Credentials:  inSubscription(azuretest.OtherSubscription),
			InProviderID: []string{"node"},
		},
		Credentials: credentials(), Public: []string{"subscriptionID", "tenantID", "clientID"},
		Backend: b.backend(proxy),
	}
}

func (b *backend) backend(proxy *cloudtest.Proxy) cloudtest.Backend {
	set := func(f func(r *azuretest.Resource)) func(testing.TB, string) {
		return func(_ testing.TB, id string) { b.Edit(id, f) }
	}
	power := func(state string) func(testing.TB, string) {
		return set(func(r *azuretest.Resource) { r.Power = state })
	}
	fail := set(func(r *azuretest.Resource) {
		r.FailedOf, r.Made = "InternalExecutionError", b.now.Now().Add(-time.Hour)
	})
	return cloudtest.Backend{
		Proxy: proxy, Ledger: b.ledger, Seed: b.seed,
		PageSize: pageSize / 2, // each VM is an entry of two listings: its data, and its state
		Advance:  func(_ testing.TB, d time.Duration) { b.now.Advance(d) },
		Hide: func(_ testing.TB, d time.Duration) {
			b.Change(func(s *azuretest.Settings) { s.Settle = d })
		},
		UserData: func(_ testing.TB, id string) []byte {
			os, _ := b.Look(id).Properties["osProfile"].(map[string]any)
			data, _ := base64.StdEncoding.DecodeString(fmt.Sprint(os["customData"]))
			return data
		},
		States: []cloudtest.VMState{
			{Name: "stopped", Set: power("stopped"), Want: cloud.StateStopped},
			{Name: "deallocated", Set: power("deallocated"), Want: cloud.StateStopped},
			{Name: "starting", Set: power("starting"), Want: cloud.StatePending},
			{Name: "Creating", Set: set(func(r *azuretest.Resource) { r.Made = b.now.Now() }), Want: cloud.StatePending},
			{Name: "Deleting", Set: set(func(r *azuretest.Resource) { r.Deleted = b.now.Now() }), Want: cloud.StateDeleting},
			{Name: "Failed", Set: fail, Want: cloud.StateFailed},
			{Name: "evicted", Set: set(func(r *azuretest.Resource) {
				r.Deleted = b.now.Now().Add(-time.Hour)
			}), Want: cloud.StateUnknown},
		},
		Boot:     func(_ testing.TB, id string) string { return strconv.Itoa(b.Look(id).Bootings) },
		Console:  func(_ testing.TB, id, text string) string { return b.Print(id, text) },
		Fail:     fail,
		FailPart: func(testing.TB) { b.Change(func(s *azuretest.Settings) { s.FailDisks = 1 }) },
		Occupy:   b.occupy,
		FullPages: func(testing.TB) {
			b.Change(func(s *azuretest.Settings) { s.PageSize = azuretest.DefaultSettings().PageSize })
		},
		Late: map[string]func(testing.TB) func(){"Disk": func(testing.TB) func() {
			b.Change(func(s *azuretest.Settings) { s.DisksHeld = true })
			return func() { b.Change(func(s *azuretest.Settings) { s.DisksHeld = false }) }
		}},
		Expire: func(testing.TB) { b.Expire() },
		Revoke: func(testing.TB) {
			b.Change(func(s *azuretest.Settings) { s.Secrets = nil })
			b.Expire()
		},
	}
}

// scarce is what Azure runs out of. A set of VMs has the hosts of one cluster, which may be full while others are not.
func (b *backend) scarce(proxy *cloudtest.Proxy, edits spec) map[string]cloudtest.Scarcity {
	class := func(more spec) cloud.ClassInput {
		all := edit(spec{}, edits)
		maps.Copy(all, more)
		return with(all)
	}
	change := func(on, off func(s *azuretest.Settings)) func(testing.TB) func() {
		return func(testing.TB) func() {
			b.Change(on)
			return func() { b.Change(off) }
		}
	}
	zones := class(spec{"zone": nil, "zones": []int{1, 2}})
	set := spec{"zone": nil, "availabilitySet": spec{"id": "/subscriptions/s/resourceGroups/machines/providers/" +
		"Microsoft.Compute/availabilitySets/set"}}
	return map[string]cloudtest.Scarcity{
		"Spot": {
			Class: class(spec{"priority": "Spot"}), Free: class(nil),
			SellOut: change(func(s *azuretest.Settings) { s.NoSpot = map[string]bool{smallSize: true} },
				func(s *azuretest.Settings) { s.NoSpot = nil }),
		},
		"Regular": {
			Class: class(nil), Free: class(spec{"priority": "Spot"}),
			SellOut: change(func(s *azuretest.Settings) { s.Quota = -1 }, func(s *azuretest.Settings) { s.Quota = 0 }),
		},
		"Zone": {
			Class: zones, Zone: "1", Free: zones, FreeZone: "2",
			SellOut: change(func(s *azuretest.Settings) { s.Capacity = map[string]int{"1/" + smallSize: 0} },
				func(s *azuretest.Settings) { s.Capacity = nil }),
		},
		"Group": {
			Class: class(set), Free: class(spec{"zone": nil}),
			SellOut: proxy.Refuses(func(c cloudtest.Call) bool {
				return c.Op == "PUT virtualMachines" && bytes.Contains(c.Body, []byte("availabilitySet"))
			}, cloudtest.Reply{
				Status: http.StatusConflict,
				Body:   `{"error":{"code":"AllocationFailed","message":"Allocation failed in the availability set."}}`,
			}),
		},
	}
}

// occupy gives the names of a machine's VM, interface and disk to things of somebody else.
func (b *backend) occupy(_ testing.TB, name string) (free func()) {
	theirs := map[string]string{
		azuretest.TypeVM: name, azuretest.TypeNIC: name + "-nic", azuretest.TypeDisk: name + "-os-disk",
	}
	for kind, name := range theirs {
		b.Add(azuretest.Resource{
			Type: kind, Name: name, Tags: map[string]string{}, Made: b.now.Now().Add(-time.Hour), Address: "10.9.9.9",
			Properties: map[string]any{"hardwareProfile": map[string]any{"vmSize": otherSize}},
		})
	}
	return func() {
		for kind, name := range theirs {
			b.Remove(kind, name)
		}
	}
}

var kinds = map[string]cloud.Kind{
	azuretest.TypeVM: cloud.KindVM, azuretest.TypeNIC: cloud.KindInterface, azuretest.TypeDisk: cloud.KindDisk,
}

func (b *backend) ledger(testing.TB) []cloud.Resource {
	var all []cloud.Resource
	for _, r := range b.Ledger() {
		all = append(all, cloud.Resource{
			Kind: kinds[r.Type], ID: r.Name, MachineName: r.Tags[machineTag], OwnerID: r.Tags[ownerTag], Tags: r.Tags,
		})
	}
	return all
}

// seed puts a resource into the group. Names are unique there, so that only a VM that MCM
// made, without an owner id, has the name of its machine.
func (b *backend) seed(t testing.TB, s cloudtest.Seed) string {
	t.Helper()
	b.mu.Lock()
	b.serial++
	name := fmt.Sprintf("seed-%d-%s", b.serial, s.Name)
	b.mu.Unlock()
	name = strings.TrimSuffix(name, "-")
	r := azuretest.Resource{Tags: map[string]string{}, Made: b.now.Now().Add(-s.Age), VM: strings.ToLower(s.AttachTo)}
	if !s.Untagged {
		for _, key := range strings.Fields(s.Class.Owner)[2:] {
			r.Tags[key] = "1"
		}
		if s.Name != "" {
			r.Tags[machineTag] = s.Name
		}
		if s.OwnerID != "" {
			r.Tags[ownerTag] = s.OwnerID
		}
	}
	for kind, of := range kinds {
		if of == s.Kind {
			r.Type = kind
		}
	}
	switch {
	case r.Type == "":
		t.Fatalf("there is no %s here", s.Kind)
	case s.Kind == cloud.KindVM:
		if mcms := s.OwnerID == "" && s.Name != "" && !s.Untagged; mcms && strings.HasSuffix(s.Class.Owner, ownClass) {
			name = s.Name
			delete(r.Tags, machineTag)
		}
		r.Properties = map[string]any{"hardwareProfile": map[string]any{"vmSize": s.Class.InstanceType}}
	case s.Kind == cloud.KindInterface:
		r.Tags[createdTag], r.Address = r.Made.Format(time.RFC3339), "10.9.9.9"
	}
	r.Name = name
	b.Add(r)
	return name
}
