package sim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// ask sends a request as the account and returns the status and the answer.
func (s *env) ask(h http.Handler, method, path, body string) (int, map[string]any) {
	s.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(s.Context(), method, path, strings.NewReader(body))
	r.SetBasicAuth("demo", "demo-secret")
	h.ServeHTTP(w, r)
	out := map[string]any{}
	_ = json.Unmarshal(w.Body.Bytes(), &out) // lists are not looked at
	return w.Code, out
}

func TestHandler(t *testing.T) {
	t.Parallel()
	const vms, vm = "/v1/regions/sim-1/vms", `{"instanceType":"small","image":"linux-1","tags":{"Name":"a"}}`
	cases := map[string]struct {
		reason             string
		method, path, body string
		status             int
		code               string
	}{
		"Create": {"the ordinary way", http.MethodPost, vms, vm, 200, ""},
		"NoJSON": {"a body is JSON", http.MethodPost, vms, "{", 400, sim.CodeInvalidParameter},
		"UnknownField": {
			"a field without effect is refused", http.MethodPost, vms, `{"zones":"x"}`, 400,
			sim.CodeInvalidParameter,
		},
		"NoRegion": {"regions are known", http.MethodPost, "/v1/regions/x/vms", vm, 400, sim.CodeInvalidRegion},
		"NoVM":     {"there is none", http.MethodGet, vms + "/vm-1", "", 404, sim.CodeNotFound},
		"NoDisk":   {"there is none", http.MethodDelete, "/v1/regions/sim-1/disks/disk-1", "", 404, sim.CodeNotFound},
		"BadLimit": {
			"a limit is a number", http.MethodGet, "/v1/regions/sim-1/resources?limit=x", "", 400,
			sim.CodeInvalidParameter,
		},
		"BadNext": {
			"next comes from the page before", http.MethodGet, "/v1/regions/sim-1/resources?next=x", "", 400,
			sim.CodeInvalidParameter,
		},
		"List": {"the ordinary way", http.MethodGet, "/v1/regions/sim-1/resources?tag=Name%3Da", "", 200, ""},
		"Type": {"the ordinary way", http.MethodGet, "/v1/regions/sim-1/instance-types/small", "", 200, ""},
		"NoType": {
			"types are known", http.MethodGet, "/v1/regions/sim-1/instance-types/x", "", 400,
			sim.CodeInvalidInstanceType,
		},
		"Capacity": {
			"the owner's way", http.MethodPut, "/admin/capacity",
			`{"zone":"sim-1a","instanceType":"small","vms":1}`, 200, "",
		},
		"CapacityZone": {
			"zones are known", http.MethodPut, "/admin/capacity", `{"zone":"x","vms":1}`, 400,
			sim.CodeInvalidZone,
		},
		"Fault": {
			"the owner's way", http.MethodPost, "/admin/faults", `{"op":"GetVM","mode":"lost","count":1}`, 200,
			"",
		},
		"FaultMode": {
			"modes are known", http.MethodPost, "/admin/faults", `{"op":"GetVM","mode":"x"}`, 400,
			sim.CodeInvalidParameter,
		},
		"FaultOp": {
			"a fault has an operation", http.MethodPost, "/admin/faults", `{"mode":"lost"}`, 400,
			sim.CodeInvalidParameter,
		},
		"FaultID":  {"ids are numbers", http.MethodDelete, "/admin/faults/x", "", 400, sim.CodeInvalidParameter},
		"Settings": {"the owner's way", http.MethodPatch, "/admin/settings", `{"bootTime":"3s"}`, 200, ""},
		"SettingsType": {
			"durations have a unit", http.MethodPatch, "/admin/settings", `{"bootTime":"3"}`, 400,
			sim.CodeInvalidParameter,
		},
		"Action":        {"actions are known", http.MethodPost, "/admin/vms/vm-1/x", "", 400, sim.CodeInvalidParameter},
		"ActionNoVM":    {"there is none", http.MethodPost, "/admin/vms/vm-1/stop", "", 404, sim.CodeNotFound},
		"UserDataNoVM":  {"there is none", http.MethodGet, "/admin/vms/vm-1/user-data", "", 404, sim.CodeNotFound},
		"Ledger":        {"the owner's way", http.MethodGet, "/admin/ledger?kind=vm", "", 200, ""},
		"Calls":         {"the owner's way", http.MethodGet, "/admin/calls", "", 200, ""},
		"NothingAtRoot": {"nothing is there", http.MethodGet, "/", "", 404, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnv(t, nil)
			status, out := s.ask(sim.Handler(s.Cloud, nil), c.method, c.path, c.body)
			failure, _ := out["error"].(map[string]any)
			code, _ := failure["code"].(string)
			if status != c.status || code != c.code {
				t.Errorf("%s: got %d %q, want %d %q", c.reason, status, code, c.status, c.code)
			}
		})
	}
}

// TestSettingsMerge changes some settings and leaves the others.
func TestSettingsMerge(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) {
		o.Latency = map[string]sim.Duration{"*": sim.Duration(time.Second), sim.OpList: sim.Duration(time.Second)}
	})
	h := sim.Handler(s.Cloud, nil)
	if status, out := s.ask(h, http.MethodPatch, "/admin/settings",
		`{"settle":"2s","latency":{"List":null,"GetVM":"3s"},"zones":[{"name":"z","region":"r"}]}`); status != 200 {
		t.Fatalf("%d %v", status, out)
	}
	got := s.Settings()
	if time.Duration(got.Settle) != 2*time.Second || len(got.Zones) != 1 || got.Zones[0].Name != "z" {
		t.Errorf("settings are %+v", got)
	}
	if _, still := got.Latency[sim.OpList]; still || len(got.Latency) != 2 ||
		time.Duration(got.Latency[sim.OpGetVM]) != 3*time.Second {
		t.Errorf("latencies are %v", got.Latency)
	}
	if len(got.InstanceTypes) == 0 || len(got.Accounts) == 0 {
		t.Errorf("what was not named is gone: %+v", got)
	}
}

// TestOrphanByHand creates an orphan through the ordinary API.
func TestOrphanByHand(t *testing.T) {
	t.Parallel()
	s := newEnv(t, nil)
	h := sim.Handler(s.Cloud, nil)
	_, vm := s.ask(h, http.MethodPost, "/v1/regions/sim-1/vms",
		`{"instanceType":"small","image":"linux-1","userData":"aGk=","tags":{"Name":"orphan","kubernetes.io/cluster/c1":"1",`+
			`"kubernetes.io/role/node":"1"}}`)
	id, _ := vm["id"].(string)
	if _, out := s.ask(h, http.MethodGet, "/admin/vms/"+id+"/user-data", ""); out["userData"] != "aGk=" {
		t.Errorf("the VM boots with %v", out)
	}
	for _, action := range []string{"stop", "start", "fail", "reclaim"} {
		if status, out := s.ask(h, http.MethodPost, "/admin/vms/"+id+"/"+action, ""); status != 200 {
			t.Errorf("%s: %d %v", action, status, out)
		}
	}
	if left := s.Live(); len(left) > 0 {
		t.Errorf("left after the spot reclaim: %+v", left)
	}
	if last := s.Ledger()[0]; last.GoneBy != "cloud" || last.VM.Reason != "SpotReclaimed" {
		t.Errorf("the ledger says %+v", last)
	}
}
