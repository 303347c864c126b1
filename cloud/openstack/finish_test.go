package openstack

import (
	"net/http"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestVolumesOfNovaAreMarked: only those without a name, which Nova deletes with the
// server.
func TestVolumesOfNovaAreMarked(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, attached, volume string
		status                   int // of the change
		want                     string
	}{
		"boot volume": {
			"it goes with the machine", `{"id": "v", "delete_on_termination": true}`, `{"id": "v"}`, http.StatusOK,
			`{"volume":{"metadata":{"k":"1","` + ownerKey + `":"o"},"name":"m"}}`,
		},
		"with metadata": {
			"what is there stays", `{"id": "v", "delete_on_termination": true}`, `{"id": "v", "metadata": {"x": "y"}}`,
			http.StatusOK, `{"volume":{"metadata":{"k":"1","` + ownerKey + `":"o","x":"y"},"name":"m"}}`,
		},
		"persistent volume": {
			"it survives the server", `{"id": "v", "delete_on_termination": false}`, `{"id": "v"}`, http.StatusOK, "",
		},
		"named": {
			"somebody has named it, perhaps we", `{"id": "v", "delete_on_termination": true}`, `{"id": "v", "name": "x"}`,
			http.StatusOK, "",
		},
		"not permitted": {
			"the server is complete without", `{"id": "v", "delete_on_termination": true}`, `{"id": "v"}`, http.StatusForbidden,
			`{"volume":{"metadata":{"k":"1","` + ownerKey + `":"o"},"name":"m"}}`,
		},
	}
	for name, x := range cases {
		got, calls := "", 0
		a := open(t, func(r *http.Request, body string) (int, string) {
			calls++
			switch {
			case r.Method == http.MethodPut:
				got = body
				return x.status, "{}"
			case strings.HasPrefix(r.URL.Path, "/servers/") && r.Header.Get("X-OpenStack-Nova-API-Version") == "2.3":
				return http.StatusOK, `{"server": {"os-extended-volumes:volumes_attached": [` + x.attached + `]}}`
			}
			return http.StatusOK, `{"volume": ` + x.volume + `}`
		})
		c := &config{Spec: spec{RootDiskSize: 20, Tags: map[string]string{"k": "1"}}, ownership: []string{"k"}}
		r := cloud.CreateRequest{Ref: cloud.Ref{Name: "m", OwnerID: "o"}}
		if err := a.markVolumes(t.Context(), c, r, server{ID: "s"}); err != nil || got != x.want {
			t.Errorf("%s: got %v, %s, want %s\nbecause: %s", name, err, got, x.want, x.reason)
		}
		asked := calls
		if err := a.markVolumes(t.Context(), c, r, server{ID: "s"}); err != nil || x.want != "" && calls != asked {
			t.Errorf("%s: marked again by %d calls, %v", name, calls-asked, err)
		}
	}
}
