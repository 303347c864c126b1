package openstack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	rig "github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

const (
	ownerKey   = "mcm.cluster.x-k8s.io-owner-id"
	clusterKey = "kubernetes.io-cluster-c1"
	roleKey    = "kubernetes.io-role-node"
)

// prompt only ends calls that hang: the services share the machine with all other
// tests, and a call that takes half a second took a minute beside thirty processes.
const prompt = 10 * time.Minute

func TestMain(m *testing.M) { rig.Main(m) }

// spec is a provider spec, or a part of one; edits change it, nil takes a field
// away.
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

func newSpec(edits spec) []byte {
	s := edit(spec{
		"imageName": rig.Image, "region": rig.Region, "availabilityZone": rig.Zone, "flavorName": rig.FlavorSmall,
		"keyName":   rig.KeyName,
		"networkID": "00000000-0000-4000-8000-000000000001", "podNetworkCIDRs": []string{"100.64.0.0/11"},
		"tags": spec{clusterKey: "1", roleKey: "1", "team": "a"},
	}, edits)
	text, err := json.Marshal(spec{
		"apiVersion": "openstack.machine.gardener.cloud/v1alpha1",
		"kind":       "MachineProviderConfig", "spec": s,
	})
	if err != nil {
		panic(err)
	}
	return text
}

func class(name string, edits spec) cloud.ClassInput {
	return cloud.ClassInput{Name: name, Namespace: "default", Spec: newSpec(edits)}
}

func owned(cluster, role string) spec {
	return spec{"tags": spec{"kubernetes.io-cluster-" + cluster: "1", "kubernetes.io-role-" + role: "1"}}
}

// tagged are the tags of the class, and these.
func tagged(tags spec) spec {
	return spec{"tags": edit(owned("c1", "node")["tags"].(spec), tags)}
}

// way is how VMs are made.
type way string

const (
	novaPort way = "NovaPort"         // Nova makes the port, and boots from the image
	ownPort  way = "OwnPortAndVolume" // a port and a volume are made before, and a floating IP afterwards
)

// of are the edits of a way in a project.
func (w way) of(p *rig.Project) spec {
	if w == ownPort {
		return spec{
			"networkID": p.Network, "subnetIDs": []string{p.Subnet}, "rootDiskSize": 20, "rootDiskType": "fast",
			"imageName": nil, "imageID": p.Rig.Images[rig.Image], "floatingIPPool": rig.PoolName,
		}
	}
	return spec{"networkID": p.Network}
}

var (
	version = regexp.MustCompile(`^/v(2\.1|2\.0|2|3)/`)
	tenant  = regexp.MustCompile(`^[0-9a-f]{32}/`)
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// classify says what a request asks for, e.g. "PUT ports/…/tags".
func classify(r *http.Request, body []byte) cloudtest.Call {
	path := uuid.ReplaceAllString(tenant.ReplaceAllString(version.ReplaceAllString(r.URL.Path, ""), ""), "…")
	op := r.Method + " " + path
	if op == "POST auth/tokens" {
		return cloudtest.Call{Op: op, Login: true}
	}
	reads := r.Method == http.MethodGet || bytes.HasPrefix(body, []byte(`{"os-getConsoleOutput":`))
	return cloudtest.Call{Op: op, Mutates: !reads}
}

// waitsForSettle matches the cases in which requests for servers get lost, so that the
// driver waits for the settle time, or in which Nova hides servers for that long.
var waitsForSettle = regexp.MustCompile(`/C(07|10|16|17|20|31|49)_`)

func fixture(t testing.TB, w way) *cloudtest.Fixture {
	t.Helper()
	p := rig.ForTest(t).NewProject(t)
	if w == ownPort {
		p.Route(t)
	}
	next := http.DefaultTransport
	now, advance := time.Now, (func(testing.TB, time.Duration))(nil)
	name := t.Name()
	if waitsForSettle.MatchString(name) {
		now, advance = steppedClock(p)
	}
	switch {
	case strings.Contains(name, "/C20_"), strings.Contains(name, "/C30_"):
		next = fast{p}
	case strings.Contains(name, "/C19_"):
		next = strict{p}
	}
	proxy := cloudtest.NewProxy(next, classify)
	with := func(edits spec) cloud.ClassInput { return class("small", edit(w.of(p), edits)) }
	b := backend{p}
	var wraps []cloud.Middleware
	if w == ownPort { // as the manager has accounts, but for what bends rules on purpose
		limits := wrap.Timeouts{Create: prompt, Get: prompt, Delete: prompt, Capacity: prompt, List: prompt, Tags: prompt}
		wraps = []cloud.Middleware{wrap.Redact(nil), wrap.Timeout(limits), wrap.Budget(wrap.Rate{}, nil, wrap.Clock{})}
	}
	another := cloudtest.Another{Scopes: wrap.Scopes()}
	if strings.Contains(name, "/C43_") {
		another.Credentials = credentials(rig.ForTest(t).NewProject(t))
	}
	return &cloudtest.Fixture{
		Another: another,
		Wrap:    wraps,
		Driver:  func() cloud.Driver { return openstack.NewDriver(openstack.Options{Transport: proxy, Now: now}) },
		Class:   with(nil),
		Others: map[string]cloud.ClassInput{
			"another cluster": with(owned("c2", "node")), "another role": with(owned("c1", "other")),
			"a longer cluster": with(owned("c11", "node")),
		},
		Elsewhere:     class("medium", edit(w.of(p), spec{"flavorName": rig.FlavorMedium})),
		Memory:        wrap.Offerings(0, wrap.Clock{}),
		Tagged:        with(tagged(spec{"team": "a", "stage": "test"})),
		Retagged:      with(tagged(spec{"team": "b", "cost": "7"})),
		ManyAddresses: w.special(t, p),
		UnknownType:   with(spec{"flavorName": "m1.none"}),
		Broken: with(spec{
			"imageName": nil, "imageID": nil, "flavorName": 7, "networkID": nil, "keyName": []any{}, "podNetworkCIDRs": nil,
			"rootDiskSize": -1,
		}),
		Credentials: credentials(p),
		Public:      []string{"authURL", "username", "domainName", "tenantName"},
		Backend: cloudtest.Backend{
			Proxy: proxy, Ledger: b.ledger, Seed: b.seed, PageSize: rig.PageSize,
			Hide:    func(_ testing.TB, d time.Duration) { proxy.Hide(hider, now, d) },
			Advance: advance, Rest: p.Rest,
			UserData: b.userData, States: b.states(), Boot: b.boot, Console: b.console,
			Fail: func(t testing.TB, id string) {
				p.Act(t, id, map[string]any{"os-resetState": map[string]any{"state": "error"}}, "ERROR")
			},
			Expire: p.EndSessions, Revoke: p.Disable,
		},
	}
}

// special is the class that a case needs beside those that all need: one with two
// networks for that about addresses, one with every field for the golden one.
func (w way) special(t testing.TB, p *rig.Project) cloud.ClassInput {
	t.Helper()
	switch {
	case strings.Contains(t.Name(), "/C24_"):
		p.More(t)
		return class("many", spec{"networkID": nil, "networks": []any{
			spec{"id": p.Network, "podNetwork": true},
			spec{"name": rig.Network2Name},
		}})
	case strings.Contains(t.Name(), "/C05_"):
		p.More(t)
		all := spec{
			"networkID": nil, "securityGroups": []string{rig.GroupName},
			"podNetworkCIDRs": []string{"100.64.0.0/11", "fd00::/48"}, "rootDiskSize": 30,
			"useConfigDrive": true, "serverGroupID": p.ServerGroup,
		}
		if w == ownPort {
			maps.Copy(all, w.of(p))
			all["rootDiskSize"] = 30
			return class("full", edit(all, spec{
				"subnetIDs": nil, "subnets": []string{rig.SubnetName}, "serverGroupID": nil, "serverGroup": rig.SpreadName,
			}))
		}
		all["networks"] = []any{spec{"id": p.Network, "podNetwork": true}, spec{"name": rig.Network2Name}}
		return class("full", all)
	}
	return cloud.ClassInput{}
}

func credentials(p *rig.Project) cloud.Credentials {
	return cloud.Credentials{
		"authURL": []byte(p.AuthURL()), "domainName": []byte("Default"), "tenantName": []byte(p.Name),
		"username": []byte(p.User), "password": []byte(p.Password), "userData": []byte("#cloud-config"),
	}
}

// hider keeps servers out of what Nova shows.
var hider = cloudtest.Hider{
	Made: func(c cloudtest.Call) []string {
		if c.Op != "POST servers" {
			return nil
		}
		return uuid.FindAllString(string(c.Reply), 1)
	},
	Without: func(c cloudtest.Call, ids []string, status int, body []byte) (int, []byte) {
		for _, id := range ids {
			if strings.HasSuffix(c.URL, "/servers/"+id) {
				return http.StatusNotFound, []byte(`{"itemNotFound": {"code": 404, "message": "Instance could not be found."}}`)
			}
		}
		var list struct {
			Servers []map[string]any `json:"servers"`
		}
		if c.Op != "GET servers/detail" || json.Unmarshal(body, &list) != nil {
			return status, body
		}
		list.Servers = slices.DeleteFunc(list.Servers, func(s map[string]any) bool {
			return slices.Contains(ids, fmt.Sprint(s["id"]))
		})
		text, _ := json.Marshal(list)
		return status, text
	},
}

func harness(w way) cloudtest.Harness {
	return cloudtest.Harness{
		Lacks: map[string]string{
			"C33":           "Nova takes no server away",
			"C44/OtherZone": "the real services here have one zone", "C44/Name": "names are no keys: many may have one",
			"C49/Time_create_no_host_at_once": "after an answer of 500 Nova may show a server later: the driver looks for " +
				"it before it asks again",
			"C44/Failed": "real volumes and ports here do not fail when asked to; TestServerWithoutHostIsNotRecorded",
			"C48":        "TestParity compares sparse classes with MCM's requests, on canned answers",
			"C45":        "real services finish in their time, and nothing holds them",
			"C47":        "VMs of others are in other projects, which no call of this one reads; C34 counts those of a machine",
			"C46":        "the real services here have room; TestNoHostOfOneClass tries groups and images on canned answers",
			"C42":        "no class keeps anything: the root volume and the ports go with the server",
			"C38":        "no Octavia runs beside the real services; TestMembers tries the driver on a double",
		},
		New:           func(t testing.TB) *cloudtest.Fixture { return fixture(t, w) },
		CaseSensitive: true,
		Draws:         cloudtest.Draws(),
		Concurrent:    2, // cases wait for services of which each has one processor
		Parallel:      8, // a machine has few processors for all of OpenStack
		Prompt:        prompt,
		Patience:      2 * prompt,
		Samples:       samples(), Rules: rules(), Secrets: secrets(), Errors: errorRows(w), ProviderIDs: providerIDs(),
		Volumes: volumes(),
		Golden: &cloudtest.Golden{
			File: "testdata/" + string(w) + ".golden", Normalize: normalize,
			Class: func(f *cloudtest.Fixture) cloud.ClassInput { return f.ManyAddresses },
		},
		ProviderID: func(vm cloud.VM, _ cloud.Class) (mcm, node string) {
			return "openstack:///" + rig.Region + "/" + vm.ID, "openstack:///" + vm.ID
		},
		Capacity: cloud.Capacity{
			Resources:    map[string]string{"cpu": "1", "memory": "2Gi", "gpu": "0", "pods": "110", "ephemeral-storage": "10Gi"},
			Architecture: "amd64",
		},
	}
}

// normalize returns a call without ids that the cloud gave out.
func normalize(c cloudtest.Call) string {
	text := c.Op
	if len(c.Body) > 0 {
		var body any
		if err := json.Unmarshal(c.Body, &body); err != nil {
			return err.Error()
		}
		indented, _ := json.MarshalIndent(body, "", "  ")
		text += "\n" + string(indented)
	}
	for _, keep := range []string{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"} {
		text = strings.ReplaceAll(text, keep, strings.ToUpper("keep-"+keep[:1]))
	}
	return uuid.ReplaceAllString(text, "…")
}

// TestConformance tries all cases on servers whose port is Nova's and that boot
// from the image.
func TestConformance(t *testing.T) {
	t.Parallel()
	rig.Require(t)
	cloudtest.Run(t, harness(novaPort))
}

// TestConformanceOwnPort tries the cases in which calls get lost again, on servers
// that have a port and a volume of their own, with accounts as the manager wraps
// them. The matrix has one row a cloud, and it is the other's.
func TestConformanceOwnPort(t *testing.T) {
	t.Parallel()
	rig.Require(t)
	const why = "does not depend on where ports and volumes come from; TestConformance tries it"
	h := harness(ownPort)
	h.Unrecorded = true
	for _, id := range []string{
		"C01", "C02", "C03", "C06", "C09", "C11", "C12", "C13", "C14", "C15", "C16", "C18", "C19", "C20", "C21", "C22", "C23",
		"C24", "C25", "C27", "C29", "C30", "C32", "C34", "C37", "C39", "C41", "C49", "C17/Transport",
	} {
		h.Lacks[id] = why
	}
	for _, row := range errorRows(ownPort) {
		if slices.ContainsFunc(errorRows(novaPort), func(r cloudtest.ErrorRow) bool { return r.Name == row.Name }) {
			h.Lacks["C17/"+strings.NewReplacer(" ", "_", "/", "_").Replace(row.Name)] = why
		}
	}
	for _, lost := range []string{"C07/LostRequest4", "C07/LostResponse4", "C31/Late4"} {
		for _, op := range []string{"_Create", "_Delete"} {
			h.Lacks[lost+op] = "the request for the server; TestConformance tries it"
		}
	}
	cloudtest.Run(t, h)
}
