package monitoring

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A fault begins 20 minutes after its recording does.
const quiet = 20 * time.Minute

// TestAlerts: on what the real controllers showed, each alert fires in its fault and no other
// one does. What is named beside the fault's own alert follows from it.
func TestAlerts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		within time.Duration // the first alert of the list fires
		want   []string
	}{
		"healthy-day": {"pools grow, shrink and roll, a VM and a node are lost, and the manager is replaced", 0, nil},
		"no-leader":   {"all replicas stand by", 6 * time.Minute, []string{"MCMNoLeader"}},
		"frozen":      {"nodes cannot be listed", 8 * time.Minute, []string{"MCMFrozen"}},
		"outage": {
			"a zone is cut off", 5 * time.Minute, []string{"MCMOutage", "MCMMachineUnhealthy", "MCMPoolShort"},
		},
		"create-failing": {"the cloud has no capacity", 25 * time.Minute, []string{"MCMCreateFailing", "MCMPoolShort"}},
		"replace-loop":   {"each node breaks after it has joined", 3 * time.Hour, []string{"MCMReplaceLoop"}},
		"join-failing":   {"VMs run and no node joins", 25 * time.Minute, []string{"MCMJoinFailing", "MCMPoolShort"}},
		"slow-join":      {"VMs take 14 minutes to boot", 20 * time.Minute, []string{"MCMSlowJoin"}},
		"delete-stuck":   {"the cloud deletes no VM", 155 * time.Minute, []string{"MCMDeleteStuck"}},
		"rollout-stuck": {
			"the quota ends in the middle of a rollout", 175 * time.Minute,
			[]string{"MCMRolloutStuck", "MCMCreateFailing"},
		},
		"set-frozen": {"machines are created beside a set and cannot be deleted", 15 * time.Minute, []string{"MCMSetFrozen"}},
		"credentials": {
			"the cloud refuses all requests", 15 * time.Minute,
			[]string{"MCMCredentialsRefused", "MCMCreateFailing", "MCMPoolShort"},
		},
		"orphan-surge":    {"8 VMs have no machine", 15 * time.Minute, []string{"MCMOrphanSurge"}},
		"hold-unanswered": {"a controller keeps held objects", 12 * time.Minute, []string{"MCMHoldUnanswered"}},
	}
	tested := map[string]bool{}
	for name, c := range cases {
		for _, alert := range c.want {
			tested[alert] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fired := play(t, recording(t, name))
			checkFired(t, c.reason, c.want, fired)
			if len(c.want) > 0 && fired[c.want[0]] != nil && fired[c.want[0]].first > quiet+c.within {
				t.Errorf("%s: %s fires %s after the fault began, want %s", c.reason, c.want[0],
					fired[c.want[0]].first-quiet, c.within)
			}
		})
	}
	for alert := range alerts(t) {
		if !tested[alert] {
			t.Errorf("%s has no fault that it is tested with", alert)
		}
	}
}

// TestAlertsOfClusterAPI: no recording has the objects of Cluster API, so these series are written;
// TestSeriesAreThere compares them with what the manager has.
func TestAlertsOfClusterAPI(t *testing.T) {
	t.Parallel()
	for name, c := range clusterAPI() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFired(t, c.reason, c.want, play(t, append(c.series, leaders...)))
		})
	}
	t.Run("NothingIsScraped", func(t *testing.T) {
		t.Parallel()
		checkFired(t, "no replica has metrics", []string{"MCMNoLeader"}, play(t, []string{`up{job="other"} 1x20`}))
	})
	t.Run("OneProviderIsGone", func(t *testing.T) {
		t.Parallel()
		checkFired(t, "the pods of one of two providers are gone", []string{"MCMNoLeader"}, play(t, []string{
			`mcm_manager_leading{api_group="infrastructure.cluster.x-k8s.io",namespace="capmcm-system"} 1x5 _x30`,
			`mcm_manager_leading{api_group="bootstrap.cluster.x-k8s.io",namespace="capmcm-bootstrap-system"} 1x35`,
		}))
	})
}

// leaders are two replicas of the infrastructure provider.
var leaders = []string{
	`mcm_manager_leading{api_group="infrastructure.cluster.x-k8s.io",namespace="capmcm-system",pod="a"} 1x300`,
	`mcm_manager_leading{api_group="infrastructure.cluster.x-k8s.io",namespace="capmcm-system",pod="b"} 0x300`,
}

type written struct {
	reason string
	series []string
	want   []string
}

func clusterAPI() map[string]written {
	const machine = `namespace="clusters",name="m1",pod="a"`
	return map[string]written{
		"Healthy": {"a machine that works, where the native API is not installed", []string{
			`mcm_mcmmachine_provisioned{` + machine + `} 0x5 1x295`,
			`mcm_mcmmachine_status_condition{condition="Ready",reason="VMRunning",` + machine + `} _x6 1x294`,
			`mcm_mcmmachine_status_condition{condition="CredentialsAvailable",reason="Accepted",` + machine + `} 1x300`,
		}, nil},
		"CreateFailing": {"the cloud has no capacity", []string{
			`mcm_mcmmachine_provisioned{` + machine + `} 0x300`,
			`mcm_mcmmachine_status_condition{condition="VMProvisioned",reason="CapacityExhausted",` + machine + `} 0x300`,
		}, []string{"MCMCreateFailing"}},
		"Unhealthy": {"the VM was deleted in the cloud, and no MachineHealthCheck replaces the machine", []string{
			`mcm_mcmmachine_provisioned{` + machine + `} 1x300`,
			`mcm_mcmmachine_status_condition{condition="Ready",reason="InstanceNotFound",` + machine + `} _x20 0x280`,
		}, []string{"MCMMachineUnhealthy"}},
		"DeleteStuck": {"a deletion does not end", []string{
			`mcm_mcmmachine_deletion_timestamp_seconds{` + machine + `} 60x300`,
		}, []string{"MCMDeleteStuck"}},
		"Credentials": {"the cloud refuses the credentials", []string{
			`mcm_mcmmachine_status_condition{condition="CredentialsAvailable",reason="CredentialsRefused",` +
				machine + `} 0x300`,
		}, []string{"MCMCredentialsRefused"}},
	}
}

// checkFired: these alerts fired and no others, and their texts are complete.
func checkFired(t *testing.T, reason string, want []string, fired map[string]*firing) {
	t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(fired))); diff != "" {
		t.Errorf("%s: alerts (-want +got):\n%s", reason, diff)
	}
	for alert, f := range fired {
		for text := range f.texts {
			if strings.Contains(text, "error") || strings.Contains(text, "no value") || strings.Contains(text, "  ") ||
				strings.Contains(text, " .") || strings.Contains(text, " ,") {
				t.Errorf("%s: text %q", alert, text)
			}
		}
	}
}
