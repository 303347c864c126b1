package hetzner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/hetzner"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/hetznertest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// sent is the body of the last request that made a server.
func (r rig) sent() string {
	for _, c := range slices.Backward(r.proxy.Calls()) {
		if c.Op == "POST /v1/servers" {
			return string(c.Body)
		}
	}
	return ""
}

// TestGroupOfMCM: MCM's driver puts a server into placementGroupID only where the class has a floating
// pool, so that a pool of MCM's has more servers than a group takes.
func TestGroupOfMCM(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		change       map[string]any
		want         bool
		warned       string
	}{
		{
			"without a pool", "MCM sends no group",
			map[string]any{"placementGroupID": "501"},
			false,
			"providerSpec.placementGroupID",
		},
		{
			"with a pool", "MCM sends the group",
			map[string]any{"placementGroupID": "501", "floatingPoolName": "pool"},
			true, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			_, problems := r.driver().Parse(class(c.change))
			warned := slices.ContainsFunc(problems, func(p cloud.Problem) bool {
				return p.Field == c.warned && p.Severity == cloud.Warning
			})
			if warned != (c.warned != "") {
				t.Errorf("problems: got %v, want a warning about %q: %s", problems, c.warned, c.reason)
			}
			a, parsed := r.account(t, c.change)
			if _, err := r.create(t, a, request(parsed, "m")); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(r.sent(), `"placement_group":501`); got != c.want {
				t.Errorf("sent %s, want a placement group: %v; %s", r.sent(), c.want, c.reason)
			}
		})
	}
}

// TestFullGroup: that a placement group is full says nothing about the server type in its location.
func TestFullGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	change := map[string]any{"placementGroupID": "501", "floatingPoolName": "pool"}
	a, c := r.account(t, change)
	for i := range 10 {
		if _, err := r.create(t, a, request(c, fmt.Sprintf("m%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.create(t, a, request(c, "more"))
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Exhausted || e.Reason != "PlacementGroupMemberLimitReached" || e.Offering != nil {
		t.Errorf("the eleventh server: got %+v, want Exhausted without an offering", e)
	}
}

// TestNoHostForTheGroup: where Hetzner has no host that a spread group allows, servers of that type that are
// in no group can be had still.
func TestNoHostForTheGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Change(func(s *hetznertest.Settings) { s.NoSpread = true })
	a, c := r.account(t, map[string]any{"placementGroupPrefix": "spread-"})
	a = wrap.Offerings(0, wrap.Clock{})(cloud.AccountInfo{}, a)
	if _, err := r.create(t, a, request(c, "m")); cloud.CodeOf(err) != cloud.Exhausted {
		t.Fatalf("in a group: got %v, want Exhausted", err)
	}
	_, free := r.account(t, nil)
	free.Name = "another"
	if _, err := r.create(t, a, request(free, "n")); err != nil {
		t.Errorf("in no group: %v", err)
	}
}

// TestGroupsThatShowMembersLate: groups show a new member some time after it was made, and the groups are
// filled evenly all the same.
func TestGroupsThatShowMembersLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Change(func(s *hetznertest.Settings) { s.GroupLag = time.Hour })
	a, c := r.account(t, map[string]any{"placementGroupPrefix": "spread-"})
	for i := range 20 {
		if _, err := a.Create(t.Context(), request(c, fmt.Sprintf("m%d", i))); err != nil {
			t.Fatalf("server %d: %v", i, err)
		}
	}
}

// TestGroupThatCountsMore: a group counts a member that it does not show. Another one of the prefix is taken,
// and the full one is left alone.
func TestGroupThatCountsMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Change(func(s *hetznertest.Settings) { s.Lingering = map[int64]int{501: 10} })
	a, c := r.account(t, map[string]any{"placementGroupPrefix": "spread-"})
	for i := range 3 {
		if _, err := r.create(t, a, request(c, fmt.Sprintf("m%d", i))); err != nil {
			t.Fatalf("server %d: %v", i, err)
		}
	}
	posts := 0
	for _, op := range r.asked() {
		if op == "POST /v1/servers" {
			posts++
		}
	}
	if posts != 4 {
		t.Errorf("%d servers were asked for, want 4: the full group is asked once", posts)
	}
}

// networksOf are the addresses of a server in networks.
func networksOf(vm cloud.VM) (all []string) {
	for _, x := range vm.Addresses {
		if x.Kind == "InternalIP" {
			all = append(all, x.Value)
		}
	}
	return all
}

// TestNetworksComeLater: Hetzner puts a server into its networks after it was made, or fails to. Until it is
// in all of them it is not finished, and a public address is never shown as an internal one.
func TestNetworksComeLater(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		settings     func(*hetznertest.Settings)
		change       map[string]any
	}{
		{
			"late", "the networks of a running server come a while later",
			func(s *hetznertest.Settings) { s.Attach = 20 * time.Second }, nil,
		},
		{
			"failed", "Hetzner has accepted the networks, and fails to attach them",
			func(s *hetznertest.Settings) { s.AttachFails = 2 }, nil,
		},
		{
			"failed twice", "it fails at the driver's own request, too",
			func(s *hetznertest.Settings) { s.AttachFails = 3 }, nil,
		},
		{
			"private", "a server without public addresses does not start before it is in a network",
			func(s *hetznertest.Settings) { s.AttachFails = 2 },
			map[string]any{"assignPublicIPv4": false, "assignPublicIPv6": false},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Change(c.settings)
			change := map[string]any{"networks": []string{"storage"}}
			maps.Copy(change, c.change)
			a, parsed := r.account(t, change)
			q := request(parsed, "m")
			for range 60 {
				vm, err := a.Create(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(networksOf(vm), func(x string) bool { return !strings.HasPrefix(x, "10.") }) {
					t.Fatalf("InternalIP: got %v, want those in networks only", vm.Addresses)
				}
				if vm.RetryAfter == 0 {
					if len(networksOf(vm)) != 2 || vm.State != cloud.StateRunning {
						t.Errorf("finished: got %v, %v, want a running server in both networks: %s", vm.State, vm.Addresses,
							c.reason)
					}
					return
				}
				r.Advance(vm.RetryAfter)
			}
			t.Error("not finished after 60 calls")
		})
	}
}

// TestFullNetwork: a network that has no address left is a shortage, and told as one.
func TestFullNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Change(func(s *hetznertest.Settings) { s.AttachFails, s.FullNetworks = 1, true })
	a, c := r.account(t, nil)
	_, err := r.create(t, a, request(c, "m"))
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Code != cloud.Exhausted || e.Offering != nil {
		t.Errorf("got %v, want Exhausted without an offering", err)
	}
}

// TestServerInNoNetwork: its public addresses are external ones, as Hetzner's cloud controller manager
// has them.
func TestServerInNoNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, map[string]any{"networkName": ""})
	vm, err := r.create(t, a, request(c, "m"))
	if err != nil || len(networksOf(vm)) > 0 || len(vm.Addresses) != 2 {
		t.Errorf("got %v, %v, want two external addresses", vm.Addresses, err)
	}
}

// TestLittleLeft: what is not urgent stops when a fifth of the project's calls is left, whoever has used the
// others up. Deletions go on to the last one.
func TestLittleLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const second = "hetznertest0second+token/of/the=same+project000000000000000000000"
	r.Change(func(s *hetznertest.Settings) { s.Hourly, s.Tokens = 100, append(s.Tokens, second) })
	d := hetzner.NewDriver(hetzner.Options{Transport: r.proxy, Now: r.Now})
	c, _ := d.Parse(class(nil))
	open := func(token string) cloud.Account {
		a, err := d.Open(t.Context(), c, cloud.Credentials{"token": []byte(token)})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first, other := open(hetznertest.Token), open(second)
	list := func(a cloud.Account) (err error) {
		for _, err = range a.List(t.Context(), c, cloud.KindVM) {
		}
		return err
	}
	vm, err := r.create(t, other, request(c, "m"))
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if list(first) != nil {
			break
		}
	}
	for name, a := range map[string]cloud.Account{"first": first, "other": other} {
		_ = list(a) // the one that has not asked lately learns what is left
		_, err := a.Capacity(t.Context(), c)
		e, _ := errors.AsType[*cloud.Error](err)
		if name == "first" && (e == nil || e.Code != cloud.Throttled || e.RetryAfter <= 0) {
			t.Errorf("%s token, server type: got %v, want Throttled and when to go on", name, err)
		}
		if err := list(a); cloud.CodeOf(err) != cloud.Throttled {
			t.Errorf("%s token, listing: got %v, want Throttled", name, err)
		}
	}
	if left := r.Left(); left < 18 || left > 20 {
		t.Errorf("%d calls are left, want a fifth of 100", left)
	}
	ref := request(c, "m").Ref
	ref.ProviderID = vm.ProviderID
	r.remove(t, first, ref)
	if _, err := r.create(t, first, request(c, "n")); err != nil {
		t.Errorf("a creation with a fifth left: %v", err)
	}
	r.Advance(time.Hour)
	if err := list(first); err != nil {
		t.Errorf("a listing an hour later: %v", err)
	}
}

// TestLostID: MCM's driver records hcloud:///<zone>/0 where it has lost the id. The server is found by its
// name then, also to be deleted.
func TestLostID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, nil)
	id := r.Put(hetznertest.Seed{
		Kind: cloud.KindVM, Name: "m", Location: "hel1", Type: "cx23", Age: time.Hour, Networks: []int64{301},
		Labels: map[string]string{cluster: "shoot--a--b", role: "node", "topology.kubernetes.io/zone": "hel1-dc2"},
	})
	ref := cloud.Ref{Name: "m", OwnerID: owner, Class: c, ProviderID: "hcloud:///hel1-dc2/0"}
	vm, err := a.Get(t.Context(), ref)
	if err != nil || vm.ID != id {
		t.Errorf("get: got server %s, %v, want %s", vm.ID, err, id)
	}
	q := request(c, "m")
	q.Ref = ref
	if vm, err := r.create(t, a, q); err != nil || vm.ID != id {
		t.Errorf("create: got server %s, %v, want %s", vm.ID, err, id)
	}
	r.remove(t, a, ref)
	if left := r.Ledger(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if _, err := a.Create(t.Context(), q); cloud.CodeOf(err) != cloud.NotFound {
		t.Errorf("create when it has gone: got %v, want NotFound: no second server is made for a recorded one", err)
	}
}

// TestTypeAndLocation: Hetzner refuses a server type that a location does not have, and one of which it has no
// more, with the same words.
func TestTypeAndLocation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		kind         hetznertest.Type
		want         cloud.Code
		text         string
	}{
		{
			"not offered", "only a person mends it",
			hetznertest.Type{Locations: []string{"fsn1", "nbg1"}},
			cloud.Invalid,
			"fsn1, nbg1",
		},
		{"sold out", "it passes by itself", hetznertest.Type{Refused: []string{"hel1"}}, cloud.Exhausted, "unsupported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.kind.Architecture = "x86"
			r.Change(func(s *hetznertest.Settings) { s.Types["cx23"] = c.kind })
			a, parsed := r.account(t, nil)
			_, err := r.create(t, a, request(parsed, "m"))
			e, _ := errors.AsType[*cloud.Error](err)
			if e == nil || e.Code != c.want || !strings.Contains(fmt.Sprint(e, e.Problems), c.text) {
				t.Fatalf("got %v, want %v with %q: %s", err, c.want, c.text, c.reason)
			}
			if c.want == cloud.Invalid && (len(e.Problems) == 0 || e.Problems[0].Field != "providerSpec.serverType") {
				t.Errorf("problems: got %v, want the field serverType", e.Problems)
			}
		})
	}
}

// TestOneLocation: a data center and its location have one stock.
func TestOneLocation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Change(func(s *hetznertest.Settings) {
		s.Types["cx23"] = hetznertest.Type{Refused: []string{"hel1"}, Architecture: "x86"}
	})
	a, c := r.account(t, nil)
	a = wrap.Offerings(0, wrap.Clock{})(cloud.AccountInfo{}, a)
	if _, err := r.create(t, a, request(c, "m")); cloud.CodeOf(err) != cloud.Exhausted {
		t.Fatalf("in hel1-dc2: got %v, want Exhausted", err)
	}
	r.asked()
	_, same := r.account(t, map[string]any{"zone": "hel1"})
	same.Name = "another"
	_, err := r.create(t, a, request(same, "n"))
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || !e.Remembered || len(r.asked()) > 0 {
		t.Errorf("in hel1: got %v, want the shortage to be remembered", err)
	}
	_, other := r.account(t, map[string]any{"zone": "fsn1"})
	if _, err := r.create(t, a, request(other, "o")); err != nil {
		t.Errorf("in fsn1: %v", err)
	}
}

// TestSparseRequest: what a class leaves out is Hetzner's to decide, and is not sent.
func TestSparseRequest(t *testing.T) {
	t.Parallel()
	const always = `"image":101,"labels":{"mcm.cluster.x-k8s.io/machine":"m","mcm.cluster.x-k8s.io/owner-id":"` + owner +
		`","mcm.gardener.cloud/cluster":"shoot--a--b","mcm.gardener.cloud/role":"node",` +
		`"topology.kubernetes.io/region":"hel1","topology.kubernetes.io/zone":"hel1-dc2"},"location":"hel1","name":"m",`
	for _, c := range []struct {
		name, reason, want string
		change             map[string]any
	}{
		{
			"smallest", "MCM requires no more",
			always + `"server_type":"cx23","ssh_keys":[201],"start_after_create":true}`, nil,
		},
		{
			"zeros", "an empty field is none",
			always + `"server_type":"cx23","ssh_keys":[201],"start_after_create":true}`,
			map[string]any{
				"networks": []string{}, "firewalls": []string{}, "labels": map[string]string{}, "placementGroupID": "",
				"placementGroupPrefix": "", "floatingPoolName": "", "assignPublicIPv4": nil,
			},
		},
		{
			"a default that is given", "it is what Hetzner does",
			always + `"server_type":"cx23","ssh_keys":[201],"start_after_create":true}`,
			map[string]any{"assignPublicIPv4": true, "assignPublicIPv6": true},
		},
		{
			"no IPv6", "the class says no",
			always + `"public_net":{"enable_ipv4":true,"enable_ipv6":false},"server_type":"cx23","ssh_keys":[201],` +
				`"start_after_create":true}`,
			map[string]any{"assignPublicIPv6": false},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			change := map[string]any{"networkName": ""}
			maps.Copy(change, c.change)
			a, parsed := r.account(t, change)
			q := request(parsed, "m")
			q.UserData = nil
			if _, err := r.create(t, a, q); err != nil {
				t.Fatal(err)
			}
			var sent map[string]any
			if err := json.Unmarshal([]byte(r.sent()), &sent); err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(sent); string(got) != "{"+c.want {
				t.Errorf("got  %s\nwant {%s\nbecause %s", got, c.want, c.reason)
			}
		})
	}
}
