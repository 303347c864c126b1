package openstack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
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

// TestRetagPaths: a key that a proxy may take for a step in the path is never named in one,
// whatever is recorded as obsolete and wherever it came from.
func TestRetagPaths(t *testing.T) {
	t.Parallel()
	has := map[string]string{}
	change := retag{gone: []string{"", ".", "..", "../..", "a/b", "..%2f..", "...", "a b", "team"}}
	for _, key := range change.gone {
		has[key] = "1"
	}
	for _, of := range []service{nova, cinder} {
		var asked []string
		a := open(t, func(r *http.Request, _ string) (int, string) {
			asked = append(asked, r.Method+" "+r.URL.EscapedPath())
			return http.StatusNoContent, ""
		})
		want := []string{"DELETE /x/s/metadata/...", "DELETE /x/s/metadata/a%20b", "DELETE /x/s/metadata/team"}
		if err := a.retag(t.Context(), of, "x/s", change.from(has)); err != nil || !slices.Equal(asked, want) {
			t.Errorf("got %v, requests %q, want %q", err, asked, want)
		}
	}
}

// TestManyTagsAreReplaced: by as many others, which are with them more than the quota allows.
func TestManyTagsAreReplaced(t *testing.T) {
	t.Parallel()
	const quota = 128
	has, change := map[string]string{}, retag{want: map[string]string{}}
	for i := range quota * 2 / 3 {
		has[fmt.Sprint("old", i)], change.want[fmt.Sprint("new", i)] = "1", "1"
	}
	change.gone = slices.Sorted(maps.Keys(has))
	change = change.from(has)
	for _, of := range []service{nova, cinder} {
		has := maps.Clone(has)
		a := open(t, func(r *http.Request, body string) (int, string) {
			if r.Method == http.MethodDelete {
				delete(has, r.URL.Path[len("/x/s/metadata/"):])
				return http.StatusNoContent, ""
			}
			var in struct{ Metadata map[string]string }
			if err := json.Unmarshal([]byte(body), &in); err != nil {
				t.Error(err)
			}
			if len(has)+len(in.Metadata) > quota {
				return http.StatusForbidden, `{"forbidden": {"message": "Maximum number of metadata items exceeds 128"}}`
			}
			maps.Copy(has, in.Metadata)
			return http.StatusOK, "{}"
		})
		if err := a.retag(t.Context(), of, "x/s", change); err != nil || !maps.Equal(has, change.want) {
			t.Errorf("got %v, metadata %v", err, has)
		}
	}
}

// TestDefaultGroup: what the driver makes of the security groups that there are.
func TestDefaultGroup(t *testing.T) {
	t.Parallel()
	const ours = `, "name": "g", "description": "` + groupMark + `"`
	rule := func(id, kind string) string {
		return `{"security_group_id": "` + id + `", "direction": "ingress", "ethertype": "` + kind +
			`", "remote_group_id": "` + id + `"}`
	}
	cases := map[string]struct {
		reason, before, after string // groups, before and after one was made
		want                  string
		changes               []string
	}{
		"none": {
			"it is made, with what comes from the group", ``, `{"id": "a"` + ours + `}`, "a",
			[]string{"security-groups", "security-group-rules IPv4", "security-group-rules IPv6"},
		},
		"two at once": {
			"all managers take the same", ``,
			`{"id": "b", "created_at": "2026-01-02T00:00:00Z"` + ours + `}, {"id": "c", "created_at": "2026-01-01T00:00:00Z"` +
				ours + `}`, "c",
			[]string{"security-groups", "security-group-rules IPv4", "security-group-rules IPv6"},
		},
		"half made": {
			"an earlier call was interrupted",
			`{"id": "a", "security_group_rules": [` + rule("a", "IPv4") + `]` + ours + `}`, ``,
			"a",
			[]string{"security-group-rules IPv6"},
		},
		"somebody's": {"its rules are those that its owner wants", `{"id": "a", "name": "g"}`, ``, "a", nil},
		"other name": {
			"Neutron may find more", `{"id": "z", "name": "G"}, {"id": "a", "name": "g"}`, ``, "a", nil,
		},
	}
	for name, x := range cases {
		var changes []string
		groups := x.before
		a := open(t, func(r *http.Request, body string) (int, string) {
			if r.Method == http.MethodGet {
				return http.StatusOK, `{"security_groups": [` + groups + `]}`
			}
			change := strings.TrimPrefix(r.URL.Path, "/")
			for _, kind := range []string{"IPv4", "IPv6"} {
				if strings.Contains(body, kind) {
					change += " " + kind
				}
			}
			changes, groups = append(changes, change), x.before+x.after
			return http.StatusCreated, "{}"
		})
		for range 2 { // the second time it is known
			got, err := a.defaultGroup(t.Context(), "g")
			if err != nil || got != x.want || !slices.Equal(changes, x.changes) {
				t.Errorf("%s: got %q, %v, changes %q, want %q, %q\nbecause: %s", name, got, err, changes, x.want, x.changes,
					x.reason)
			}
		}
	}
}

// TestFloatingIPOnThePortAlready: Neutron refuses a second one. That of an earlier
// request, whose answer was lost, is tagged; that of a user stays as it is.
func TestFloatingIPOnThePortAlready(t *testing.T) {
	t.Parallel()
	c := &config{
		Spec:      spec{NetworkID: "n", FloatingIPPool: "00000000-0000-4000-8000-000000000001"},
		ownership: []string{"k"},
	}
	r := cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m", OwnerID: "o"}, Tags: map[string]string{cloud.ClusterIDTag: "c"},
	}
	for description, tagged := range map[string]string{
		c.addressMark(r.Ref).String(): `{"tags":["k","mcm.cluster.x-k8s.io-cluster-id=c"]}`, "a user's": "",
	} {
		got := ""
		a := open(t, func(q *http.Request, body string) (int, string) {
			switch {
			case q.Method == http.MethodPost:
				return http.StatusConflict, `{"NeutronError": {"type": "FloatingIPPortAlreadyAssociated", "message": "no"}}`
			case q.Method == http.MethodPut:
				got = body
				return http.StatusOK, "{}"
			case q.URL.Query().Get("port_id") == "p":
				return http.StatusOK, `{"floatingips": [{"id": "f", "floating_ip_address": "1.2.3.4", "port_id": "p", ` +
					`"description": "` + description + `"}]}`
			}
			return http.StatusOK, `{"floatingips": []}` // the look before: it was made a moment later
		})
		s := server{ID: "s"}
		err := a.ensureAddress(t.Context(), c, r, &s, []port{{ID: "p", NetworkID: "n"}})
		want := []cloud.Address{{Kind: "ExternalIP", Value: "1.2.3.4"}}
		if addresses := addressesOf(s); err != nil || got != tagged || !slices.Equal(addresses, want) {
			t.Errorf("%s: got %v, %v, tags %s, want %v, %s", description, err, addresses, got, want, tagged)
		}
	}
}

// TestPortThatHasJustGone: the class is not wrong because of it, so it is tried again.
func TestPortThatHasJustGone(t *testing.T) {
	t.Parallel()
	c := &config{
		Spec:      spec{NetworkID: "n", FloatingIPPool: "00000000-0000-4000-8000-000000000001"},
		ownership: []string{"k"},
	}
	for kind, want := range map[string]cloud.Code{
		"PortNotFound": cloud.Unknown, "FloatingIPNotFound": cloud.Unknown, "NetworkNotFound": cloud.Invalid,
		"OverQuota": cloud.Exhausted,
	} {
		a := open(t, func(r *http.Request, _ string) (int, string) {
			if r.Method == http.MethodGet {
				return http.StatusOK, `{"floatingips": []}`
			}
			return http.StatusNotFound, `{"NeutronError": {"type": "` + kind + `", "message": "no"}}`
		})
		r := cloud.CreateRequest{Ref: cloud.Ref{Name: "m", OwnerID: "o"}}
		err := a.ensureAddress(t.Context(), c, r, &server{ID: "s"}, []port{{ID: "p", NetworkID: "n"}})
		if cloud.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %v", kind, err, want)
		}
	}
}

// TestNoFloatingIPs: a cloud without floating IPs, or a user who may not list them, is
// none of the business of a class without pool.
func TestNoFloatingIPs(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusForbidden} {
		for pool, want := range map[string]bool{"": true, "public": false} {
			a := open(t, func(*http.Request, string) (int, string) { return status, "{}" })
			c := &config{Spec: spec{FloatingIPPool: pool}, ownership: []string{"k"}}
			_, err := a.addressesOf(t.Context(), opDelete, c, cloud.Ref{Name: "m", OwnerID: "o"})
			if (err == nil) != want {
				t.Errorf("status %d with pool %q: got %v", status, pool, err)
			}
		}
	}
}

// TestSeveralFixedAddresses: Neutron asks which one a floating IP is for.
func TestSeveralFixedAddresses(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"":         {"10.0.0.1"},
		"10.0.0.1": {"fd00::1", "10.0.0.1", "10.0.0.2"},
	} {
		var p port
		for _, text := range texts {
			p.Fixed = append(p.Fixed, struct {
				Address string `json:"ip_address"`
			}{text})
		}
		if got := p.first(); got != want {
			t.Errorf("%q: got %q, want %q", texts, got, want)
		}
	}
}

// TestMarkOfALongName: Neutron takes no description of more than 255 characters, and finds a
// floating IP by its whole description only. Names of machines may have 253 characters.
func TestMarkOfALongName(t *testing.T) {
	t.Parallel()
	c := &config{ownership: []string{"k"}}
	const owner = "00000000-0000-4000-8000-000000000001"
	mark := func(name string) string { return c.addressMark(cloud.Ref{Name: name, OwnerID: owner}).String() }
	long := strings.Repeat("a", 252)
	one, other := mark(long+"b"), mark(long+"c")
	if len(one) > 255 || one == other {
		t.Errorf("descriptions %q and %q, want different ones of at most 255 characters", one, other)
	}
	if read := readBirthmark(one); mark(read.machine) != one || read.owner != owner {
		t.Errorf("description %q, read as %+v, is not written the same again", one, read)
	}
	if short := mark(long[:140]); !strings.HasSuffix(short, " machine="+long[:140]) || len(short) != 255 {
		t.Errorf("description %q of a name that fits, want the whole name", short)
	}
}
