package aws_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

const ownerTag = "mcm.cluster.x-k8s.io/owner-id"

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

// spec is a provider spec, or a part of one; edits change it, nil takes a field
// away.
type spec map[string]any

func nic(edits spec) spec {
	return edit(spec{"subnetID": "subnet-a1", "securityGroupIDs": []string{"sg-1"}}, edits)
}

func disk(edits spec) spec {
	return spec{"ebs": edit(spec{"volumeType": "gp3", "volumeSize": 20}, edits)}
}

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

func class(name string, edits spec) cloud.ClassInput {
	s := edit(spec{
		"ami": "ami-1", "region": "eu-west-1", "machineType": "m5.large", "iam": spec{"name": "nodes"},
		"blockDevices": []any{disk(nil)}, "networkInterfaces": []any{nic(nil)},
		"tags": spec{"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1", "team": "a"},
	}, edits)
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: name, Namespace: "default", Spec: text}
}

func owned(cluster, role string) spec {
	return spec{"tags": spec{"kubernetes.io/cluster/" + cluster: "1", "kubernetes.io/role/" + role: "1"}}
}

// tagged are the tags of the class, and these.
func tagged(tags spec) spec {
	return spec{"tags": edit(owned("c1", "node")["tags"].(spec), tags)}
}

func credentials() cloud.Credentials {
	return cloud.Credentials{
		"providerAccessKeyId":     []byte(ec2test.KeyID),
		"providerSecretAccessKey": []byte(ec2test.SecretKey), "userData": []byte("#cloud-config"),
	}
}

// zoned edits a class so that it has a subnet in each of two zones.
func zoned() spec {
	return spec{"subnets": []any{
		spec{"zone": "eu-west-1b", "subnetID": "subnet-b1"}, spec{"zone": "eu-west-1a", "subnetID": "subnet-a1"},
	}}
}

// full is a class with every field set.
func full() spec {
	return spec{
		"keyName": "a-key", "ebsOptimized": true, "monitoring": true,
		"blockDevices": []any{
			spec{"deviceName": "/root", "ebs": spec{
				"volumeType": "gp3", "volumeSize": 50, "iops": 4000, "throughput": 250, "encrypted": true, "kmsKeyID": "key-1",
				"deleteOnTermination": true,
			}},
			spec{"deviceName": "/dev/sdf", "ebs": spec{
				"volumeType": "io2", "volumeSize": 100, "iops": 1000,
				"snapshotID": "snap-1",
			}},
		},
		"networkInterfaces": []any{
			nic(spec{
				"associatePublicIPAddress": true, "description": "first", "interfaceType": "interface", "networkCardIndex": 0,
				"ipv6AddressCount": 1, "ipv6PrefixCount": 2, "deleteOnTermination": true,
			}),
			nic(spec{
				"securityGroupIDs": []string{"sg-1", "sg-2"}, "deviceIndex": 3, "interfaceType": "efa",
				"networkCardIndex": 1,
			}),
		},
		"spotPrice": "0.5", "instanceMarketOptions": keptSpot()["instanceMarketOptions"],
		"capacityReservation": spec{"capacityReservationId": "cr-1"},
		"placement": spec{
			"groupId": "pg-1", "tenancy": "host", "hostId": "h-1", "partitionNumber": 2,
			"affinity": "host",
		},
		"instanceMetadataOptions": spec{
			"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 2,
			"httpProtocolIpv6": "disabled",
		},
		"cpuOptions":             spec{"coreCount": 2, "threadsPerCore": 1, "amdSevSnp": "enabled"},
		"srcAndDstChecksEnabled": false, "subnets": zoned()["subnets"],
	}
}

// finishing is a class whose VMs need more than RunInstances.
func finishing() spec {
	return spec{
		"networkInterfaces":      []any{nic(spec{"ipv6PrefixCount": 1}), nic(spec{"deviceIndex": 2})},
		"srcAndDstChecksEnabled": false,
	}
}

// at is where the endpoint of a test is, and the way there.
type at func(t testing.TB, h http.Handler) (endpoint string, next http.RoundTripper)

func inProcess(_ testing.TB, h http.Handler) (string, http.RoundTripper) {
	return "http://ec2.invalid", cloudtest.HandlerTransport(h)
}

func overHTTP(t testing.TB, h http.Handler) (string, http.RoundTripper) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL, server.Client().Transport
}

// classify says what a request of the query protocol asks for.
func classify(_ *http.Request, body []byte) cloudtest.Call {
	form, _ := url.ParseQuery(string(body))
	op := form.Get("Action")
	reads := strings.HasPrefix(op, "Describe") || op == "GetConsoleOutput" || op == "GetCallerIdentity"
	return cloudtest.Call{Op: op, Mutates: op != "" && !reads}
}

// window is short, because one test calls at a time.
var window = driverkit.Window{Idle: time.Millisecond, Longest: 5 * time.Millisecond}

func settings() ec2test.Settings {
	s := ec2test.DefaultSettings()
	s.Boot, s.Shutdown, s.PageSize = 5*time.Second, 3*time.Second, 10
	s.TargetGroups[ec2test.GroupAPIServer] = ec2test.TargetGroup{Delay: 30 * time.Second}
	return s
}

func fixture(t testing.TB, edits spec, where at, now *clock) *cloudtest.Fixture {
	t.Helper()
	c := ec2test.New(settings(), now.Now)
	endpoint, next := where(t, c)
	proxy := cloudtest.NewProxy(next, classify)
	b := backend{Cloud: c, now: now}
	set := func(f func(r *ec2test.Resource)) func(testing.TB, string) {
		return func(_ testing.TB, id string) { c.Edit(id, f) }
	}
	return &cloudtest.Fixture{
		Driver: func() cloud.Driver {
			return aws.NewDriver(aws.Options{
				Transport: proxy, Endpoint: endpoint, BalancerEndpoint: endpoint, IdentityEndpoint: endpoint, Now: now.Now,
				Window: window,
			})
		},
		Class: class("small", edit(zoned(), edits)),
		Others: map[string]cloud.ClassInput{
			"another cluster": class("small", owned("c2", "node")), "another role": class("small", owned("c1", "other")),
			"a longer cluster": class("small", owned("c11", "node")),
		},
		Elsewhere: class("large", spec{"machineType": "m6g.large"}),
		Memory:    wrap.Offerings(0, wrap.Clock{}),
		Scarce:    scarce(c, proxy, edits),
		Interruptible: map[string]cloud.ClassInput{
			"price": class("price", spec{"spotPrice": "0.5"}), "empty price": class("price", spec{"spotPrice": ""}),
			"market": class("market", spec{"instanceMarketOptions": spec{"marketType": "spot"}}),
			"reservation": class("market", spec{
				"instanceMarketOptions": spec{"marketType": "interruptible-capacity-reservation"},
			}),
		},
		Tagged:   class("tagged", edit(tagged(spec{"team": "a", "stage": "test"}), edits)),
		Retagged: class("tagged", edit(tagged(spec{"team": "b", "cost": "7"}), edits)),
		Keeping:  class("keeping", edit(keeping(), edits)),
		Balanced: class("balanced", edit(spec{"targetGroups": []any{
			spec{"arn": ec2test.GroupAPIServer, "port": 6443}, spec{"arn": ec2test.GroupIngress, "port": 443},
		}}, edits)),
		NoPlace:       strings.Replace(ec2test.GroupAPIServer, "/apiserver/", "/none/", 1) + ":6443",
		ManyAddresses: class("many", spec{"networkInterfaces": []any{nic(spec{"ipv6AddressCount": 2}), nic(nil)}}),
		UnknownType:   class("unknown", spec{"machineType": "m5.nano"}),
		Broken: class("broken", spec{
			"ami": nil, "machineType": 7, "iam": spec{}, "networkInterfaces": []any{spec{}}, "cpuOptions": spec{"coreCount": 1},
			"keyName": []any{},
		}),
		Another: cloudtest.Another{Scopes: wrap.Scopes(), Credentials: cloud.Credentials{
			"providerAccessKeyId": []byte(ec2test.OtherKeyID), "providerSecretAccessKey": []byte(ec2test.OtherSecretKey),
		}},
		Credentials: credentials(),
		Public:      []string{"providerAccessKeyId"},
		Backend: cloudtest.Backend{
			Proxy: proxy, Ledger: b.ledger, Seed: b.seed, PageSize: settings().PageSize,
			Advance: func(_ testing.TB, d time.Duration) { now.Advance(d) },
			Hide: func(_ testing.TB, d time.Duration) {
				c.Change(func(s *ec2test.Settings) { s.Settle = d })
			},
			UserData: func(_ testing.TB, id string) []byte { r, _ := c.Look(id); return r.UserData },
			Members:  b.members,
			Undecide: func(testing.TB) { undecide(c) },
			States: []cloudtest.VMState{
				{Name: "stopped", Set: set(func(r *ec2test.Resource) { r.Stopped = true }), Want: cloud.StateStopped},
				{Name: "pending", Set: set(func(r *ec2test.Resource) { r.Made = now.Now() }), Want: cloud.StatePending},
				{Name: "shutting-down", Set: set(func(r *ec2test.Resource) {
					r.Terminated = now.Now()
				}), Want: cloud.StateDeleting},
				{Name: "terminated", Set: func(_ testing.TB, id string) {
					c.End(id, "Server.SpotInstanceTermination", "EC2 took it back")
				}, Want: cloud.StateUnknown},
			},
			Boot:    func(_ testing.TB, id string) string { r, _ := c.Look(id); return strconv.Itoa(r.Boots) },
			Console: func(_ testing.TB, id, text string) string { return c.Print(id, text) },
			FullPages: func(testing.TB) {
				c.Change(func(s *ec2test.Settings) { s.PageSize = ec2test.DefaultSettings().PageSize })
			},
			HideNodeName: set(func(r *ec2test.Resource) { r.NoDNS = true }),
			Revoke: func(testing.TB) {
				c.Change(func(s *ec2test.Settings) { s.Accounts = nil })
			},
		},
	}
}

// scarce is what EC2 runs out of. It answers a placement group that is full like a type that is sold out.
func scarce(c *ec2test.Cloud, proxy *cloudtest.Proxy, edits spec) map[string]cloudtest.Scarcity {
	with := func(more spec) cloud.ClassInput { return class("small", edit(edit(zoned(), edits), more)) }
	runs := func(want bool, field string) func(cloudtest.Call) bool {
		return func(c cloudtest.Call) bool {
			return c.Op == "RunInstances" && strings.Contains(string(c.Body), field) == want
		}
	}
	none := fails(500, "InsufficientInstanceCapacity", "We currently do not have sufficient capacity.")
	spot := with(spec{"spotPrice": "0.5"})
	return map[string]cloudtest.Scarcity{
		"Spot":    {Class: spot, Free: with(nil), SellOut: proxy.Refuses(runs(true, "MarketType=spot"), none)},
		"Regular": {Class: with(nil), Free: spot, SellOut: proxy.Refuses(runs(false, "MarketType=spot"), none)},
		"Zone": {
			Class: with(nil), Zone: "eu-west-1a", Free: with(nil), FreeZone: "eu-west-1b",
			SellOut: func(testing.TB) func() {
				c.Change(func(s *ec2test.Settings) { s.Capacity = map[string]int{"eu-west-1a/m5.large": 0} })
				return func() { c.Change(func(s *ec2test.Settings) { s.Capacity = nil }) }
			},
		},
		"Group": {
			Class: with(spec{"placement": spec{"groupId": "pg-1"}}), Free: with(nil),
			SellOut: proxy.Refuses(runs(true, "Placement.GroupId"), none),
		},
	}
}

// backend is an endpoint as cloudtest sees it.
type backend struct {
	*ec2test.Cloud
	now *clock
}

var kinds = map[string]cloud.Kind{
	ec2test.KindInstance: cloud.KindVM, ec2test.KindVolume: cloud.KindDisk, ec2test.KindInterface: cloud.KindInterface,
}

// members are the instances that get requests at a place, or still have connections.
func (b backend) members(_ testing.TB, place string) (ids []string) {
	cut := strings.LastIndex(place, ":")
	for _, t := range b.Targets(place[:cut]) {
		if strconv.Itoa(t.Port) == place[cut+1:] {
			ids = append(ids, t.Instance)
		}
	}
	return ids
}

func (b backend) ledger(testing.TB) []cloud.Resource {
	var all []cloud.Resource
	for _, r := range b.Ledger() {
		all = append(all, cloud.Resource{
			Kind: kinds[r.Kind], ID: r.ID, MachineName: r.Tags["Name"],
			OwnerID: r.Tags[ownerTag], Tags: r.Tags,
		})
	}
	return all
}

func (b backend) seed(t testing.TB, s cloudtest.Seed) string {
	t.Helper()
	tags := map[string]string{}
	if s.Name != "" {
		tags["Name"] = s.Name
	}
	if s.OwnerID != "" && !s.Untagged {
		tags[ownerTag] = s.OwnerID
	}
	if !s.Untagged {
		for _, key := range strings.Fields(s.Class.Owner)[1:] {
			tags[key] = "1"
		}
		if s.AttachTo == "" && s.Kind != cloud.KindVM {
			tags[cloud.OnTerminationTag] = string(cloud.RetentionDelete)
		}
	}
	r := ec2test.Resource{
		Tags: tags, Made: b.now.Now().Add(-s.Age), Instance: s.AttachTo, Subnet: "subnet-a1",
		Type: s.Class.InstanceType, Zone: "eu-west-1a",
	}
	for kind, of := range kinds {
		if of == s.Kind {
			r.Kind = kind
		}
	}
	if r.Kind == "" {
		t.Fatalf("EC2 has no %s here", s.Kind)
	}
	return b.Add(r)
}

func harness(edits spec, where at) cloudtest.Harness {
	const sessions = "requests are signed one by one; with access keys there are no sessions"
	return cloudtest.Harness{
		New: func(t testing.TB) *cloudtest.Fixture { return fixture(t, edits, where, newClock()) },
		Lacks: map[string]string{
			"C44/Failed": "RunInstances makes all or nothing", "C44/Name": "names are tags, which many may have",
			"C45":              "RunInstances makes an instance with its volumes and interfaces, or nothing",
			"C46/Accelerators": "the instance type says how many there are",
			"C10/Failed":       "EC2 has no failed instances: one that cannot run is terminated, which is C22/terminated",
			"C19/Expired":      sessions, "C19/MidFlow": sessions,
		},
		SparseFile: "testdata/sparse.golden",
		Samples:    samples(), Rules: rules(), Secrets: secrets(), Errors: errorRows(), ProviderIDs: providerIDs(),
		Volumes: volumes(),
		Golden:  golden(),
		ProviderID: func(vm cloud.VM, _ cloud.Class) (mcm, node string) {
			return "aws:///eu-west-1/" + vm.ID, "aws:///eu-west-1a/" + vm.ID
		},
		NodeName: func(vm cloud.VM) string { return ec2test.PrivateDNSName(vm.Addresses[0].Value, "eu-west-1") },
		Capacity: cloud.Capacity{
			Resources:    map[string]string{"cpu": "2", "memory": "8Gi", "gpu": "0", "pods": "110", "ephemeral-storage": "20Gi"},
			Architecture: "amd64",
		},
	}
}

var given = regexp.MustCompile(`\b(eni|i|vol)-0[0-9a-f]{16}\b`)

// golden is what EC2 is asked for, without repetitions under one token.
func golden() *cloudtest.Golden {
	seen := map[string]bool{}
	return &cloudtest.Golden{
		File: "testdata/create.golden", Smallest: class("small", nil),
		Class: func(*cloudtest.Fixture) cloud.ClassInput {
			clear(seen)
			return class("full", full())
		},
		Normalize: func(c cloudtest.Call) string {
			text := normalize(c)
			if seen[text] {
				return ""
			}
			seen[text] = true
			return text
		},
	}
}

// normalize returns a call without the ids that the cloud gave out.
func normalize(c cloudtest.Call) string {
	form, err := url.ParseQuery(string(c.Body))
	if err != nil {
		return err.Error()
	}
	lines := []string{c.Op}
	for _, key := range slices.Sorted(maps.Keys(form)) {
		if key != "Action" && key != "Version" {
			lines = append(lines, "  "+key+" = "+given.ReplaceAllString(form.Get(key), "$1-…"))
		}
	}
	return strings.Join(lines, "\n")
}

// wrapped is the harness with the accounts within their budget, their time and
// without secrets, as the manager has them. Its shared listings bend rules of
// the kit on purpose.
func wrapped() cloudtest.Harness {
	h := harness(nil, inProcess)
	h.New = func(t testing.TB) *cloudtest.Fixture {
		now := newClock()
		f := fixture(t, nil, inProcess, now)
		f.Wrap = []cloud.Middleware{
			wrap.Redact(nil), wrap.Timeout(wrap.Timeouts{}),
			wrap.Budget(wrap.Rate{}, nil, wrap.Clock{Now: now.Now}),
		}
		return f
	}
	return h
}

func TestConformance(t *testing.T) {
	t.Parallel()
	counted := harness(nil, inProcess)
	counted.CostPage = "../../docs/clouds/aws.md"
	cloudtest.RunAll(t, map[string]cloudtest.Harness{
		"Plain": counted, "Finishing": harness(finishing(), inProcess), "OverHTTP": harness(nil, overHTTP),
		"Wrapped": wrapped(),
	})
}
