package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

const endpoint = "http://sim.invalid"

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

// spec is a provider spec; edits change it, nil takes a field away.
type spec map[string]any

func newSpec(edits spec) json.RawMessage {
	s := spec{
		"endpoint": endpoint, "region": "sim-1", "zone": "sim-1a", "instanceType": "small", "image": "linux-1",
		"tags": map[string]any{"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1", "team": "a"},
	}
	for key, value := range edits {
		if value == nil {
			delete(s, key)
			continue
		}
		s[key] = value
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

func class(name string, edits spec) cloud.ClassInput {
	return cloud.ClassInput{Name: name, Namespace: "default", Spec: newSpec(edits)}
}

func owned(cluster, role string) spec {
	return spec{"tags": map[string]string{"kubernetes.io/cluster/" + cluster: "1", "kubernetes.io/role/" + role: "1"}}
}

// tagged are these edits, with the ownership tags and pairs of keys and values.
func tagged(edits spec, pairs ...string) spec {
	all := owned("c1", "node")
	maps.Copy(all, edits)
	for i := 0; i < len(pairs); i += 2 {
		all["tags"].(map[string]string)[pairs[i]] = pairs[i+1]
	}
	return all
}

func credentials() cloud.Credentials {
	return cloud.Credentials{
		"accountID": []byte("demo"), "secretKey": []byte("demo-secret"),
		"userData": []byte("#cloud-config"),
	}
}

// full is a class with every field set.
func full() spec {
	return spec{
		"disks":    []any{spec{"sizeGiB": 20, "type": "fast"}, spec{"sizeGiB": 5}, spec{"sizeGiB": 7, "type": "slow"}},
		"networks": []any{spec{"id": "default"}, spec{"id": "public"}},
		"spot":     true, "forwarding": true,
	}
}

// fixture is a cloud for one case, behind serve: nil serves it in process.
func fixture(t testing.TB, edits spec, serve func(testing.TB, http.Handler) http.RoundTripper) *cloudtest.Fixture {
	t.Helper()
	settings := sim.DefaultSettings()
	settings.BootTime, settings.DeleteTime = sim.Duration(5*time.Second), sim.Duration(3*time.Second)
	settings.LoadBalancers[0].DrainTime = sim.Duration(4 * time.Second)
	settings.PageSize = 30 // every VM comes with a disk and an interface
	settings.Accounts = append(settings.Accounts, sim.Tenant{ID: "other", SecretKeys: []string{"other-secret"}})
	now := newClock()
	c := sim.New(sim.Options{Clock: now, Seed: 1, Settings: settings})
	transport := c.Transport()
	if serve != nil {
		transport = serve(t, sim.Handler(c, nil))
	}
	proxy := cloudtest.NewProxy(transport, nil)
	b := backend{Cloud: c}
	return &cloudtest.Fixture{
		Driver: func() cloud.Driver { return sim.NewDriver(proxy) },
		Another: cloudtest.Another{Scopes: wrap.Scopes(), Credentials: cloud.Credentials{
			"accountID": []byte("other"), "secretKey": []byte("other-secret"),
		}},
		Class: class("small", edits),
		Others: map[string]cloud.ClassInput{
			"another cluster": class("small", owned("c2", "node")), "another role": class("small", owned("c1", "other")),
			"a longer cluster": class("small", owned("c11", "node")),
		},
		Elsewhere:     class("large", spec{"instanceType": "large"}),
		Memory:        wrap.Offerings(0, wrap.Clock{}),
		Scarce:        scarce(c, proxy, edits),
		Interruptible: map[string]cloud.ClassInput{"spot": class("spot", spec{"spot": true})},
		Tagged:        class("tagged", tagged(edits, "team", "a", "stage", "test")),
		Retagged:      class("tagged", tagged(edits, "team", "b", "cost", "7")),
		Keeping: class("keeping", spec{"disks": []any{
			spec{"sizeGiB": 20}, spec{"sizeGiB": 10, "keep": true},
		}}),
		Balanced: class("balanced", spec{"loadBalancers": []any{
			spec{"id": "apiserver", "port": 6443}, spec{"id": "ingress", "port": 443},
		}}),
		NoPlace:       "none/6443",
		ManyAddresses: class("many", spec{"networks": []any{spec{"id": "default"}, spec{"id": "public"}}}),
		UnknownType:   class("unknown", spec{"instanceType": "no-such-type"}),
		Broken: class("broken", spec{
			"image": nil, "instanceType": 7, "disks": "none", "networks": []any{"x"}, "spot": "yes", "zone": []any{},
		}),
		Credentials: credentials(),
		Public:      []string{"accountID"},
		Backend: cloudtest.Backend{
			Proxy: proxy, Ledger: b.ledger, Seed: b.seed, PageSize: settings.PageSize / 3,
			Advance: func(_ testing.TB, d time.Duration) { now.Advance(d) },
			Hide: func(_ testing.TB, d time.Duration) {
				c.Change(func(s *sim.Settings) { s.Settle = sim.Duration(d) })
			},
			UserData: func(_ testing.TB, id string) []byte { _, data, _ := c.Look(id); return data },
			Network:  b.network,
			Members:  b.members,
			States: []cloudtest.VMState{
				{Name: "stopped", Set: func(_ testing.TB, id string) { c.Stop(id) }, Want: cloud.StateStopped},
				{Name: "failed", Set: func(_ testing.TB, id string) { c.Fail(id, "HardwareFailure", "") }, Want: cloud.StateFailed},
				{Name: "terminating", Set: func(_ testing.TB, id string) {
					c.Terminate(id, "Terminated")
				}, Want: cloud.StateDeleting},
				{Name: "reclaimed", Set: func(_ testing.TB, id string) {
					c.Reclaim(id)
					now.Advance(time.Minute)
				}, Want: cloud.StateUnknown},
			},
			Boot:    func(_ testing.TB, id string) string { vm, _, _ := c.Look(id); return strconv.Itoa(vm.VM.Boots) },
			Console: b.console,
			Fail:    func(_ testing.TB, id string) { c.Fail(id, "BootFailed", "no disk to boot from") },
			Revoke: func(testing.TB) {
				c.Change(func(s *sim.Settings) { s.Accounts[0].SecretKeys = nil })
			},
		},
	}
}

// scarce is what the cloud runs out of.
func scarce(c *sim.Cloud, proxy *cloudtest.Proxy, edits spec) map[string]cloudtest.Scarcity {
	with := func(more spec) cloud.ClassInput {
		all := maps.Clone(edits)
		if all == nil {
			all = spec{}
		}
		maps.Copy(all, more)
		return class("small", all)
	}
	runs := func(spot bool) func(cloudtest.Call) bool {
		return func(c cloudtest.Call) bool {
			makes := strings.HasPrefix(c.Op, "POST ") && strings.HasSuffix(c.Op, "/vms")
			return makes && strings.Contains(string(c.Body), `"spot":true`) == spot
		}
	}
	none := func(capacity string) cloudtest.Reply {
		return cloudtest.Reply{Status: http.StatusConflict, Body: `{"error":{"code":"` + sim.CodeInsufficientCapacity +
			`","message":"no","region":"sim-1","zone":"sim-1a","instanceType":"small","capacityType":"` + capacity + `"}}`}
	}
	zones := with(spec{"zone": nil})
	return map[string]cloudtest.Scarcity{
		"Spot": {
			Class: with(spec{"spot": true}), Free: with(spec{"spot": false}), SellOut: proxy.Refuses(runs(true), none("spot")),
		},
		"Regular": {
			Class: with(spec{"spot": false}), Free: with(spec{"spot": true}),
			SellOut: proxy.Refuses(runs(false), none("on-demand")),
		},
		"Zone": {
			Class: zones, Zone: "sim-1a", Free: zones, FreeZone: "sim-1b",
			SellOut: func(testing.TB) func() {
				c.SetCapacity("sim-1a", "small", 0)
				return func() { c.SetCapacity("sim-1a", "small", -1) }
			},
		},
	}
}

// backend is a Cloud as cloudtest sees it.
type backend struct{ *sim.Cloud }

// console lets a VM write lines, and returns all that it has written.
func (b backend) console(_ testing.TB, id, text string) string {
	for line := range strings.Lines(text) {
		b.Print(id, strings.TrimSuffix(line, "\n"))
	}
	var all strings.Builder
	for _, line := range b.Console(id) {
		all.WriteString(line.Text + "\n")
	}
	return all.String()
}

// network is what the guest knows about its interfaces.
func (b backend) network(_ testing.TB, id string) []cloud.Interface {
	vm, _, _ := b.Look(id)
	var all []cloud.Interface
	for _, nic := range vm.VM.NICs {
		r, _, _ := b.Look(nic)
		var n cloud.Interface
		if static := r.NIC.Static; static != nil {
			n.SearchDomains = static.SearchDomains
			for _, a := range static.Addresses {
				address := cloud.StaticAddress{Prefix: netip.MustParsePrefix(a.Address)}
				address.Gateway, _ = netip.ParseAddr(a.Gateway)
				n.Addresses = append(n.Addresses, address)
			}
			for _, server := range static.Nameservers {
				n.Nameservers = append(n.Nameservers, netip.MustParseAddr(server))
			}
		}
		all = append(all, n)
	}
	return all
}

// members are the VMs that get requests from a load balancer, or still have connections.
func (b backend) members(_ testing.TB, place string) (ids []string) {
	for _, vm := range b.VMs() {
		for _, m := range vm.VM.Memberships {
			if m.LoadBalancer+"/"+strconv.Itoa(m.Port) == place {
				ids = append(ids, vm.ID)
			}
		}
	}
	return ids
}

func (b backend) ledger(testing.TB) []cloud.Resource {
	kinds := map[string]cloud.Kind{
		sim.KindVM: cloud.KindVM, sim.KindDisk: cloud.KindDisk,
		sim.KindNIC: cloud.KindInterface,
	}
	var all []cloud.Resource
	for _, r := range b.Live() {
		all = append(all, cloud.Resource{
			Kind: kinds[r.Kind], ID: r.ID, MachineName: r.Tags["Name"], OwnerID: r.Tags["mcm.cluster.x-k8s.io/owner-id"],
			Tags: r.Tags,
		})
	}
	return all
}

// seed makes a resource by the ordinary API.
func (b backend) seed(t testing.TB, s cloudtest.Seed) string {
	t.Helper()
	who := sim.Login{Account: "demo", Secret: "demo-secret"}
	tags := map[string]string{}
	if s.Name != "" {
		tags["Name"] = s.Name
	}
	if s.OwnerID != "" && !s.Untagged {
		tags["mcm.cluster.x-k8s.io/owner-id"] = s.OwnerID
	}
	if !s.Untagged {
		maps.Copy(tags, ownership(t, s.Class))
	}
	var made sim.Resource
	var err error
	switch s.Kind {
	case cloud.KindVM:
		made, err = b.CreateVM(who, s.Class.Region, sim.VMInput{
			InstanceType: s.Class.InstanceType, Image: "linux-1",
			Zone: s.Class.Zone, Tags: tags,
		})
	case cloud.KindDisk:
		if made, err = b.CreateDisk(who, s.Class.Region, sim.DiskInput{SizeGiB: 1, Tags: tags}); err == nil &&
			s.AttachTo != "" {
			_, err = b.AttachDisk(who, s.Class.Region, made.ID, s.AttachTo)
		}
	case cloud.KindInterface:
		made, err = b.CreateNIC(who, s.Class.Region, sim.NICInput{VM: s.AttachTo, Tags: tags})
	case cloud.KindAddress, cloud.KindKey:
		err = fmt.Errorf("this cloud has no %s", s.Kind)
	}
	if err != nil {
		t.Fatalf("seed %+v: %v", s, err)
	}
	b.Backdate(made.ID, s.Age)
	return made.ID
}

// ownership returns the ownership tags of a class, which stand in its Owner.
func ownership(t testing.TB, c cloud.Class) map[string]string {
	t.Helper()
	var at, region, cluster, role string
	if _, err := fmt.Sscan(c.Owner, &at, &region, &cluster, &role); err != nil {
		t.Fatalf("owner %q: %v", c.Owner, err)
	}
	return map[string]string{cluster: "1", role: "1"}
}

func harness(edits spec, serve func(testing.TB, http.Handler) http.RoundTripper) cloudtest.Harness {
	const noneBefore = "no class could keep a disk before its disks said so"
	return cloudtest.Harness{
		New: func(t testing.TB) *cloudtest.Fixture { return fixture(t, edits, serve) },
		Lacks: map[string]string{
			"C19/Expired": "the cloud has no sessions", "C19/MidFlow": "the cloud has no sessions",
			"C44/Failed": "a VM is made with its parts, or not at all", "C44/Name": "names are tags, which many may have",
			"C45": "a VM is made with its parts, or not at all", "C46/Group": "the cloud has no groups",
			"C46/Accelerators": "the cloud has no accelerators",
			"C42/Older":        noneBefore, "C42/OlderInDeletion": noneBefore, "C42/Undecided": noneBefore,
		},
		Samples: []cloudtest.Sample{
			{Name: "smallest", Class: class("small", nil)},
			{Name: "full", Class: class("full", full())},
		},
		SparseFile: "testdata/sparse.golden",
		Rules:      rules(),
		Secrets:    secrets(),
		Golden: &cloudtest.Golden{
			File: "testdata/create.golden", Class: func(*cloudtest.Fixture) cloud.ClassInput {
				return class("full", full())
			}, Normalize: normalize,
		},
		ProviderIDs: []cloudtest.ProviderID{
			{Form: "MCM", Value: "sim:///sim-1/vm-1", ID: "vm-1"},
			{Form: "node", Value: "sim:///sim-1a/vm-1", ID: "vm-1"},
			{Form: "without place", Value: "sim:////vm-1", Reason: "a region or zone is part of both forms"},
			{Form: "without id", Value: "sim:///sim-1/"},
			{Form: "disk", Value: "sim:///sim-1/disk-1", Reason: "a providerID names a VM"},
			{Form: "longer", Value: "sim:///sim-1/a/vm-1"},
			{Form: "other scheme", Value: "aws:///sim-1/vm-1"},
		},
		ProviderID: func(vm cloud.VM, c cloud.Class) (mcm, node string) {
			return "sim:///" + c.Region + "/" + vm.ID, "sim:///" + c.Zone + "/" + vm.ID
		},
		Errors: errorRows(),
		Volumes: []cloudtest.Volume{
			{Name: "csi", Volume: cloud.Volume{Driver: sim.VolumeDriver, Handle: "disk-1"}, ID: "disk-1"},
			{Name: "csi without handle", Volume: cloud.Volume{Driver: sim.VolumeDriver}},
		},
		Capacity: cloud.Capacity{
			Resources:    map[string]string{"cpu": "2", "memory": "4Gi", "gpu": "0", "pods": "110", "ephemeral-storage": "20Gi"},
			Architecture: "amd64",
		},
	}
}

// normalize returns a call without the ids that the cloud gave out.
func normalize(c cloudtest.Call) string {
	var in any
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return c.Method + " " + c.URL
	}
	text, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return err.Error()
	}
	return c.Method + " " + c.URL + "\n" + string(text)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	parts := full()
	delete(parts, "forwarding") // can only be switched on once the VM runs
	cloudtest.RunAll(t, map[string]cloudtest.Harness{
		"Smallest": harness(nil, nil), "Parts": harness(parts, nil), "Forwarding": harness(full(), nil),
		"OverHTTP": harness(nil, listen),
	})
}

// listen serves h on a real socket and returns the way there.
func listen(t testing.TB, h http.Handler) http.RoundTripper {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return elsewhere{server.Listener.Addr().String(), server.Client().Transport}
}

// elsewhere sends requests to another host than their URL names.
type elsewhere struct {
	host string
	next http.RoundTripper
}

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Host = e.host
	return e.next.RoundTrip(out)
}
