package openstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/octaviatest"
)

const (
	poolAPI = "11111111-1111-1111-1111-111111111111"
	poolWeb = "22222222-2222-2222-2222-222222222222"
	subnetA = "33333333-3333-3333-3333-333333333333"
	serverA = "44444444-4444-4444-4444-444444444444"
)

// balancer is Octavia with two pools, beside a Nova with one server.
type balancer struct {
	*octaviatest.Balancer
	server string // status; empty: it is gone
	lose   int    // the change that is lost, from 1
	after  bool
	made   int // changes
}

func newBalancer() *balancer {
	return &balancer{Balancer: octaviatest.New(poolAPI, poolWeb), server: "ACTIVE"}
}

// RoundTrip answers, and loses one change or its answer.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	change := r.Method != http.MethodGet
	if change {
		b.made++
	}
	lost := change && b.made == b.lose
	if lost && !b.after {
		return nil, errors.New("connection reset")
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	status, out := b.serve(r, body)
	if lost {
		return nil, errors.New("connection reset")
	}
	text, err := json.Marshal(out)
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(string(text))),
	}, err
}

func (b *balancer) serve(r *http.Request, body []byte) (int, any) {
	switch {
	case r.URL.Host == "nova" && b.server == "":
		return http.StatusNotFound, map[string]any{"itemNotFound": map[string]any{"message": "no server", "code": 404}}
	case r.URL.Host == "nova":
		return http.StatusOK, map[string]any{"server": map[string]any{
			"id": serverA, "name": "m", "status": b.server, "metadata": map[string]string{"k": "1", ownerKey: "o"},
			"addresses": map[string]any{"net": []any{
				map[string]string{"addr": "10.0.0.7", "OS-EXT-IPS:type": "fixed"},
				map[string]string{"addr": "10.1.0.7", "OS-EXT-IPS:type": "fixed"},
			}},
		}}
	case r.URL.Host == "neutron":
		return http.StatusOK, map[string]any{"ports": []any{map[string]any{"id": "p", "fixed_ips": []any{
			map[string]string{"subnet_id": "other", "ip_address": "10.0.0.7"},
			map[string]string{"subnet_id": subnetA, "ip_address": "10.1.0.7"},
		}}}}
	}
	return b.Serve(r.Method, r.URL.Path, body)
}

// names are those of the members that get requests, by pool.
func (b *balancer) names() string {
	var found []string
	for _, pool := range []string{poolAPI, poolWeb} {
		for _, m := range b.Members(pool) {
			found = append(found, fmt.Sprintf("%s=%s:%d", m.Name, m.Address, m.Port))
		}
	}
	return strings.Join(found, " ")
}

func placesHere() []string { return []string{poolAPI + ":6443:" + subnetA, poolWeb + ":443:"} }

func refHere() cloud.Ref {
	return cloud.Ref{
		Name: "m", OwnerID: "o", ProviderID: providerID("r", serverA),
		Class: cloud.Class{Spec: &config{ownership: []string{"k"}}},
	}
}

// until calls until it is done; errors that pass are borne.
func until(t *testing.T, call func() (cloud.Registration, error)) {
	t.Helper()
	for range 30 {
		r, err := call()
		if err == nil && r.Done {
			return
		}
		if err != nil && cloud.CodeOf(err) != cloud.Unavailable || err == nil && (r.RetryAfter <= 0 || len(r.Waiting) == 0) {
			t.Fatalf("got %+v, %v", r, err)
		}
	}
	t.Fatal("not done after thirty calls")
}

const registered = "m/o=10.1.0.7:6443 m/o=10.0.0.7:443"

// TestMembers: a server joins pools of one load balancer, which takes one change after the other,
// and leaves them; what is lost on the way changes nothing about the end.
func TestMembers(t *testing.T) {
	t.Parallel()
	const changes = 12 // more than there are
	for lose := range changes {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("Lost%d_%v", lose, after), func(t *testing.T) {
				t.Parallel()
				b := newBalancer()
				b.lose, b.after = lose, after
				a := loggedIn(t, b, time.Now)
				join := func() (cloud.Registration, error) { return a.Register(t.Context(), refHere(), placesHere()) }
				leave := func() (cloud.Registration, error) { return a.Deregister(t.Context(), refHere(), placesHere()) }
				until(t, join)
				until(t, join)
				if b.names() != registered {
					t.Errorf("members %q, want %q", b.names(), registered)
				}
				until(t, leave)
				until(t, leave)
				if b.names() != "" {
					t.Errorf("members %q are left", b.names())
				}
			})
		}
	}
}

// TestMembersOfServers: what else is there decides what becomes of a member.
func TestMembersOfServers(t *testing.T) {
	t.Parallel()
	foreign := octaviatest.Member{ID: "f", Name: "other/x", Address: "10.9.9.9", Port: 6443}
	former := octaviatest.Member{ID: "s", Name: "former/y", Address: "10.1.0.7", Port: 6443}
	own := octaviatest.Member{ID: "m", Name: "m/o", Address: "10.1.0.7", Port: 6443}
	stranger := refHere()
	stranger.OwnerID = "somebody-else"
	for name, tc := range map[string]struct {
		reason     string
		prepare    func(*balancer)
		ref        cloud.Ref
		register   bool
		done       bool
		code       cloud.Code // of an error
		want       string
		wantChange int
	}{
		"Building": {"It runs later.", func(b *balancer) { b.server = "BUILD" }, refHere(), true, false, 0, "", 0},
		"NoServer": {
			"It is gone.", func(b *balancer) { b.server = "" }, refHere(), true, false, cloud.NotFound, "", 0,
		},
		"Stranger": {"It is not theirs.", func(*balancer) {}, stranger, true, false, cloud.NotFound, "", 0},
		"NoPool": {
			"The class is wrong.", func(b *balancer) { b.Drop(poolAPI) }, refHere(), true, false, cloud.Invalid, "", 0,
		},
		"Quota": {
			"There is no room.", func(b *balancer) { b.SetQuota(1); b.Put(poolAPI, foreign) }, refHere(), true, false,
			cloud.Exhausted,
			"other/x=10.9.9.9:6443", 1,
		},
		"TakenOver": {
			"Nova gave the address again.", func(b *balancer) { b.Put(poolAPI, former) }, refHere(), true, true, 0,
			registered, 2,
		},
		"PoolGone": {
			"There is nothing to leave.", func(b *balancer) { b.Drop(poolAPI); b.Drop(poolWeb) }, refHere(), false, true, 0,
			"", 0,
		},
		"ForeignStays": {
			"It is of another machine.", func(b *balancer) { b.Put(poolAPI, foreign) }, refHere(), false, true, 0,
			"other/x=10.9.9.9:6443", 0,
		},
		"StrangerStays": {
			"Only its own go.", func(b *balancer) { b.Put(poolAPI, own) }, stranger, false, true, 0, "m/o=10.1.0.7:6443", 0,
		},
		"LeftByAServer": {
			"Octavia keeps it.", func(b *balancer) { b.server = ""; b.Put(poolAPI, own) }, refHere(), false, true, 0, "", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBalancer()
			tc.prepare(b)
			a := loggedIn(t, b, time.Now)
			var r cloud.Registration
			var err error
			for range 20 {
				call := a.Deregister
				if tc.register {
					call = a.Register
				}
				r, err = call(t.Context(), tc.ref, placesHere())
				if err != nil || r.Done || !tc.done {
					break
				}
			}
			if r.Done != tc.done || (err != nil) != (tc.code != 0) || err != nil && cloud.CodeOf(err) != tc.code ||
				b.names() != tc.want || b.made < tc.wantChange || tc.wantChange == 0 && b.made > 0 {
				t.Errorf("%s\ngot %+v, %v, members %q, %d changes", tc.reason, r, err, b.names(), b.made)
			}
		})
	}
}

// TestPoolsOfAClass: the places of a class, and what is wrong with one.
func TestPoolsOfAClass(t *testing.T) {
	t.Parallel()
	d := NewDriver(Options{})
	places := func(pools string) ([]string, string) {
		class, problems := d.Parse(cloud.ClassInput{Spec: []byte(`{"spec":{"loadBalancerPools":` + pools + `}}`)})
		var fields []string
		for _, p := range problems {
			if strings.Contains(p.Field, "loadBalancerPools") {
				fields = append(fields, p.Field)
			}
		}
		return d.Memberships(class), strings.Join(fields, " ")
	}
	for _, tc := range []struct{ reason, pools, want, wrong string }{
		{
			"Both forms.", `[{"poolID":"` + poolWeb + `","port":443},{"poolID":"` + poolAPI + `","port":6443,"subnetID":"` +
				subnetA + `"}]`,
			strings.Join(placesHere(), " "), "",
		},
		{"A pool is an id.", `[{"poolID":"api","port":1}]`, "", "providerSpec.spec.loadBalancerPools[0].poolID"},
		{"A port is needed.", `[{"poolID":"` + poolWeb + `"}]`, "", "providerSpec.spec.loadBalancerPools[0].port"},
		{
			"A subnet is an id.", `[{"poolID":"` + poolWeb + `","port":443,"subnetID":"a/b"}]`, poolWeb + ":443:a/b",
			"providerSpec.spec.loadBalancerPools[0].subnetID",
		},
	} {
		if got, wrong := places(tc.pools); strings.Join(got, " ") != tc.want || wrong != tc.wrong {
			t.Errorf("%s got %v and problems of %q, want %q and %q", tc.reason, got, wrong, tc.want, tc.wrong)
		}
	}
}
