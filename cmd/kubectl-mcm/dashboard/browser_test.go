package dashboard

import (
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/browser"
)

var update = flag.Bool("update", false, "write the pictures in docs")

const (
	fleetPlace  = "#/"
	poolPlace   = "#/pool?kind=MachineDeployment&namespace=garden&name=storage&apiVersion=machine.sapcloud.io%2Fv1alpha1"
	objectPlace = "#/object?kind=Machine&namespace=garden&name=storage-7849f-3&apiVersion=machine.sapcloud.io%2Fv1alpha1" +
		"&pool.kind=MachineDeployment&pool.namespace=garden&pool.name=storage&pool.apiVersion=machine.sapcloud.io%2Fv1alpha1"
)

// TestInBrowser: what a reader sees, in each view and in a file: the pools, the unhealthy machine with its reason and
// remedy, and the timeline.
func TestInBrowser(t *testing.T) {
	t.Parallel()
	browser.Find(t)
	c := clustersWith(t, pools()...)
	server := httptest.NewServer(handler(t, c))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "incident.html")
	if err := os.WriteFile(file, fileOf(t, c), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, wants := range map[string][]string{
		server.URL + "/" + fleetPlace: {
			">workers</a>", ">storage</a>", ">blue</a>", ">system</a>", "MachineDeployment, Cluster API",
			"CapacityExhausted", "CredentialsRefused", "wait, raise the quota, or use another zone", "2/3",
			"namespace garden", "Read 2026-01-01 12:00:00Z",
		},
		"file://" + file + poolPlace: {
			"Written 2026-01-01", "storage-7849f-3", "NodeUnhealthy", "EvictionDenied", "storage-v1", "time to join, p95",
			"Machines (4, 2 not healthy)",
		},
		"file://" + file + objectPlace: {
			"Missing: ", "NodeUnhealthy", "Kubelet stopped posting node status", "Remedy", "kubectl ", "Timeline",
			"Registered", `class="segment`, "2026-01-01 11:57:00Z", `style="left: 0%`,
		},
	} {
		dom := shown(t, browser.DOM(t, url))
		for _, want := range wants {
			if !strings.Contains(dom, want) {
				t.Errorf("%s does not show %q:\n%s", url, want, dom)
			}
		}
	}
}

// TestFailedRefreshInBrowser: the page shows why a reading failed, and the state before.
func TestFailedRefreshInBrowser(t *testing.T) {
	t.Parallel()
	browser.Find(t)
	c := clustersWith(t, pools()...)
	h := handler(t, c)
	get(t, h, "/api/state")
	c.change(leastAge, errors.New("connection refused"))
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	dom := shown(t, browser.DOM(t, server.URL+"/"))
	for _, want := range []string{
		"Refresh failed: list", "connection refused", "What is shown is of 2026-01-01 12:00:00Z", ">blue</a>",
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page does not show %q:\n%s", want, dom)
		}
	}
}

// shown is what the script has put on the page, without the script and the data of a file.
func shown(t *testing.T, dom string) string {
	t.Helper()
	begin, end := strings.Index(dom, "<header>"), strings.Index(dom, "</main>")
	if begin < 0 || end < begin {
		t.Fatalf("the page has no content:\n%s", dom)
	}
	if found := dom[begin:end]; !strings.Contains(found, "[object ") && !strings.Contains(found, "undefined") {
		return found
	}
	t.Fatalf("the page has a value that is no text:\n%s", dom[begin:end])
	return ""
}

// TestHostileTextInBrowser: markup in a name or message is shown as text.
func TestHostileTextInBrowser(t *testing.T) {
	t.Parallel()
	browser.Find(t)
	server := httptest.NewServer(handler(t, clustersWith(t, hostile()...)))
	t.Cleanup(server.Close)
	dom := browser.DOM(t, server.URL+"/#/object?kind=MachineDeployment&name=workers&namespace=garden&apiVersion="+
		"machine.sapcloud.io%2Fv1alpha1")
	if !strings.Contains(dom, "&lt;b id=owned&gt;") || strings.Contains(dom, "<b id=") || strings.Contains(dom, "<svg") ||
		strings.Contains(dom, "<title>owned") {
		t.Errorf("a message is markup:\n%s", dom)
	}
}

// TestPictures writes the pictures of the documentation, with -update.
func TestPictures(t *testing.T) {
	t.Parallel()
	if !*update {
		t.Skip("it writes the pictures of the documentation; use -update")
	}
	server := httptest.NewServer(handler(t, clustersWith(t, pools()...)))
	t.Cleanup(server.Close)
	for name, p := range map[string]struct {
		place  string
		height int
		width  int
		flags  []string
	}{
		"docs/dashboard.png":            {fleetPlace, 780, 1360, nil},
		"docs/dashboard-machine.png":    {objectPlace, 995, 1360, nil},
		"out/dashboard-fleet-dark.png":  {fleetPlace, 780, 1360, []string{browser.Dark}},
		"out/dashboard-dark.png":        {objectPlace, 1180, 1360, []string{browser.Dark}},
		"out/dashboard-pool.png":        {poolPlace, 1000, 1360, nil},
		"out/dashboard-narrow.png":      {fleetPlace, 1400, 520, nil},
		"out/dashboard-narrow-pool.png": {objectPlace, 1800, 520, nil},
	} {
		picture := browser.Screenshot(t, server.URL+"/"+p.place, p.width, p.height, p.flags...)
		file := filepath.Join("../../..", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
