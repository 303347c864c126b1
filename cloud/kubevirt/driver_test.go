package kubevirt_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/kubevirt"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/kubevirttest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// pageSize is small, so that a listing has pages among few VMs.
const pageSize = 5

// infra starts an API server with the kinds of KubeVirt.
func infra(t *testing.T) kubevirttest.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crds.yaml")
	if err := os.WriteFile(file, kubevirttest.CRDs, 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{file}})
	s := kubevirttest.Connect(c.URL(), c.CA(), c.Config().BearerToken)
	for name, cpus := range map[string]int{"small": 2, "large": 8} {
		if err := s.Type(t.Context(), name, cpus, "4Gi"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// class is a class with these fields of its spec changed; nil removes one.
func class(change map[string]any) cloud.ClassInput {
	fields := map[string]any{
		"region": "eu", "zone": "eu-1", "instancetype": map[string]any{"name": "small"},
		"rootVolume": map[string]any{
			"source": map[string]any{"registry": map[string]any{"url": "docker://registry.example.com/linux:1"}},
			"pvc": map[string]any{
				"accessModes": []string{"ReadWriteOnce"},
				"resources":   map[string]any{"requests": map[string]any{"storage": "20Gi"}},
			},
		},
		"tags": tags("c1", "node"),
	}
	maps.Copy(fields, change)
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
	spec, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: "class", Namespace: "ns", Spec: spec}
}

// tags are those of a class, with further keys and values.
func tags(cluster, role string, more ...string) map[string]string {
	all := map[string]string{"mcm.gardener.cloud/cluster": cluster, "mcm.gardener.cloud/role": role}
	for i := 0; i+1 < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// TestConformance takes the driver through the kit, in front of a real API server. Each case has a
// namespace of its own there.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := infra(t)
	cloudtest.Run(t, cloudtest.Harness{
		New: func(t testing.TB) *cloudtest.Fixture { return fixture(t, s) },
		Lacks: map[string]string{
			"C16":         "the API server shows an object at once",
			"C19/Expired": "a token of a kubeconfig opens no session", "C19/MidFlow": "as C19/Expired",
			"C44/Failed":  "a VM whose volume has failed is a failed VM, which its set replaces: C22/DataVolumeError",
			"C47":         "an API server takes minutes for 10 000 VMs; C34 counts the calls of a machine among some",
			"C48":         "TestAccount/Template and TestAccount/Networks compare sparse classes",
			"C45/Network": "an instance has its networks when its pod starts",
			"C46/Spot":    "KubeVirt has no spot market", "C46/Regular": "KubeVirt has no spot market",
			"C46/Group": "MCM's classes for KubeVirt name no group",
			"C33":       "KubeVirt takes no VM away for others that pay more",
			"C35":       "addresses are the networks' business", "C38": "KubeVirt has no load balancers",
			"C42": "no class keeps anything: DataVolumes are owned by their VM",
		},
		Samples: samples(), Rules: rules(), Secrets: secrets(), Errors: errorRows(),
		ProviderIDs: []cloudtest.ProviderID{
			{Form: "MCM and Node", Value: "kubevirt://worker-7", ID: "worker-7"},
			{Form: "with a namespace", Value: "kubevirt://infra/worker-7", ID: "worker-7"},
			{Form: "capitals", Value: "kubevirt://Worker", Reason: "no object has such a name"},
			{Form: "another cloud", Value: "openstack:///r/worker-7", Reason: "it is another cloud's"},
		},
		ProviderID: func(vm cloud.VM, _ cloud.Class) (mcm, node string) {
			return "kubevirt://" + vm.ID, "kubevirt://" + vm.ID
		},
		Volumes: []cloudtest.Volume{
			{Name: "csi", Volume: cloud.Volume{Driver: "csi.kubevirt.io", Handle: "pvc-1"}, ID: "pvc-1"},
			{Name: "foreign", Volume: cloud.Volume{Driver: "csi.other.example", Handle: "pvc-1"}},
		},
		Capacity: cloud.Capacity{Architecture: "amd64", Resources: map[string]string{
			"cpu": "2", "memory": "4Gi", "ephemeral-storage": "20Gi", "pods": "110",
		}},
		Golden: &cloudtest.Golden{
			File: "testdata/create.golden", Normalize: normalize,
			Class: func(*cloudtest.Fixture) cloud.ClassInput { return class(everyField()) },
		},
		Draws:    cloudtest.Draws(),
		Parallel: 40,
	})
}

var namespaces atomic.Int32

// fixture is a namespace of its own.
func fixture(t testing.TB, s kubevirttest.Server) *cloudtest.Fixture {
	t.Helper()
	n, err := s.NewNamespace(t.Context(), fmt.Sprintf("infra-%d", namespaces.Add(1)))
	must(t, err)
	another, err := s.NewNamespace(t.Context(), fmt.Sprintf("infra-%d", namespaces.Add(1)))
	must(t, err)
	var shift atomic.Int64
	p := cloudtest.NewProxy(n, func(r *http.Request, _ []byte) cloudtest.Call {
		login := r.URL.Path == "/apis/kubevirt.io/v1"
		return cloudtest.Call{Op: r.Method + " " + r.URL.Path, Login: login, Mutates: r.Method != http.MethodGet}
	})
	return &cloudtest.Fixture{
		Driver: func() cloud.Driver {
			d := kubevirt.NewDriver(func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }, p)
			d.SetPageSize(pageSize)
			return d
		},
		Class: class(nil),
		Others: map[string]cloud.ClassInput{
			"other cluster": class(map[string]any{"tags": tags("c2", "node")}),
			"other role":    class(map[string]any{"tags": tags("c1", "gateway")}),
		},
		Elsewhere:     class(map[string]any{"instancetype": map[string]any{"name": "large"}}),
		Memory:        wrap.Offerings(0, wrap.Clock{}),
		Scarce:        scarce(n),
		Broken:        class(map[string]any{"zone": "", "dnsPolicy": "Never", "rootVolume": 5}),
		UnknownType:   class(map[string]any{"instancetype": map[string]any{"name": "huge"}}),
		ManyAddresses: class(map[string]any{"networks": []map[string]any{{"name": "default/storage"}}}),
		Tagged:        class(map[string]any{"tags": tags("c1", "node", "team", "a", "cost", "1")}),
		Retagged:      class(map[string]any{"tags": tags("c1", "node", "team", "b", "stage", "2")}),
		Another: cloudtest.Another{
			Scopes: wrap.Scopes(), Credentials: cloud.Credentials{"kubeconfig": another.Kubeconfig()},
		},
		Credentials: cloud.Credentials{"kubeconfig": n.Kubeconfig(), "userData": []byte("#cloud-config")},
		Backend:     backend(n, p, &shift),
	}
}

// backend is the namespace as the administrator of the API server sees it.
func backend(n *kubevirttest.Namespace, p *cloudtest.Proxy, shift *atomic.Int64) cloudtest.Backend {
	set := func(word string) func(t testing.TB, id string) {
		return func(t testing.TB, id string) { must(t, n.Set(t.Context(), id, word)) }
	}
	return cloudtest.Backend{
		Proxy: p, PageSize: pageSize,
		Ledger: func(t testing.TB) []cloud.Resource { return ledger(t, n) },
		Seed:   func(t testing.TB, s cloudtest.Seed) string { return seed(t, n, s) },
		Advance: func(t testing.TB, d time.Duration) {
			shift.Add(int64(d))
			must(t, n.Move(t.Context()))
		},
		UserData: func(t testing.TB, id string) []byte {
			data, err := n.UserData(t.Context(), id)
			must(t, err)
			return data
		},
		States: []cloudtest.VMState{
			{Name: "Stopped", Set: set("Stopped"), Want: cloud.StateStopped},
			{Name: "Paused", Set: set("Paused"), Want: cloud.StateStopped},
			{Name: "CrashLoopBackOff", Set: set("CrashLoopBackOff"), Want: cloud.StatePending},
			{Name: "DataVolumeError", Set: set("DataVolumeError"), Want: cloud.StateFailed},
			{Name: "ErrorUnschedulable", Set: set("ErrorUnschedulable"), Want: cloud.StatePending},
		},
		Boot: func(t testing.TB, id string) string {
			boots, err := n.Boots(t.Context(), id)
			must(t, err)
			return boots
		},
		Console: func(_ testing.TB, id, text string) string { return n.Console(id, text) },
		Fail:    set("DataVolumeError"),
		Occupy: func(t testing.TB, name string) func() {
			must(t, n.Put(t.Context(), kubevirttest.Thing{Kind: kubevirttest.VM, Name: name}, ""))
			return func() { must(t, n.Remove(t.Context(), name)); must(t, n.Move(t.Context())) }
		},
		Late: map[string]func(testing.TB) func(){
			"Disk": volumesIn(n, kubevirttest.WaitsForUse), "Import": volumesIn(n, kubevirttest.Importing),
		},
		Revoke: func(testing.TB) { n.Revoke() },
	}
}

// volumesIn keeps the volumes of VMs in a phase.
func volumesIn(n *kubevirttest.Namespace, phase string) func(testing.TB) func() {
	return func(testing.TB) func() {
		n.Behave(kubevirttest.Behaviour{Volumes: phase})
		return func() { n.Behave(kubevirttest.Behaviour{}) }
	}
}

// scarce is what the nodes run out of.
func scarce(n *kubevirttest.Namespace) map[string]cloudtest.Scarcity {
	none := func(of string) func(testing.TB) func() {
		return func(testing.TB) func() {
			n.Behave(kubevirttest.Behaviour{NoNode: "0/3 nodes are available: 3 Insufficient", NoNodeFor: of})
			return func() { n.Behave(kubevirttest.Behaviour{}) }
		}
	}
	zones := class(map[string]any{"zones": []string{"eu-2"}})
	gpus := func(devices ...string) cloud.ClassInput {
		all := []map[string]any{}
		for i, device := range devices {
			all = append(all, map[string]any{"name": fmt.Sprintf("gpu%d", i), "deviceName": device})
		}
		return class(map[string]any{
			"instancetype": nil, "devices": map[string]any{"gpus": all},
			"resources": map[string]any{"requests": map[string]any{"cpu": "2", "memory": "4Gi"}},
		})
	}
	return map[string]cloudtest.Scarcity{
		"Zone": {Class: zones, Zone: "eu-1", Free: zones, FreeZone: "eu-2", SellOut: none(`"eu-1"`)},
		"Accelerators": {
			Class: gpus("nvidia.com/t4", "nvidia.com/t4"), Free: gpus("nvidia.com/t4"), SellOut: none(`"gpu1"`),
		},
	}
}

var kinds = map[string]cloud.Kind{
	kubevirttest.VM: cloud.KindVM, kubevirttest.Volume: cloud.KindDisk, kubevirttest.Secret: cloud.KindKey,
}

// ledger is everything in the namespace. An instance without a VM is something that was forgotten.
func ledger(t testing.TB, n *kubevirttest.Namespace) []cloud.Resource {
	t.Helper()
	things, err := n.Things(t.Context())
	must(t, err)
	var all []cloud.Resource
	for _, thing := range things {
		kind, known := kinds[thing.Kind]
		if !known {
			kind = cloud.Kind(thing.Kind)
		}
		all = append(all, cloud.Resource{
			Kind: kind, ID: thing.Name, MachineName: thing.Labels["kubevirt.io/vm"],
			OwnerID: thing.Labels["mcm.cluster.x-k8s.io/owner-id"], Created: thing.Created, Attached: thing.Owned,
			Tags: thing.Labels,
		})
	}
	return all
}

// seed makes something with the labels of a class.
func seed(t testing.TB, n *kubevirttest.Namespace, s cloudtest.Seed) string {
	t.Helper()
	labels := map[string]string{}
	if !s.Untagged {
		for tag := range strings.FieldsSeq(s.Class.Owner) {
			key, value, _ := strings.Cut(tag, "=")
			labels[key] = value
		}
	}
	for key, value := range map[string]string{"kubevirt.io/vm": s.Name, "mcm.cluster.x-k8s.io/owner-id": s.OwnerID} {
		if value != "" {
			labels[key] = value
		}
	}
	kind := kubevirttest.VM
	for of, known := range kinds {
		if known == s.Kind {
			kind = of
		}
	}
	thing := kubevirttest.Thing{Kind: kind, Name: n.Named("seed"), Labels: labels}
	must(t, n.Put(t.Context(), thing, s.AttachTo))
	return thing.Name
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
