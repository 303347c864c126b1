package hetzner_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/hetzner"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/hetznertest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// class is a class as MCM's users have it, with these fields of its spec changed.
func class(change map[string]any) cloud.ClassInput {
	fields := map[string]any{
		"cluster": "shoot--a--b", "zone": "hel1-dc2", "serverType": "cx23", "imageName": "ubuntu-24.04",
		"sshFingerprint": hetznertest.Fingerprint, "networkName": "nodes",
	}
	maps.Copy(fields, change)
	spec, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: "class", Namespace: "ns", Spec: spec}
}

// rig is a project and the way to it.
type rig struct {
	*hetznertest.Cloud

	proxy *cloudtest.Proxy
}

// newRig returns a project in which a request that Hetzner's clients would not send fails the test.
// Its clock stands still but for Advance, so that a slow machine changes nothing.
func newRig(t testing.TB) rig {
	t.Helper()
	start := time.Now()
	clock := func() time.Time { return start }
	c := hetznertest.New(hetznertest.DefaultSettings(), clock, func(request string) { t.Errorf("odd: %s", request) })
	return rig{c, cloudtest.NewProxy(cloudtest.HandlerTransport(c), func(r *http.Request, _ []byte) cloudtest.Call {
		return cloudtest.Call{Op: r.Method + " " + r.URL.Path, Mutates: r.Method != http.MethodGet}
	})}
}

func (r rig) driver() cloud.Driver { return hetzner.NewDriver(hetzner.Options{Transport: r.proxy}) }

func credentials() cloud.Credentials {
	return cloud.Credentials{"token": []byte(hetznertest.Token), "userData": []byte("#cloud-config")}
}

// seed puts a resource into the project as the driver would have made it, or MCM's driver, which
// sets no label with the name or the owner.
func (r rig) seed(_ testing.TB, s cloudtest.Seed) string {
	labels := map[string]string{}
	cluster := strings.TrimPrefix(s.Class.Owner, "mcm.gardener.cloud/cluster=")
	if !s.Untagged {
		labels["mcm.gardener.cloud/cluster"], labels["mcm.gardener.cloud/role"] = cluster, "node"
		if s.Kind == cloud.KindAddress {
			labels["networking.hcloud.mcm.gardener.cloud/floating-pool"] = "pool"
		}
		labels["topology.kubernetes.io/zone"] = s.Class.Zone
	}
	seed := hetznertest.Seed{
		Kind: s.Kind, Labels: labels, Location: s.Class.Region, Type: s.Class.InstanceType, Server: s.AttachTo, Age: s.Age,
		Networks: []int64{301},
	}
	if s.OwnerID == "" && !s.Untagged && cluster == "shoot--a--b" {
		seed.Name = s.Name // as MCM names it
	} else if s.Name != "" {
		labels[cloud.TagPrefix+"machine"] = s.Name
	}
	if s.OwnerID != "" {
		labels[cloud.TagPrefix+"owner-id"] = s.OwnerID
	}
	return r.Put(seed)
}

func (r rig) set(status string) func(testing.TB, string) {
	return func(_ testing.TB, id string) { r.SetStatus(id, status) }
}

// fixture is a project of its own, with a class that has these fields changed.
func fixture(t testing.TB, change map[string]any) *cloudtest.Fixture {
	t.Helper()
	r := newRig(t)
	with := func(more map[string]any) cloud.ClassInput {
		fields := maps.Clone(change)
		if fields == nil {
			fields = map[string]any{}
		}
		maps.Copy(fields, more)
		return class(fields)
	}
	return &cloudtest.Fixture{
		Driver: r.driver, Class: with(nil),
		Others:        map[string]cloud.ClassInput{"other cluster": with(map[string]any{"cluster": "shoot--a--c"})},
		Elsewhere:     with(map[string]any{"serverType": "cx33"}),
		Memory:        wrap.Offerings(0, wrap.Clock{}),
		Scarce:        r.scarce(with),
		Tagged:        with(map[string]any{"labels": map[string]string{"team": "a", "tier": "1"}}),
		Retagged:      with(map[string]any{"labels": map[string]string{"team": "b", "stage": "x"}}),
		ManyAddresses: with(map[string]any{"networks": []string{"storage"}}),
		Broken:        with(map[string]any{"serverType": "", "imageName": 5}),
		UnknownType:   with(map[string]any{"serverType": "cx999"}),
		Credentials:   credentials(),
		Another: cloudtest.Another{
			Scopes: wrap.Scopes(), Credentials: cloud.Credentials{"token": []byte(hetznertest.OtherToken)},
		},
		Backend: cloudtest.Backend{
			Proxy: r.proxy, Ledger: func(testing.TB) []cloud.Resource { return r.Ledger() }, Seed: r.seed, PageSize: 50,
			Advance:  func(_ testing.TB, d time.Duration) { r.Advance(d) },
			UserData: func(_ testing.TB, id string) []byte { return r.UserData(id) },
			Boot:     func(_ testing.TB, id string) string { return r.Boots(id) },
			Hide: func(_ testing.TB, d time.Duration) {
				r.Change(func(s *hetznertest.Settings) { s.Hide = d })
			},
			Occupy: r.occupy,
			Late: map[string]func(testing.TB) func(){"Network": func(testing.TB) func() {
				const late = time.Hour
				r.Change(func(s *hetznertest.Settings) { s.Attach = late })
				return func() {
					r.Change(func(s *hetznertest.Settings) { s.Attach = time.Second })
					r.Advance(late)
				}
			}},
			Revoke: func(testing.TB) { r.Change(func(s *hetznertest.Settings) { s.Tokens = nil }) },
			States: []cloudtest.VMState{
				{Name: "off", Set: r.set("off"), Want: cloud.StateStopped},
				{Name: "stopping", Set: r.set("stopping"), Want: cloud.StateStopped},
				{Name: "migrating", Set: r.set("migrating"), Want: cloud.StateRunning},
				{Name: "rebuilding", Set: r.set("rebuilding"), Want: cloud.StateRunning},
				{Name: "deleting", Set: r.set("deleting"), Want: cloud.StateDeleting},
				{Name: "gone", Set: r.set("gone"), Want: cloud.StateUnknown},
			},
		},
	}
}

// scarce is what Hetzner runs out of: a type in a location, and hosts for a group.
func (r rig) scarce(with func(map[string]any) cloud.ClassInput) map[string]cloudtest.Scarcity {
	return map[string]cloudtest.Scarcity{
		"Zone": {
			Class: with(nil), Free: with(map[string]any{"zone": "fsn1"}),
			SellOut: func(testing.TB) func() {
				refused := func(where ...string) {
					r.Change(func(s *hetznertest.Settings) {
						kind := s.Types["cx23"]
						kind.Refused = where
						s.Types = maps.Clone(s.Types)
						s.Types["cx23"] = kind
					})
				}
				refused("hel1")
				return func() { refused() }
			},
		},
		"Group": {
			Class: with(map[string]any{"placementGroupPrefix": "spread-"}), Free: with(nil),
			SellOut: func(testing.TB) func() {
				r.Change(func(s *hetznertest.Settings) { s.NoSpread = true })
				return func() { r.Change(func(s *hetznertest.Settings) { s.NoSpread = false }) }
			},
		},
	}
}

// occupy puts somebody else's server of that name into the project.
func (r rig) occupy(_ testing.TB, name string) (free func()) {
	id := r.Put(hetznertest.Seed{Kind: cloud.KindVM, Name: name, Location: "hel1", Type: "cx23", Age: time.Hour})
	return func() { r.SetStatus(id, "gone") }
}

// harness takes the driver through the kit with a class that has these fields changed.
func harness(change map[string]any) cloudtest.Harness {
	return cloudtest.Harness{
		New: func(t testing.TB) *cloudtest.Fixture { return fixture(t, change) },
		Lacks: map[string]string{
			"C10/Failed":  "Hetzner has no state for a server that cannot run: it is made, or its name is free again",
			"C19/Expired": "a token has no session: it counts until somebody takes it away",
			"C19/MidFlow": "a token has no session",
			"C33":         "Hetzner takes no server away",
			"C44/Failed":  "nothing is made before a server, and nothing beside it has a state of failure",
			"C45/Disk":    "a server has its disk when it is made", "C45/Import": "an image is there or the request is refused",
			"C46/Spot": "Hetzner has no spot market", "C46/Regular": "Hetzner has no spot market",
			"C46/Accelerators": "no server type has accelerators that are counted apart",
			"C42":              "no class keeps anything: a server has no volumes of ours",
			"C38":              "Hetzner's load balancers find their targets by a label selector, as the class's labels say",
			"C39":              "Hetzner shows consoles as a screen (VNC) only",
		},
		SparseFile: "testdata/sparse.golden",
		Samples:    samples(), Rules: rules(), Secrets: secrets(), Errors: errorRows(),
		ProviderIDs: providerIDs(),
		ProviderID: func(vm cloud.VM, c cloud.Class) (mcm, node string) {
			return "hcloud:///" + c.Zone + "/" + vm.ID, "hcloud://" + vm.ID
		},
		Volumes: []cloudtest.Volume{
			{Name: "csi", Volume: cloud.Volume{Driver: "csi.hetzner.cloud", Handle: "4711"}, ID: "4711"},
			{Name: "no number", Volume: cloud.Volume{Driver: "csi.hetzner.cloud", Handle: "a-volume"}},
			{Name: "foreign", Volume: cloud.Volume{Driver: "ebs.csi.aws.com", Handle: "4711"}},
		},
		Capacity: cloud.Capacity{Architecture: "amd64", Resources: map[string]string{
			"cpu": "2", "memory": "4Gi", "ephemeral-storage": "40G", "pods": "110",
		}},
		Golden: &cloudtest.Golden{
			File: "testdata/create.golden", Smallest: class(nil), Class: goldenClass, Normalize: normalize,
		},
	}
}

// TestConformance takes the driver through the kit: with the class of most of MCM's users, and with
// one whose machines have floating IPs, which are a second thing to make and to lose.
func TestConformance(t *testing.T) {
	t.Parallel()
	servers := harness(nil)
	servers.CostPage = "../../docs/clouds/hetzner.md"
	cloudtest.RunAll(t, map[string]cloudtest.Harness{
		"servers": servers, "floating": harness(map[string]any{"floatingPoolName": "pool"}),
	})
}

// goldenClass is a class with every field set.
func goldenClass(*cloudtest.Fixture) cloud.ClassInput {
	return class(map[string]any{
		"placementGroupID": "501", "floatingPoolName": "pool", "networks": []string{"302"},
		"firewalls": []string{"workers", "402"}, "labels": map[string]string{"team": "a"},
		"assignPublicIPv4": true, "assignPublicIPv6": false,
	})
}

// normalize is a request without the ids that change from run to run.
func normalize(c cloudtest.Call) string {
	return strings.Join(strings.Fields(c.Op+" "+string(c.Body)), " ")
}
