package outage_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/metrics"
)

// exports are the metrics that the manager has, by name: type and names of labels. Rules and
// dashboards may use these, and no others.
type exports map[string]string

// add notes what was gathered.
func (e exports) add(families []*dto.MetricFamily) {
	for _, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		e[f.GetName()] = strings.ToLower(f.GetType().String()) + " " +
			strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	}
}

// compare compares the list with the one that is kept, or keeps it.
func (e exports) compare(t *testing.T) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if ours := strings.HasPrefix(name, "mcm_") || name == "rest_client_request_latency_seconds" ||
			name == "go_goroutines" || name == "process_resident_memory_bytes" || name == "process_cpu_seconds_total"; ours {
			fmt.Fprintln(&text, name, e[name])
		}
	}
	file := filepath.Join(recordings, "exports.txt")
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), text.String()); diff != "" {
		t.Errorf("%s is not what the manager has: run go test ./test/outage -update\n%s", file, diff)
	}
}

// elsewhere are the metrics that no test of this package has: those of Cluster API's objects, of
// requests and of queues.
func elsewhere(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	requests := metrics.NewRequests(clock.RealClock{})
	ask(t, requests)
	scrape := func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }
	unreadable := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build()
	failing, err := metrics.NewRegistry(metrics.NewClusterAPI(unreadable, scrape, nil, metrics.MCMMachines()))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := metrics.NewRegistry(requests, metrics.NewClusterAPI(providers(t), scrape, nil,
		metrics.MCMMachines(), metrics.MCMClusters(), metrics.MCMExternalControlPlanes()))
	if err != nil {
		t.Fatal(err)
	}
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "machine"})
	defer queue.ShutDown()
	queue.Add("a")
	item, _ := queue.Get()
	queue.Done(item)
	families, err := registry.Gatherer(metrics.Both, ctrlmetrics.Registry, failing).Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// providers has one object of each kind, with all that the metrics show.
func providers(t *testing.T) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{infrav1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	conditions := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	meta := metav1.ObjectMeta{
		Namespace: namespace, Name: "a", DeletionTimestamp: new(metav1.Unix(1, 0)), Finalizers: []string{"a/b"},
	}
	machine, infra := &infrav1.MCMMachine{ObjectMeta: meta}, &infrav1.MCMCluster{ObjectMeta: meta}
	plane := &controlplanev1.MCMExternalControlPlane{ObjectMeta: meta}
	machine.Status.Conditions, infra.Status.Conditions, plane.Status.Conditions = conditions, conditions, conditions
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine, infra, plane).Build()
}

// ask sends a list and a watch that ends at once.
func ask(t *testing.T, requests *metrics.Requests) {
	t.Helper()
	wire := requests.Wrap(answers{})
	for _, query := range []string{"", "?watch=true&resourceVersion=7"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/api/v1/nodes"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := wire.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type answers struct{}

// RoundTrip answers with nothing.
func (answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}
