package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/fleet"
)

// pools are a fleet of both APIs.
func pools() []client.Object {
	return slices.Concat(fleet.Native(), fleet.ClusterAPI(), fleet.Storage(), fleet.Healthy("system", 6))
}

// clusters are API servers that count what they are asked for, and fail on request.
type clusters struct {
	client.Reader
	mu    sync.Mutex
	lists map[string]int
	gets  int
	fail  error
	now   time.Time
}

func (c *clusters) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.mu.Lock()
	kind := typeOf(list)
	c.lists[kind]++
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		return fail
	}
	return c.Reader.List(ctx, list, opts...)
}

func (c *clusters) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.mu.Lock()
	c.gets++
	c.mu.Unlock()
	return c.Reader.Get(ctx, key, o, opts...)
}

func (c *clusters) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// change changes what the next reading finds, some time later.
func (c *clusters) change(later time.Duration, fail error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.fail = c.now.Add(later), fail
}

func (c *clusters) deps() inspect.Deps {
	return inspect.Deps{Now: c.clock, Connect: func() (inspect.Clusters, error) {
		return inspect.Clusters{Control: c, Target: c, Namespace: fleet.Namespace}, nil
	}}
}

func clustersWith(t *testing.T, objects ...client.Object) *clusters {
	t.Helper()
	return &clusters{Reader: fleet.API(t, objects...).Build(), lists: map[string]int{}, now: fleet.Now}
}

// handler is a dashboard of these clusters.
func handler(t *testing.T, c *clusters, change ...func(*options)) http.Handler {
	t.Helper()
	o := &options{deps: c.deps()}
	for _, f := range change {
		f(o)
	}
	s, err := o.source()
	if err != nil {
		t.Fatal(err)
	}
	return newHandler(s)
}

// get asks as a browser on this machine does.
func get(t *testing.T, h http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Host = "127.0.0.1:1234"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decoded[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var found T
	if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	return found
}

// TestEndpoints: programs find the same versioned objects as with -o json.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	h := handler(t, clustersWith(t, pools()...))
	for path, kind := range map[string]string{
		"/api/state": "Dashboard", "/api/tree": "Tree", "/api/tree?pool=workers&all=true": "Tree", "/api/top": "Top",
		"/api/tree?all=true": "Tree",
		"/api/why?kind=Machine&name=workers-abcde-3&namespace=garden":                        "Explanation",
		"/api/why?kind=Node&name=node-workers-abcde-1":                                       "Explanation",
		"/api/timeline?kind=Machine&name=workers-abcde-1":                                    "Timeline",
		"/api/timeline?kind=MachineDeployment&name=blue&apiVersion=cluster.x-k8s.io/v1beta2": "Timeline",
	} {
		w := get(t, h, path)
		head := decoded[metav1.TypeMeta](t, w)
		if head.APIVersion != explain.Version || head.Kind != kind || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %+v, want kind %s", path, head, kind)
		}
	}
	for path, want := range map[string]string{
		"/api/why?kind=Machine&name=nobody": `Machine "nobody": no such object`, "/api/tree?pool=nobody": `pool "nobody"`,
		"/api/why?kind=Machine&name=workers-abcde-1&namespace=other": "no such object", "/nothing": "404",
	} {
		if w := get(t, h, path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, %q, want %q", path, w.Code, w.Body, want)
		}
	}
}

// TestPage: the page and its files are ours alone, and none may be taken for another kind.
func TestPage(t *testing.T) {
	t.Parallel()
	h := handler(t, clustersWith(t, pools()...))
	for path, kind := range map[string]string{"/": "text/html", "/app.js": "text/javascript", "/app.css": "text/css"} {
		w := get(t, h, path)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Header())
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := w.Header().Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: header %s is %q, want %q", path, name, got, want)
			}
		}
		for _, outside := range []string{"http://", "https://", "//cdn", "innerHTML", "unsafe-inline"} {
			if strings.Contains(w.Body.String(), outside) {
				t.Errorf("%s has %q", path, outside)
			}
		}
	}
}

// TestRefused: a name that an attacker's DNS resolves to this machine, a page of another site, and writes.
func TestRefused(t *testing.T) {
	t.Parallel()
	h := handler(t, clustersWith(t, pools()...))
	for host, want := range map[string]int{
		"127.0.0.1:80": http.StatusOK, "localhost:8080": http.StatusOK, "LOCALHOST": http.StatusOK, "[::1]:80": http.StatusOK,
		"[::1]": http.StatusOK, "127.8.9.1": http.StatusOK,
		"evil.example:80": http.StatusForbidden, "localhost.evil.example": http.StatusForbidden, "": http.StatusForbidden,
		"127.0.0.1.evil.example": http.StatusForbidden, "192.0.2.1": http.StatusForbidden, "0.0.0.0:80": http.StatusForbidden,
	} {
		for _, path := range []string{"/", "/api/state", "/app.js"} {
			if w := get(t, h, path, func(r *http.Request) { r.Host = host }); w.Code != want {
				t.Errorf("Host %q, %s: status %d, want %d", host, path, w.Code, want)
			}
		}
	}
	for site, want := range map[string]int{
		"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusOK,
		"none": http.StatusOK,
	} {
		if w := get(t, h, "/api/top", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }); w.Code != want {
			t.Errorf("a request of site %s: status %d, want %d", site, w.Code, want)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		w := get(t, h, "/api/top", func(r *http.Request) { r.Method = method })
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: status %d", method, w.Code)
		}
	}
}

// TestOneReadingForAll: however many look at it, the clusters are read once in a while.
func TestOneReadingForAll(t *testing.T) {
	t.Parallel()
	c := clustersWith(t, pools()...)
	h := handler(t, c)
	everybody := func() {
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				for _, path := range []string{
					"/api/state", "/api/top", "/api/tree", "/api/timeline?kind=MachineDeployment&name=workers",
					"/api/why?kind=MachineDeployment&name=workers", "/api/tree?all=true",
				} {
					if w := get(t, h, path); w.Code != http.StatusOK {
						t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
					}
				}
			})
		}
		group.Wait()
	}
	for reading := 1; reading <= 2; reading++ {
		everybody()
		for kind, n := range c.lists {
			if n != reading {
				t.Errorf("%s were listed %d times for all viewers, want %d", kind, n, reading)
			}
		}
		c.change(leastAge, nil)
	}
}

// TestSlowReading: a fleet that takes long to read is read less often.
func TestSlowReading(t *testing.T) {
	t.Parallel()
	c := clustersWith(t, pools()...)
	o := &options{deps: c.deps()}
	s, err := o.source()
	if err != nil {
		t.Fatal(err)
	}
	began := c.now
	s.now = func() time.Time { // a reading takes ten seconds
		c.change(5*time.Second, nil)
		return c.now
	}
	if _, err := s.current(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pause := s.next.Sub(began); pause < 50*time.Second {
		t.Errorf("it is read again after %s", pause)
	}
}

// TestFailedRefresh: the state before stays, with the error, until a reading succeeds.
func TestFailedRefresh(t *testing.T) {
	t.Parallel()
	c := clustersWith(t, pools()...)
	h := handler(t, c)
	c.change(0, errors.New("connection refused"))
	if w := get(t, h, "/api/state"); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "read clusters: list MachineClasses: connection refused") {
		t.Errorf("without any state: status %d, %s", w.Code, w.Body)
	}
	c.change(leastAge, nil)
	before := decoded[Dashboard](t, get(t, h, "/api/state"))
	c.change(leastAge, errors.New("connection refused"))
	after := decoded[Dashboard](t, get(t, h, "/api/state"))
	if before.Error != "" || !strings.Contains(after.Error, "connection refused") || !after.Time.Equal(&before.Time) {
		t.Errorf("before %+v, after a reading that failed %+v", before, after)
	}
	if top := decoded[explain.Top](t, get(t, h, "/api/top")); len(top.Items) != 4 {
		t.Errorf("%d pools, want those of before", len(top.Items))
	}
	c.change(leastAge, nil)
	if again := decoded[Dashboard](t, get(t, h, "/api/state")); again.Error != "" || !after.Time.Before(&again.Time) {
		t.Errorf("after a reading that succeeded: %+v", again)
	}
}

// TestScope: namespace and selector choose the pools, also below a Cluster without the labels.
func TestScope(t *testing.T) {
	t.Parallel()
	objects := pools()
	other := fixture.MachineDeployment("elsewhere", "x", 0)
	other.Namespace = "other"
	for _, o := range objects {
		if o.GetName() == "blue" {
			o.SetLabels(map[string]string{"team": "a"})
		}
	}
	c := clustersWith(t, append(objects, other)...)
	for name, tc := range map[string]struct {
		change func(*options)
		want   string
	}{
		"namespace": {func(*options) {}, "blue storage system workers"},
		"all":       {func(o *options) { o.allNamespaces = true }, "blue storage system workers elsewhere"},
		"selector":  {func(o *options) { o.selector = "team=a" }, "blue workers"},
	} {
		h := handler(t, c, tc.change)
		var found []string
		tree := decoded[explain.Tree](t, get(t, h, "/api/tree"))
		for _, l := range decoded[explain.Top](t, get(t, h, "/api/top")).Items {
			found = append(found, l.Object.Name)
			if find(tree.Items, l.Object) == nil {
				t.Errorf("%s: the tree has no %s", name, l.Object)
			}
		}
		if got := strings.Join(found, " "); got != tc.want {
			t.Errorf("%s: pools %q, want %q", name, got, tc.want)
		}
	}
}

// hostile is a pool whose names and messages are markup. An API server refuses such names; messages it does not.
func hostile() []client.Object {
	objects := fleet.Native()
	m := objects[8].(*machinev1.Machine)
	m.Name = `<img src=x onerror=document.title='owned'>`
	m.Status.Progress.Conditions[0].Message = `</script><script>document.title="owned"</script><b id=owned>`
	m.Status.Progress.Conditions[0].LastTransitionTime = metav1.NewTime(fleet.Now.Add(-time.Minute))
	objects[9].(*corev1.Event).Message = `"><svg onload=document.title='owned'>`
	return objects
}

// TestHostileText: what an object says is never markup, neither in an answer nor in a file.
func TestHostileText(t *testing.T) {
	t.Parallel()
	c := clustersWith(t, hostile()...)
	h := handler(t, c)
	bodies := map[string]string{"file": string(fileOf(t, c))}
	for _, path := range []string{"/api/tree", "/api/top", "/api/timeline?kind=MachineDeployment&name=workers"} {
		bodies[path] = get(t, h, path).Body.String()
	}
	for path, body := range bodies {
		for _, markup := range []string{"<img", "<svg", "<b id", `</script><script>document`} {
			if strings.Contains(body, markup) {
				t.Errorf("%s has %s", path, markup)
			}
		}
	}
	w := get(t, h, "/api/why?kind=Machine&name=%3Cimg%3E")
	if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") || w.Code != http.StatusNotFound {
		t.Errorf("a name of a request comes back as %s", kind)
	}
}
