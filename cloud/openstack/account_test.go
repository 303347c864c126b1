package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// answers plays the services: it answers a request by what begins its method and
// path.
type answers func(r *http.Request, body string) (status int, text string)

// RoundTrip answers.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(text)
	}
	status, text := a(r, body)
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)),
		Request: r,
	}, nil
}

// open returns an account that is logged in at these services.
func open(t *testing.T, a answers) *account {
	t.Helper()
	return loggedIn(t, a, time.Now)
}

// loggedIn returns an account that is logged in and calls services through a transport.
func loggedIn(t *testing.T, transport http.RoundTripper, now func() time.Time) *account {
	t.Helper()
	s, err := NewDriver(Options{Transport: transport}).connect(login{}, "r")
	if err != nil {
		t.Fatal(err)
	}
	s.calls.Login = driverkit.NewLogin(driverkit.LoginOptions{}, func(context.Context) (auth, error) {
		return auth{token: "t", urls: map[service]string{
			nova: "http://nova/", glance: "http://glance/", neutron: "http://neutron/", cinder: "http://cinder/",
			octavia: "http://octavia/",
		}}, nil
	})
	return newAccount(now, "r", s)
}

// hanging answers nothing.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestHungLookUpEnds: those who wait for the same look-up by name are free again soon.
func TestHungLookUpEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := loggedIn(t, hanging{}, time.Now)
		began := time.Now()
		_, err := a.imageOf(t.Context(), opCreate, &spec{ImageName: "ubuntu"})
		if took := time.Since(began); cloud.CodeOf(err) != cloud.Unavailable || took != lookupTimeout {
			t.Errorf("got %v after %v, want Unavailable after %v", err, took, lookupTimeout)
		}
	})
}

// TestPagesGoOnWithoutTheirMarker: what a page ends with may have gone when the
// next one is asked for.
func TestPagesGoOnWithoutTheirMarker(t *testing.T) {
	t.Parallel()
	var asked []string
	a := open(t, func(r *http.Request, _ string) (int, string) {
		marker := r.URL.Query().Get("marker")
		if limit := r.URL.Query().Get("limit"); limit != pageMax {
			t.Errorf("a page of %q servers is requested, want %s", limit, pageMax)
		}
		asked = append(asked, marker)
		switch marker {
		case "":
			return 200, `{"servers": [{"id": "1"}, {"id": "2"}, {"id": "3"}], "servers_links": [{"rel": "next"}]}`
		case "3":
			return 400, `{"badRequest": {"message": "marker [3] not found"}}`
		case "2":
			return 200, `{"servers": [{"id": "4"}]}`
		}
		return 500, ""
	})
	var got []string
	for s, err := range a.servers(t.Context(), opList, url.Values{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.ID)
	}
	if want := []string{"1", "2", "3", "4"}; !slices.Equal(got, want) || !slices.Equal(asked, []string{"", "3", "2"}) {
		t.Errorf("got %v by the markers %q, want %v", got, asked, want)
	}
}

// TestOneOfSeveralStays: processes that did not know of each other made a server
// each under one token.
func TestOneOfSeveralStays(t *testing.T) {
	t.Parallel()
	made := func(id, status string, second int, token string) server {
		return server{
			ID: id, Status: status, Created: time.Unix(int64(second), 0),
			Metadata: map[string]string{ownerKey: "o", attemptKey: token},
		}
	}
	r := cloud.CreateRequest{Ref: cloud.Ref{Name: "m", OwnerID: "o"}, Token: "t"}
	cases := map[string]struct {
		reason string
		all    []server
		mine   string
		stays  string
		ended  []string
	}{
		"oldest": {"it may be written down already", []server{
			made("b", "ACTIVE", 2, "t"),
			made("a", "ACTIVE", 1, "t"),
		}, "", "a", []string{"b"}},
		"same second": {"everybody has to choose the same", []server{
			made("b", "BUILD", 1, "t"),
			made("a", "BUILD", 1, "t"),
		}, "", "a", []string{"b"}},
		"failed": {
			"it is no use",
			[]server{made("a", "ERROR", 1, "t"), made("b", "ACTIVE", 2, "t")},
			"", "b",
			[]string{"a"},
		},
		"mine goes": {"I came later", []server{
			made("a", "ACTIVE", 1, "t"), made("b", "BUILD", 2, "t"),
			made("c", "BUILD", 3, "t"),
		}, "b", "a", []string{"b"}},
		"mine stays": {"who came later takes back his own", []server{
			made("a", "BUILD", 1, "t"),
			made("b", "BUILD", 2, "t"),
		}, "a", "a", nil},
		"other attempt": {
			"nobody knows which is meant",
			[]server{made("a", "ACTIVE", 1, "t"), made("b", "ACTIVE", 2, "u")},
			"", "", nil,
		},
	}
	for name, c := range cases {
		var ended []string
		a := open(t, func(r *http.Request, _ string) (int, string) {
			ended = append(ended, r.URL.Path[len("/servers/"):])
			return 204, ""
		})
		got, err := a.settle(t.Context(), r, c.all, c.mine)
		if (err == nil) != (c.stays != "") || got.ID != c.stays || !slices.Equal(ended, c.ended) {
			t.Errorf("%s: got %q, %v, ended %v, want %q and %v\nbecause: %s", name, got.ID, err, ended, c.stays, c.ended,
				c.reason)
		}
	}
}

// TestPairsAreMerged: all pod networks are allowed in one change that keeps what
// is there.
func TestPairsAreMerged(t *testing.T) {
	t.Parallel()
	c := &config{Spec: spec{PodNetworkCIDRs: []string{"10.0.0.0/8", "fd00::/48"}}, ownership: []string{"k"}}
	cases := map[string]struct {
		reason string
		port   port
		want   string // body of the change; empty is none
	}{
		"fresh": {
			"a port of Nova's is marked, too",
			port{ID: "p"},
			`{"port":{"allowed_address_pairs":[{"ip_address":"10.0.0.0/8"},{"ip_address":"fd00::/48"}],"description":"` +
				c.portMark(cloud.CreateRequest{Ref: cloud.Ref{OwnerID: "o"}}).String() + `","name":"m"}}`,
		},
		"foreign pair": {
			"others may have allowed something",
			port{
				ID: "p", Name: "x",
				Pairs: []pair{{IP: "1.2.3.4", MAC: "m"}, {IP: "fd00::/48", MAC: "m"}},
			},
			`{"port":{"allowed_address_pairs":[{"ip_address":"1.2.3.4","mac_address":"m"},{"ip_address":"fd00::/48",` +
				`"mac_address":"m"},{"ip_address":"10.0.0.0/8"}]}}`,
		},
		"done": {"nothing changes", port{ID: "p", Pairs: []pair{{IP: "fd00::/48"}, {IP: "10.0.0.0/8"}}}, ""},
	}
	for name, x := range cases {
		got := ""
		a := open(t, func(_ *http.Request, body string) (int, string) { got = body; return 200, "{}" })
		r := cloud.CreateRequest{Ref: cloud.Ref{Name: "m", OwnerID: "o"}}
		if err := a.openPort(t.Context(), c, r, x.port); err != nil || got != x.want {
			t.Errorf("%s: got %v, %s, want %s\nbecause: %s", name, err, got, x.want, x.reason)
		}
	}
}

// TestPortSecurityOff: where a network has none, pairs are refused and not needed.
func TestPortSecurityOff(t *testing.T) {
	t.Parallel()
	tries := 0
	a := open(t, func(_ *http.Request, body string) (int, string) {
		if tries++; strings.Contains(body, "allowed_address_pairs") {
			return 409, `{"NeutronError": {"type": "AddressPairAndPortSecurityRequired", "message": "no"}}`
		}
		return 201, `{"port": {"id": "p"}}`
	})
	c := &config{Spec: spec{NetworkID: "n", SubnetIDs: []string{"s"}, PodNetworkCIDRs: []string{"10.0.0.0/8"}}}
	if got, err := a.makePort(t.Context(), c, cloud.CreateRequest{}, "n"); err != nil || got.ID != "p" || tries != 2 {
		t.Errorf("got %+v, %v after %d tries, want a port", got, err, tries)
	}
}

// TestSoftDeletedGoesForGood: a server that is kept for restoration keeps its
// ports.
func TestSoftDeletedGoesForGood(t *testing.T) {
	t.Parallel()
	asked := ""
	a := open(t, func(r *http.Request, body string) (int, string) {
		asked = r.Method + " " + r.URL.Path + " " + body
		return 202, ""
	})
	if err := a.end(t.Context(), opDelete, server{ID: "s", Status: statusSoftDeleted}); err != nil ||
		asked != `POST /servers/s/action {"forceDelete":null}` {
		t.Errorf("got %v, asked %q", err, asked)
	}
}

// TestFaults: what a server failed of, as Nova says it afterwards.
func TestFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]cloud.Code{
		"No valid host was found. There are not enough hosts " +
			"available.": cloud.Exhausted,
		"Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for " +
			"instance": cloud.Exhausted,
		"Build of instance x aborted: VolumeSizeExceedsAvailableQuota: Requested volume exceeds available volume or " +
			"gigabytes quota": cloud.Exhausted,
		"Failed to allocate the network(s): No more IP addresses available on network x.":   cloud.Exhausted,
		"Build of instance x aborted: Failed to allocate the network(s), not rescheduling.": cloud.Unknown,
		"": cloud.Unknown,
	} {
		if got := reactions.Row(driverkit.Answer{Message: text}).Means; got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestGPUs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`{}`: 0, `{"resources:VGPU": "2"}`: 2, `{"pci_passthrough:alias": "a100-gpu:4,nic:1"}`: 4,
		`{"pci_passthrough:alias": "x"}`: 0,
	} {
		var specs map[string]string
		if err := json.Unmarshal([]byte(text), &specs); err != nil {
			t.Fatal(err)
		}
		if got := gpus(specs); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// TestServersThatCouldNotBeBuilt: they are taken back and reported, with what is
// exhausted.
func TestServersThatCouldNotBeBuilt(t *testing.T) {
	t.Parallel()
	const noHost = "No valid host was found. There are not enough hosts available."
	c := &config{Spec: spec{Region: "r", AvailabilityZone: "z", FlavorName: "f", ImageID: "i"}}
	failed := func(fault, launched, token string) server {
		s := server{ID: "s", Status: statusError, Launched: launched, Metadata: map[string]string{attemptKey: token}}
		s.Fault.Message = fault
		return s
	}
	cases := map[string]struct {
		reason     string
		server     server
		providerID string
		code       cloud.Code // with an empty why: no error
		why        string
		of         *cloud.Offering
		ended      int
	}{
		"no host": {
			"it never was a VM", failed(noHost, "", "t"), "", cloud.Exhausted, "NoValidHost",
			&cloud.Offering{Region: "r", Zone: "z", InstanceType: "f", CapacityType: "image i"}, 1,
		},
		"aborted": {
			"it never was a VM", failed("Build of instance s aborted: x", "", "t"), "", cloud.Unknown, "BuildFailed",
			nil, 1,
		},
		"written down": {
			"its machine has its id", failed(noHost, "", "t"), providerID("r", "s"), cloud.Exhausted, "NoValidHost",
			&cloud.Offering{Region: "r", Zone: "z", InstanceType: "f", CapacityType: "image i"}, 0,
		},
		"ran": {
			"somebody may want to look at it", failed(noHost, "2026-01-02T03:04:05.000000", "t"), "", 0, "",
			nil, 0,
		},
		"another attempt": {"it is not this one's", failed(noHost, "", "u"), "", 0, "", nil, 0},
	}
	for name, x := range cases {
		ended := 0
		a := open(t, func(*http.Request, string) (int, string) { ended++; return 204, "" })
		r := cloud.CreateRequest{Ref: cloud.Ref{Name: "m", ProviderID: x.providerID}, Token: "t"}
		err, _ := errors.AsType[*cloud.Error](a.takeBack(t.Context(), c, r, x.server))
		if (err == nil) != (x.why == "") || err != nil && (err.Code != x.code || err.Reason != x.why) || ended != x.ended {
			t.Errorf("%s: got %+v, %d deleted, want %v, %q, %d\nbecause: %s", name, err, ended, x.code, x.why, x.ended, x.reason)
		}
		if err != nil && (x.of == nil) != (err.Offering == nil) || err != nil && x.of != nil && *x.of != *err.Offering {
			t.Errorf("%s: got offering %+v, want %+v\nbecause: %s", name, err.Offering, x.of, x.reason)
		}
	}
}
