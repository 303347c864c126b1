package azure_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

const (
	urnOfPlan = "publisher:offer:sku:1.2.3"
	thePlan   = "publisher:offer:sku"
)

// fromMarketplace is a class with the marketplace image that has a plan.
func fromMarketplace(edits spec) cloud.ClassInput {
	return with(spec{"storageProfile": storage(spec{"imageReference": edit(spec{"urn": urnOfPlan}, edits)})})
}

// TestMarketplace: as with MCM, terms are accepted for the subscription, once, and a class that skips them has
// no plan and looks nothing up. Terms that are withdrawn are accepted for the next VM.
func TestMarketplace(t *testing.T) {
	t.Parallel()
	r := newRoom(t, nil)
	class, _ := r.driver.Parse(fromMarketplace(nil))
	for i, name := range []string{"m-1", "m-2"} {
		r.request.Name, r.request.Class, r.request.OwnerID = name, class, "11111111-1111-4111-8111-11111111111"+name[2:]
		r.request.Zone = "2"
		if _, err := r.account.Create(t.Context(), r.request); err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
		if asked := r.asked("PUT", "agreements"); asked != 1 {
			t.Errorf("after VM %d, the terms were accepted %d times, want once", i+1, asked)
		}
	}
	r.Change(func(s *azuretest.Settings) { s.Accepted = nil })
	r.request.Name, r.request.OwnerID = "m-3", "11111111-1111-4111-8111-111111111113"
	if _, err := r.account.Create(t.Context(), r.request); cloud.CodeOf(err) != cloud.Invalid {
		t.Errorf("create with terms that were withdrawn: got %v, want Invalid", err)
	}
	if _, err := r.account.Create(t.Context(), r.request); err != nil {
		t.Errorf("create again: %v, want a VM", err)
	}
}

// TestMarketplaceTermsNotShown: credentials that may not see terms make VMs of images whose terms a person has
// accepted. Those that may see and not accept them are denied, and not the class is wrong.
func TestMarketplaceTermsNotShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason   string
		method   string
		accepted []string
		want     cloud.Code // Unknown is no error
	}{
		"accepted":     {"a person has accepted them", http.MethodGet, []string{thePlan}, cloud.Unknown},
		"not accepted": {"Azure says so of the VM", http.MethodGet, nil, cloud.Invalid},
		"may not":      {"the credentials lack a right", http.MethodPut, nil, cloud.Denied},
	} {
		r := newRoom(t, func(s *azuretest.Settings) { s.Accepted = c.accepted })
		r.proxy.Inject(cloudtest.Fault{
			Kind: cloudtest.Answer, Times: cloudtest.Forever, Match: func(call cloudtest.Call) bool {
				return call.Op == c.method+" agreements"
			},
			Reply: cloudtest.Reply{
				Status: http.StatusForbidden, Body: `{"error":{"code":"AuthorizationFailed","message":"no"}}`,
			},
		})
		r.request.Class, _ = r.driver.Parse(fromMarketplace(nil))
		r.request.Zone = "2"
		_, err := r.account.Create(t.Context(), r.request)
		if cloud.CodeOf(err) != c.want || (err == nil) != (c.want == cloud.Unknown) {
			t.Errorf("%s, as %s: got %v, want code %v", name, c.reason, err, c.want)
		}
	}
}

// TestMarketplaceSkipped: a class that skips the agreement says that its image has no plan. If it has one all
// the same, it is sent with the second request: classes work that worked before. Terms are never accepted.
func TestMarketplaceSkipped(t *testing.T) {
	t.Parallel()
	planned := map[string]string{urnOfPlan: "publisher"}
	for name, c := range map[string]struct {
		reason   string
		plans    map[string]string
		accepted []string
		looks    int
		want     cloud.Code // Unknown is no error
	}{
		"no plan":  {"nothing is looked up", nil, nil, 0, cloud.Unknown},
		"a plan":   {"earlier versions sent it", planned, []string{thePlan}, 1, cloud.Unknown},
		"no terms": {"they are a person's", planned, nil, 1, cloud.Invalid},
	} {
		r := newRoom(t, func(s *azuretest.Settings) { s.Plans, s.Accepted = c.plans, c.accepted })
		r.request.Class, _ = r.driver.Parse(fromMarketplace(spec{"skipMarketplaceAgreement": true}))
		r.request.Zone = "2"
		_, err := r.account.Create(t.Context(), r.request)
		if cloud.CodeOf(err) != c.want || (err == nil) != (c.want == cloud.Unknown) {
			t.Errorf("%s, as %s: got %v, want code %v", name, c.reason, err, c.want)
		}
		if n := r.asked(http.MethodGet, "versions"); n != c.looks || r.asked(http.MethodGet, "agreements") > 0 {
			t.Errorf("%s, as %s: %d looks at the image, want %d and none at the terms", name, c.reason, n, c.looks)
		}
	}
}

// withImageDisk is a class for two zones with a data disk that is made of an image before the VM.
func withImageDisk() cloud.ClassInput {
	return with(edit(imageDisks(), spec{"zone": nil, "zones": []int{1, 2}}))
}

// settled calls Create until it fails or has a VM that runs, a minute apart.
func (r *room) settled(t *testing.T) (vm cloud.VM, err error) {
	t.Helper()
	for range 10 {
		if vm, err = r.account.Create(t.Context(), r.request); err != nil || vm.RetryAfter <= 0 {
			return vm, err
		}
		r.now.Advance(time.Minute)
	}
	t.Fatalf("not finished after ten minutes: %+v", vm)
	return vm, err
}

// TestImageDiskInAnotherZone: a disk that an earlier try made in a zone without room cannot be attached in another
// zone. It is made again there.
func TestImageDiskInAnotherZone(t *testing.T) {
	t.Parallel()
	r := newRoom(t, func(s *azuretest.Settings) { s.Capacity, s.Quota = nil, -1 })
	r.request.Class, _ = r.driver.Parse(withImageDisk())
	if _, err := r.settled(t); cloud.CodeOf(err) != cloud.Exhausted || len(r.Ledger()) != 1 {
		t.Fatalf("create beyond the quota: got %v and %d resources, want Exhausted and a disk", err, len(r.Ledger()))
	}
	r.Change(func(s *azuretest.Settings) { s.Quota = 0 })
	r.request.Zone, r.request.Token = "2", "2"
	vm, err := r.settled(t)
	if err != nil || vm.Zone != "2" {
		t.Errorf("create in another zone: got %+v, %v, want a VM", vm, err)
	}
	for _, x := range r.Ledger() {
		if x.Type == azuretest.TypeDisk && !slices.Equal(x.Zones, []string{"2"}) {
			t.Errorf("disk %s is in zones %v, want 2", x.Name, x.Zones)
		}
	}
}

// TestImageDiskThatFailed: a disk that could not be made of its image is made again, and whoever waits for it is told.
func TestImageDiskThatFailed(t *testing.T) {
	t.Parallel()
	r := newRoom(t, func(s *azuretest.Settings) { s.Capacity, s.FailDisks = nil, 1 })
	r.request.Class, _ = r.driver.Parse(withImageDisk())
	_, err := r.settled(t)
	if e, _ := errors.AsType[*cloud.Error](err); e == nil || e.Code != cloud.Unavailable || e.Reason != "DiskFailed" {
		t.Errorf("create with a disk that fails: got %v, want Unavailable for DiskFailed", err)
	}
	if vm, err := r.settled(t); err != nil || vm.State != cloud.StateRunning {
		t.Errorf("create again: got %+v, %v, want a VM", vm, err)
	}
}

// TestNamesOfAnEarlierTry: what an earlier try has left under the names of a VM's disks and interface goes, if it is
// the machine's. What is somebody else's stays, and the machine waits.
func TestNamesOfAnEarlierTry(t *testing.T) {
	t.Parallel()
	const owner = "11111111-1111-4111-8111-111111111111" // as of newRoom
	for name, c := range map[string]struct {
		reason string
		left   azuretest.Resource
		owner  string
		stays  bool
	}{
		"disk": {
			"deleteOption counts only for what was attached",
			azuretest.Resource{Type: azuretest.TypeDisk, Name: "m-1-os-disk"},
			owner, false,
		},
		"interface": {
			"Azure keeps it for a VM that could not be made",
			azuretest.Resource{Type: azuretest.TypeNIC, Name: "m-1-nic"},
			owner, false,
		},
		"another's": {
			"it is not the machine's",
			azuretest.Resource{Type: azuretest.TypeDisk, Name: "m-1-os-disk"},
			"11111111-1111-4111-8111-111111111112", true,
		},
	} {
		r := newRoom(t, func(s *azuretest.Settings) { s.Capacity = nil })
		c.left.Made, c.left.Tags = r.now.Now(), map[string]string{
			"kubernetes.io-cluster-c1": "1", "kubernetes.io-role-node": "1", machineTag: "m-1", ownerTag: c.owner,
		}
		r.Add(c.left)
		_, err := r.settled(t)
		for range 3 {
			if cloud.CodeOf(err) == cloud.Unavailable {
				_, err = r.settled(t)
			}
		}
		if (err != nil) != c.stays {
			t.Errorf("%s, as %s: got %v; want an error: %v", name, c.reason, err, c.stays)
		}
	}
}
