package hetzner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/hetznertest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

const (
	owner   = "22222222-2222-4222-8222-222222222222"
	cluster = "mcm.gardener.cloud/cluster"
	role    = "mcm.gardener.cloud/role"
	pool    = "networking.hcloud.mcm.gardener.cloud/floating-pool"
)

// account opens an account for a class with these fields changed.
func (r rig) account(t *testing.T, change map[string]any) (cloud.Account, cloud.Class) {
	t.Helper()
	d := r.driver()
	c, problems := d.Parse(class(change))
	if err := cloud.Worst("parse", problems, cloud.BlocksCreate); err != nil {
		t.Fatal(err)
	}
	a, err := d.Open(t.Context(), c, credentials())
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

func request(c cloud.Class, name string) cloud.CreateRequest {
	return cloud.CreateRequest{
		Ref:   cloud.Ref{Name: name, OwnerID: owner, Class: c},
		Token: "11111111-1111-4111-8111-111111111111", UserData: []byte("#cloud-config\n"),
		Checkpoint: func(context.Context, string) error { return nil },
	}
}

// create calls Create until it is finished.
func (r rig) create(t *testing.T, a cloud.Account, q cloud.CreateRequest) (cloud.VM, error) {
	t.Helper()
	for range 20 {
		vm, err := a.Create(t.Context(), q)
		if err != nil || vm.RetryAfter == 0 {
			return vm, err
		}
		r.Advance(vm.RetryAfter)
	}
	t.Fatal("not finished after 20 calls")
	return cloud.VM{}, nil
}

// remove calls Delete until it is done.
func (r rig) remove(t *testing.T, a cloud.Account, ref cloud.Ref) {
	t.Helper()
	for range 20 {
		d, err := a.Delete(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if d.Done {
			return
		}
		r.Advance(d.RetryAfter)
	}
	t.Fatal("not done after 20 calls")
}

// asked are the calls since the last look, as "GET /v1/servers".
func (r rig) asked() (all []string) {
	for _, c := range r.proxy.Calls() {
		all = append(all, c.Op)
	}
	r.proxy.Forget()
	return all
}

// TestCallsOfAMachine: Hetzner counts calls by the hour, so a machine may not take more of them
// than docs/clouds/hetzner.md says once the account knows what its class names.
func TestCallsOfAMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, nil)
	if _, err := r.create(t, a, request(c, "first")); err != nil {
		t.Fatal(err)
	}
	r.proxy.Forget()
	vm, err := a.Create(t.Context(), request(c, "second"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.asked(); len(got) != 2 {
		t.Errorf("a creation takes the calls %v, want 2", got)
	}
	r.Advance(time.Minute)
	ref := request(c, "second").Ref
	ref.ProviderID = vm.ProviderID
	r.remove(t, a, ref)
	if got := r.asked(); len(got) != 4 {
		t.Errorf("a deletion takes the calls %v, want 4", got)
	}
}

// TestServerLeftOff: Hetzner sometimes leaves a server off that it was asked to start, and no
// other controller would switch it on.
func TestServerLeftOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Change(func(s *hetznertest.Settings) { s.Off = true })
	a, c := r.account(t, nil)
	vm, err := r.create(t, a, request(c, "m"))
	if err != nil || vm.State != cloud.StateRunning {
		t.Errorf("create: got %v, %v, want a running server", vm.State, err)
	}
	if boots := r.Boots(vm.ID); boots != "1" {
		t.Errorf("the server was started %s times, want once", boots)
	}
}

// TestNameOfAnother: a server that has the machine's name and another owner is neither taken nor
// deleted, and the error names it.
func TestNameOfAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, nil)
	id := r.Put(hetznertest.Seed{
		Kind: cloud.KindVM, Name: "m", Location: "hel1", Type: "cx23", Labels: map[string]string{cluster: "another"},
	})
	_, err := r.create(t, a, request(c, "m"))
	if cloud.CodeOf(err) != cloud.Invalid || !strings.Contains(err.Error(), id) {
		t.Errorf("create: got %v, want Invalid and the id %s", err, id)
	}
	r.SetStatus(id, "deleting")
	if _, err := a.Create(t.Context(), request(c, "m")); cloud.CodeOf(err) != cloud.Unavailable {
		t.Errorf("create while that server goes: got %v, want Unavailable", err)
	}
	r.Advance(time.Minute)
	if _, err := r.create(t, a, request(c, "m")); err != nil {
		t.Errorf("create when that server has gone: %v", err)
	}
}

// TestServerOfMCM: a server that MCM's driver made has the machine's name, and no label that says
// so. It is the machine's, and no second one is made.
func TestServerOfMCM(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, nil)
	id := r.Put(hetznertest.Seed{
		Kind: cloud.KindVM, Name: "m", Location: "hel1", Type: "cx23", Age: time.Hour,
		Labels: map[string]string{cluster: "shoot--a--b", role: "node", "topology.kubernetes.io/zone": "hel1-dc2"},
	})
	vm, err := r.create(t, a, request(c, "m"))
	if err != nil || vm.ID != id || vm.ProviderID != "hcloud:///hel1-dc2/"+id {
		t.Errorf("create: got %s, %v, want server %s", vm.ProviderID, err, id)
	}
	if n := len(r.Ledger()); n != 2 {
		t.Errorf("there are %d resources, want the server and its address", n)
	}
}

// TestFloatingIPOfMCM: the floating IP that MCM's driver made is found by its name alone, given to
// the server, and deleted with it, even where somebody has put it elsewhere.
func TestFloatingIPOfMCM(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, map[string]any{"floatingPoolName": "pool"})
	r.Put(hetznertest.Seed{
		Kind: cloud.KindAddress, Name: "pool-m-ipv4", Location: "hel1",
		Labels: map[string]string{cluster: "shoot--a--b", pool: "pool"},
	})
	strange := r.Put(hetznertest.Seed{
		Kind: cloud.KindAddress, Name: "pool-mm-ipv4", Location: "hel1",
		Labels: map[string]string{cluster: "another", pool: "pool"},
	})
	vm, err := r.create(t, a, request(c, "m"))
	if err != nil {
		t.Fatal(err)
	}
	attached := 0
	for _, x := range r.Ledger() {
		if x.Kind == cloud.KindAddress && x.OwnerID == "" && x.Attached {
			attached++
		}
	}
	if attached != 1 {
		t.Errorf("%d floating IPs are on the server, want MCM's", attached)
	}
	ref := request(c, "m").Ref
	ref.ProviderID = vm.ProviderID
	r.remove(t, a, ref)
	if left := r.Ledger(); len(left) != 1 || left[0].ID != strange {
		t.Errorf("left: %+v, want only the other cluster's floating IP", left)
	}
}

// TestAssignedElsewhere: Hetzner deletes no floating IP that is assigned to a server, so that of a
// machine which has gone is taken off first.
func TestAssignedElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, map[string]any{"floatingPoolName": "pool"})
	other := r.Put(hetznertest.Seed{Kind: cloud.KindVM, Location: "hel1", Type: "cx23"})
	before := len(r.Ledger())
	r.Put(hetznertest.Seed{
		Kind: cloud.KindAddress, Name: "pool-m-ipv4", Server: other,
		Labels: map[string]string{cluster: "shoot--a--b", pool: "pool"},
	})
	r.remove(t, a, request(c, "m").Ref)
	if after := len(r.Ledger()); after != before {
		t.Errorf("there are %d resources, want %d", after, before)
	}
}

// TestPlacementGroups: Hetzner takes ten servers in a group, so those of a prefix are filled evenly,
// and that none has room is a lack of room and no fault of the class.
func TestPlacementGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, map[string]any{"placementGroupPrefix": "spread-"})
	for i := range 20 {
		if _, err := r.create(t, a, request(c, fmt.Sprintf("m%d", i))); err != nil {
			t.Fatalf("server %d: %v", i, err)
		}
	}
	if _, err := r.create(t, a, request(c, "more")); cloud.CodeOf(err) != cloud.Exhausted {
		t.Errorf("the 21st server: got %v, want Exhausted", err)
	}
}

// TestImageOfTheArchitecture: images of one name exist for each architecture, and as deprecated ones.
// The server gets the one that fits and is not deprecated, or Hetzner would refuse it.
func TestImageOfTheArchitecture(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"cx23": `"image":101`, "cax11": `"image":102`} {
		r := newRig(t)
		a, c := r.account(t, map[string]any{"serverType": kind})
		if _, err := r.create(t, a, request(c, "m")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		sent := ""
		for _, call := range r.proxy.Calls() {
			if call.Mutates {
				sent += string(call.Body)
			}
		}
		if !strings.Contains(sent, want) {
			t.Errorf("%s: the request %s lacks %s", kind, sent, want)
		}
	}
}

// TestUnknownNames: what a class names and the project lacks is the class's fault, with the field.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]any{
		"imageName": "plan-9", "sshFingerprint": "00:00", "networkName": "none", "firewalls": []string{"none"},
		"placementGroupPrefix": "none", "serverType": "cx999",
	} {
		r := newRig(t)
		a, c := r.account(t, map[string]any{field: value})
		_, err := r.create(t, a, request(c, "m"))
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Code != cloud.Invalid || !strings.Contains(fmt.Sprint(e.Problems), field) {
			t.Errorf("%s: got %v, want Invalid with the field", field, err)
		}
		if n := len(r.Ledger()); n > 0 {
			t.Errorf("%s: %d resources were made", field, n)
		}
	}
}

// TestLabelsOfOthersStay: Hetzner replaces all labels of a server at once, so a change has to send
// those that somebody else set, too.
func TestLabelsOfOthersStay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, map[string]any{"labels": map[string]string{"team": "a"}})
	labels := map[string]string{cluster: "shoot--a--b", role: "node", "theirs": "1", "old": "2"}
	id := r.Put(hetznertest.Seed{Kind: cloud.KindVM, Name: "m", Location: "hel1", Type: "cx23", Labels: labels})
	if err := cloud.SetTags(t.Context(), a, request(c, "m").Ref, []string{"old", cluster}); err != nil {
		t.Fatal(err)
	}
	delete(labels, "old")
	labels["team"] = "a"
	if got := r.Labels(id); !maps.Equal(got, labels) {
		t.Errorf("labels: got %v, want %v", got, labels)
	}
}

// TestHourlyLimit: the project's calls are used up, perhaps by others. The driver does not wait for
// the hour to end, as the header says, because calls come back one by one.
func TestHourlyLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Change(func(s *hetznertest.Settings) { s.Hourly = 3600 })
	a, c := r.account(t, nil)
	gone := cloud.Ref{Name: "m", OwnerID: owner, Class: c, ProviderID: "hcloud://7"}
	for range 3600 {
		if _, err := a.Get(t.Context(), gone); cloud.CodeOf(err) != cloud.NotFound {
			t.Fatal(err)
		}
	}
	_, err := r.create(t, a, request(c, "m"))
	if cloud.CodeOf(err) != cloud.Throttled {
		t.Fatalf("got %v, want Throttled", err)
	}
	r.Advance(10 * time.Second)
	if _, err := r.create(t, a, request(c, "m")); err != nil {
		t.Errorf("ten seconds later: %v", err)
	}
}

// TestRateLimitNamesTheToken: Hetzner's answer names the first half of the token, which is not to get
// into an Event, and says what the limit is, which is.
func TestRateLimitNamesTheToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.driver()
	clouds, err := cloud.NewRegistry([]cloud.Driver{d}, time.Now, wrap.Redact(nil))
	if err != nil {
		t.Fatal(err)
	}
	_, c := r.account(t, nil)
	a, err := clouds.Account(t.Context(), d, c, credentials())
	if err != nil {
		t.Fatal(err)
	}
	r.Change(func(s *hetznertest.Settings) { s.Hourly = 1 })
	for range 2 {
		_, err = a.Get(t.Context(), cloud.Ref{Name: "m", OwnerID: owner, Class: c, ProviderID: "hcloud://7"})
	}
	const want = "limit of 1 requests per hour reached for token '[redacted]'"
	if cloud.CodeOf(err) != cloud.Throttled || !strings.Contains(fmt.Sprintf("%v", err), want) {
		t.Errorf("got %v, want Throttled and %s", err, want)
	}
}

// TestUserAgentAndToken: the token goes to Hetzner's own address, and nowhere else by default.
func TestUserAgentAndToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, c := r.account(t, nil)
	for _, err := range a.List(t.Context(), c) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range r.proxy.Calls() {
		if !strings.HasPrefix(call.Op, http.MethodGet+" /v1/") {
			t.Errorf("asked for %s", call.Op)
		}
	}
}
