package azure_test

import (
	"net/http"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/cloudtest"
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
			Reply: cloudtest.Reply{Status: http.StatusForbidden, Body: `{"error":{"code":"AuthorizationFailed","message":"no"}}`},
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
	for name, c := range map[string]struct {
		reason   string
		plans    map[string]string
		accepted []string
		looks    int
		want     cloud.Code // Unknown is no error
	}{
		"no plan":  {"nothing is looked up", nil, nil, 0, cloud.Unknown},
		"a plan":   {"earlier versions sent it", map[string]string{urnOfPlan: "publisher"}, []string{thePlan}, 1, cloud.Unknown},
		"no terms": {"they are a person's", map[string]string{urnOfPlan: "publisher"}, nil, 1, cloud.Invalid},
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
