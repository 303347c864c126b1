package mcmexternalcontrolplane_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
)

// asking has spec.version.
func asking(version string) func(*controlplanev1.MCMExternalControlPlane) {
	return func(cp *controlplanev1.MCMExternalControlPlane) { cp.Spec.Version = version }
}

// runs fails unless the status has that version, in both fields.
func (w *env) runs(version, why string) {
	w.t.Helper()
	status, want := w.cp().Status, []clusterv1.StatusVersion{{Version: version}}
	if version == "" {
		want = nil
	}
	if !slices.Equal(status.Versions, want) || status.Version != version {
		w.t.Errorf("versions %v, version %q, want %q: %s", status.Versions, status.Version, version, why)
	}
}

// TestVersion: what the API server reports is in the status, whatever the spec asks
// for, and the controller returns to ask again.
func TestVersion(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		asked, runs string
		wait        time.Duration
		want        string // the condition
	}{
		"NobodyAsks": {"", "v1.36.3", 10 * time.Minute, "True VersionReached: "},
		"Same":       {"v1.36.3+k3s1", "v1.36.3+k3s1", 10 * time.Minute, "True VersionReached: "},
		"Ahead":      {"v1.36.3", "v1.37.0", 10 * time.Minute, "True VersionReached: "},
		"Behind": {
			"v1.37.0", "v1.36.3", time.Minute,
			`False UpgradePending: spec.version is "v1.37.0", and the API server runs "v1.36.3": Cluster API upgrades no ` +
				`workers until they agree; upgrade the control plane (checked every 1m0s)`,
		},
		"OtherSuffix": {"v1.36.3", "v1.36.3+k3s1", 10 * time.Minute, "True VersionReached: "},
		"OlderSuffix": {"v1.36.3+k3s2", "v1.36.3+k3s1", time.Minute, "False UpgradePending: "},
		"PreRelease":  {"v1.37.0", "v1.37.0-rc.1", time.Minute, "False UpgradePending: "},
		"Vendor": {
			"v1.34.1", "v1.34.1-eks-3025e55", 10 * time.Minute,
			`True VersionReached: The API server runs "v1.34.1-eks-3025e55", which is a build of that release`,
		},
		"OtherBuildOfVendor":   {"v1.34.1-eks-c39b1d0", "v1.34.1-eks-3025e55", 10 * time.Minute, "True VersionReached: "},
		"OlderReleaseOfVendor": {"v1.34.1", "v1.34.0-gke.1200", time.Minute, "False UpgradePending: "},
		"NoVersion":            {"v1.36.3", "devel", time.Minute, `Unknown VersionUnknown: `},
		"NotASpecText":         {"latest", "v1.36.3", time.Minute, "False UpgradePending: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, theCluster(), controlPlane(asking(tc.asked)), given())
			w.reconcile()
			w.runs("", "the API server has not answered")
			w.connect()
			w.server.Version = tc.runs
			wait := w.reconcile().RequeueAfter
			want := tc.runs
			if strings.HasSuffix(name, "Vendor") && !strings.HasPrefix(name, "Older") {
				want = tc.asked
			}
			if name == "NoVersion" {
				w.runs("", "Cluster API fails on what is not a semantic version")
			} else {
				w.runs(want, "it is what the API server runs, as Cluster API compares it")
			}
			if got := w.is(controlplanev1.VersionReachedCondition); !strings.HasPrefix(got, tc.want) || wait != tc.wait {
				t.Errorf("VersionReached = %q after %s, want %q after %s", got, wait, tc.want, tc.wait)
			}
			if e := w.event(); (e != "") != strings.HasPrefix(tc.want, "False") {
				t.Errorf("Event %q", e)
			}
			if got := w.is(clusterv1.ReadyCondition); !strings.HasPrefix(got, "True") {
				t.Errorf("an upgrade is no fault of the connection: Ready = %q", got)
			}
			w.writes = nil
			if w.reconcile(); len(w.writes) != 0 {
				t.Errorf("the same answer is not written again: %v", w.writes)
			}
		})
	}
}

// TestVersionFollowsTheServer: what the server is upgraded to shows at the next look.
func TestVersionFollowsTheServer(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(asking("v1.37.0")), given())
	w.connect()
	w.reconcile()
	w.runs("v1.36.3", "nothing was upgraded")
	w.server.Version = "v1.37.0"
	w.reconcile()
	w.runs("v1.37.0", "it was upgraded")
	if got := w.is(controlplanev1.VersionReachedCondition); !strings.HasPrefix(got, "True") {
		t.Errorf("VersionReached = %q", got)
	}
}

// TestVersionStaysWhileTheServerIsSilent: an outage is no downgrade, and it shows.
func TestVersionStaysWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(asking("v1.37.0")), given())
	w.connect()
	w.reconcile()
	w.server.Err = &net.OpError{
		Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 53412}, Err: errors.New("connection reset by peer"),
	}
	if wait := w.reconcile().RequeueAfter; wait != time.Minute {
		t.Errorf("it is asked again after %s", wait)
	}
	w.runs("v1.36.3", "the answer is only late")
	const want = `Unknown VersionUnknown: version of the API server unknown: GET /version: read: connection reset by ` +
		`peer; status.versions keeps "v1.36.3"; allow the kubeconfig's user to GET /version and check that the API server ` +
		`answers (asked again in 1m0s)`
	if got := w.is(controlplanev1.VersionReachedCondition); got != want {
		t.Errorf("VersionReached = %q, want %q", got, want)
	}
	w.clusters.Disconnect(clusterKey)
	w.pass(30 * time.Second)
	w.writes = nil
	if w.reconcile(); len(w.writes) != 0 {
		t.Errorf("a connection that is opened again changes nothing: %v", w.writes)
	}
	w.pass(2 * time.Minute)
	w.reconcile()
	w.runs("v1.36.3", "the connection is lost, and the server is what it was")
	if got := w.is(controlplanev1.VersionReachedCondition); !strings.HasPrefix(got,
		`Unknown VersionUnknown: version of the API server unknown: there is no connection; status.versions keeps "v1.36.3`) {
		t.Errorf("VersionReached = %q", got)
	}
}

// TestVersionOfSeveralServers: while the servers behind one address are upgraded one after
// the other, workers wait for the last.
func TestVersionOfSeveralServers(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theCluster(), controlPlane(asking("v1.37.0")), given())
	w.connect()
	w.reconcile()
	w.server.Next = []string{"v1.37.0", "v1.37.0", "v1.36.3"}
	w.reconcile()
	w.runs("v1.36.3", "one of three servers is not upgraded yet")
	w.server.Next = []string{"v1.36.2", "v1.37.0"}
	w.reconcile()
	w.runs("v1.36.2", "an older server counts at once")
}
