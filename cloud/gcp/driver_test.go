package gcp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/gcp"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

const zone = gcptest.Region + "-b"

// pageSize is that of the double: with the cloud's 500, the cases that want several pages would
// take long.
const pageSize = 50

// spec is a provider spec, or what is changed of one.
type spec map[string]any

// class is a class with these fields of its spec changed.
func class(change spec) cloud.ClassInput {
	fields := spec{
		"region": gcptest.Region, "zone": zone, "machineType": "n2-standard-2",
		"tags":   []string{"kubernetes-io-cluster-c", "kubernetes-io-role-node"},
		"labels": map[string]string{"team": "a"},
		"disks":  []any{bootDisk(nil)}, "networkInterfaces": []any{spec{"subnetwork": "nodes", "disableExternalIP": true}},
		"scheduling": spec{"automaticRestart": true, "onHostMaintenance": "MIGRATE"},
	}
	maps.Copy(fields, change)
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: "class", Namespace: "ns", Spec: text}
}

func bootDisk(change spec) spec {
	disk := spec{
		"boot": true, "sizeGb": 50, "type": "pd-ssd", "image": "projects/debian-cloud/global/images/family/debian-12",
	}
	maps.Copy(disk, change)
	return disk
}

func tags(all ...string) spec { return spec{"tags": all} }

func credentials() cloud.Credentials {
	return cloud.Credentials{"serviceAccountJSON": gcptest.Key(), "userData": []byte("#cloud-config")}
}

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 20, 0, time.UTC)} }

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

// TestConformance takes the driver through the kit.
func TestConformance(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, cloudtest.Harness{
		New: func(t testing.TB) *cloudtest.Fixture { return newEnv(t).fixture() },
		Lacks: map[string]string{
			"C10/Failed": "an instance that cannot be made vanishes with its operation; none stays as failed",
			"C45":        "an instance is made whole, or not at all, by an operation that Create waits for: TestOperationFails",
			"C46/Group":  "MCM's classes for GCP name no placement policy",
			"C23":        "names are unique in a zone, and the class here has one; TestZones tries one with two",
		},
		SparseFile: "testdata/sparse.golden",
		CostPage:   "../../docs/clouds/gcp.md",
		Samples:    samples(), Rules: rules(), Secrets: secrets(), Errors: errorRows(), Golden: golden(),
		ProviderIDs: []cloudtest.ProviderID{
			{Form: "MCM", Value: "gce:///my-project/europe-west1-b/m-1", ID: "europe-west1-b/m-1"},
			{Form: "Node", Value: "gce://my-project/europe-west1-b/m-1", ID: "europe-west1-b/m-1"},
			{Form: "project of a domain", Value: "gce:///example.com:my-project/europe-west1-b/m-1", ID: "europe-west1-b/m-1"},
			{Form: "no zone", Value: "gce:///my-project/m-1", Reason: "an instance has a zone"},
			{Form: "AWS", Value: "aws:///europe-west1-b/i-1", Reason: "another cloud's"},
		},
		ProviderID: func(vm cloud.VM, _ cloud.Class) (mcm, node string) {
			return "gce:///my-project/" + vm.ID, "gce://my-project/" + vm.ID
		},
		Volumes: []cloudtest.Volume{
			{Name: "in-tree", Volume: cloud.Volume{Driver: "kubernetes.io/gce-pd", Handle: "pd-1"}, ID: "pd-1"},
			{
				Name: "csi", Volume: cloud.Volume{Driver: "pd.csi.storage.gke.io", Handle: "projects/p/zones/z/disks/d"},
				ID: "projects/p/zones/z/disks/d",
			},
			{Name: "foreign", Volume: cloud.Volume{Driver: "ebs.csi.aws.com", Handle: "vol-1"}},
		},
		Capacity: cloud.Capacity{Architecture: "amd64", Resources: map[string]string{
			"cpu": "2", "memory": "8Gi", "gpu": "0", "ephemeral-storage": "50Gi", "pods": "110",
		}},
	})
}

// env is a double and the way to it.
type env struct {
	*gcptest.Cloud

	t     testing.TB
	clock *clock
	proxy *cloudtest.Proxy
}

func newEnv(t testing.TB) *env {
	w := &env{t: t, clock: newClock()}
	w.Cloud = gcptest.New(gcptest.Options{
		Now: w.clock.Now, PageSize: pageSize,
		Report: func(what string, body []byte) { t.Errorf("%s: %s", what, body) },
	})
	w.proxy = cloudtest.NewProxy(cloudtest.HandlerTransport(w.Cloud), func(r *http.Request, _ []byte) cloudtest.Call {
		login := r.URL.Host != "compute.googleapis.com"
		return cloudtest.Call{
			Op: r.Method + " " + r.URL.Path, Login: login,
			Mutates: r.Method != http.MethodGet && !login && !strings.HasSuffix(r.URL.Path, "/listInstances"),
		}
	})
	return w
}

// driver returns a driver as a new process would have it.
func (w *env) driver() cloud.Driver {
	return gcp.NewDriver(gcp.Options{
		Now: w.clock.Now, Transport: w.proxy,
		ReadFile: func(string) ([]byte, error) { return []byte(gcptest.WorkloadToken + "\n"), nil },
	})
}

func (w *env) fixture() *cloudtest.Fixture {
	spot := spec{"scheduling": spec{"onHostMaintenance": "TERMINATE", "provisioningModel": "SPOT"}}
	preemptible := spec{"scheduling": spec{"onHostMaintenance": "TERMINATE", "preemptible": true}}
	return &cloudtest.Fixture{
		Driver: w.driver,
		Class:  class(nil),
		Others: map[string]cloud.ClassInput{
			"other cluster": class(tags("kubernetes-io-cluster-d", "kubernetes-io-role-node")),
			"other role":    class(tags("kubernetes-io-cluster-c", "kubernetes-io-role-gateway")),
		},
		Elsewhere: class(spec{"machineType": "n2-standard-4"}),
		Memory:    wrap.Offerings(0, wrap.Clock{}),
		Scarce:    w.scarce(spot),
		Interruptible: map[string]cloud.ClassInput{
			"preemptible": class(preemptible), "spot": class(spot),
		},
		Keeping: class(spec{"disks": []any{
			bootDisk(nil), spec{"sizeGb": 20, "type": "pd-ssd", "autoDelete": false},
		}}),
		Tagged:   class(spec{"labels": map[string]string{"team": "a", "stage": "dev"}}),
		Retagged: class(spec{"labels": map[string]string{"team": "b", "site": "x"}}),
		Broken:   class(spec{"machineType": "", "disks": []any{spec{"sizeGb": "many"}}}),
		Balanced: class(spec{"instanceGroups": []string{gcptest.Group}}), NoPlace: gcptest.Region + "/none",
		UnknownType: class(spec{"machineType": "huge"}),
		ManyAddresses: class(spec{"networkInterfaces": []any{
			spec{"network": "default"}, spec{"subnetwork": "storage", "disableExternalIP": true},
		}}),
		Credentials: credentials(),
		Another: cloudtest.Another{
			Scopes:       wrap.Scopes(),
			Credentials:  cloud.Credentials{"serviceAccountJSON": gcptest.OtherKey()},
			InProviderID: []string{"mcm", "node"},
		},
		Backend: cloudtest.Backend{
			Proxy: w.proxy, Ledger: w.ledger, Seed: w.seed, PageSize: pageSize,
			UserData: func(_ testing.TB, id string) []byte { return w.UserData(id) },
			Advance:  func(_ testing.TB, d time.Duration) { w.clock.Advance(d) },
			Hide:     func(_ testing.TB, d time.Duration) { w.Hide(d) },
			States: []cloudtest.VMState{
				w.state("TERMINATED", cloud.StateStopped), w.state("SUSPENDED", cloud.StateStopped),
				w.state("REPAIRING", cloud.StateRunning), w.state("DEPROVISIONING", cloud.StateDeleting),
				w.state("DELETED", cloud.StateUnknown),
			},
			Boot:      func(_ testing.TB, id string) string { return fmt.Sprint(w.Boots(id)) },
			Console:   func(_ testing.TB, id, text string) string { return w.Write(id, text) },
			Members:   func(testing.TB, string) []string { return w.Members() },
			Undecide:  func(testing.TB) { w.Unlabel(gcptest.Prefix + "on-termination") },
			Occupy:    w.occupy,
			FullPages: func(testing.TB) { w.SetPageSize(500) },
			FailPart:  func(testing.TB) { w.LeaveDisks(); w.FailNext("ZONE_RESOURCE_POOL_EXHAUSTED", "no resources") },
			Expire:    func(testing.TB) { w.Expire() },
			Revoke:    func(testing.TB) { w.Revoke() },
		},
	}
}

// scarce is what Compute Engine runs out of, with the same words each time.
func (w *env) scarce(spot spec) map[string]cloudtest.Scarcity {
	sell := func(of func(zone string, body map[string]any) bool) func(testing.TB) func() {
		return func(testing.TB) func() { return w.SellOut(gcptest.SoldOut{Of: of}) }
	}
	isSpot := func(body map[string]any) bool {
		scheduling, _ := body["scheduling"].(map[string]any)
		return scheduling["provisioningModel"] == "SPOT"
	}
	zones := class(spec{"zone": zone, "zones": []string{zoneC}})
	gpu := func(count int) cloud.ClassInput {
		return class(spec{
			"machineType": "n2-standard-4", "scheduling": spec{"onHostMaintenance": "TERMINATE"},
			"gpu": spec{"acceleratorType": "nvidia-tesla-t4", "count": count},
		})
	}
	return map[string]cloudtest.Scarcity{
		"Spot": {
			Class: class(spot), Free: class(nil),
			SellOut: sell(func(_ string, body map[string]any) bool { return isSpot(body) }),
		},
		"Regular": {
			Class: class(nil), Free: class(spot),
			SellOut: sell(func(_ string, body map[string]any) bool { return !isSpot(body) }),
		},
		"Zone": {
			Class: zones, Zone: zone, Free: zones, FreeZone: zoneC,
			SellOut: sell(func(where string, _ map[string]any) bool { return where == zone }),
		},
		"Accelerators": {
			Class: gpu(4), Free: gpu(1),
			SellOut: sell(func(_ string, body map[string]any) bool {
				return strings.Contains(fmt.Sprint(body["guestAccelerators"]), "acceleratorCount:4")
			}),
		},
	}
}

// occupy gives the name of a machine to an instance and a disk of somebody else.
func (w *env) occupy(_ testing.TB, name string) (free func()) {
	vm := w.AddVM(gcptest.SeedVM{Zone: zone, Name: name})
	disk := zone + "/" + name
	w.AddNamedDisk(disk)
	return func() { w.Remove(vm); w.Remove(disk) }
}

func (w *env) state(status string, want cloud.State) cloudtest.VMState {
	return cloudtest.VMState{Name: status, Want: want, Set: func(_ testing.TB, id string) { w.SetStatus(id, status) }}
}

func (w *env) ledger(testing.TB) (all []cloud.Resource) {
	for _, t := range w.Things() {
		r := cloud.Resource{
			Kind: cloud.KindVM, ID: t.ID, MachineName: t.Machine, OwnerID: t.Owner, Created: t.Created, Tags: t.Labels,
		}
		if t.Disk {
			r.Kind, r.Attached = cloud.KindDisk, t.VM != ""
		}
		all = append(all, r)
	}
	return all
}

// seed puts something into the project. An instance of the class without an owner is one of MCM's:
// it has the machine's name and no labels. Others have names of their own.
func (w *env) seed(_ testing.TB, s cloudtest.Seed) string {
	labels := map[string]string{}
	if s.OwnerID != "" {
		labels[gcptest.Prefix+"owner-id"] = s.OwnerID
	}
	own := strings.Fields(s.Class.Owner)[1:] // after the region
	if s.Untagged {
		own = nil
	}
	if s.Kind == cloud.KindDisk {
		for _, tag := range own {
			labels[tag] = "1"
		}
		if s.Name != "" {
			labels[gcptest.Prefix+"machine"] = s.Name
		}
		if s.AttachTo == "" && len(own) > 0 {
			labels[gcptest.Prefix+"on-termination"] = "delete"
		}
		return w.AddDisk(zone, s.AttachTo, labels, s.Age)
	}
	vm := gcptest.SeedVM{Zone: zone, Name: s.Name, Tags: own, Labels: labels, Age: s.Age}
	ofMCM := s.OwnerID == "" && len(own) > 0 && strings.Join(own, " ") == "kubernetes-io-cluster-c kubernetes-io-role-node"
	if s.Name != "" && !ofMCM {
		vm.Name, labels[gcptest.Prefix+"machine"] = "", s.Name
	}
	return w.AddVM(vm)
}
