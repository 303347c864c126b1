package azure_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// TestMarkets: Spot VMs have room, prices and a quota of their own. A shortage of either kind stops no class of the
// other one, as the manager remembers shortages.
func TestMarkets(t *testing.T) {
	t.Parallel()
	spot, regular := with(spec{"priority": "Spot"}), with(nil)
	spot.Name, regular.Name = "spot", "regular"
	const size, lowPriority, cores = "SkuNotAvailable", "LowPriorityCores", "Cores"
	for name, c := range map[string]struct {
		reason        string
		short, other  cloud.ClassInput
		settings      func(s *azuretest.Settings)
		capacity, why string
	}{
		"room for Spot": {
			"the size has none in the zone", spot, regular,
			func(s *azuretest.Settings) { s.NoSpot = map[string]bool{smallSize: true} }, "spot", size,
		},
		"quota of Spot": {
			"all sizes share it", spot, regular, func(s *azuretest.Settings) { s.SpotQuota = -1 }, "spot", lowPriority,
		},
		"quota of others": {
			"Spot has one of its own", regular, spot, func(s *azuretest.Settings) { s.Quota = -1 }, "on-demand", cores,
		},
	} {
		r := newRoom(t, func(s *azuretest.Settings) {
			s.Capacity = nil
			c.settings(s)
		})
		a := wrap.Offerings(0, wrap.Clock{Now: r.now.Now})(cloud.AccountInfo{}, r.account)
		short, _ := r.driver.Parse(c.short)
		other, _ := r.driver.Parse(c.other)
		r.request.Class, r.request.Zone = short, ""
		_, err := a.Create(t.Context(), r.request)
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Code != cloud.Exhausted || e.Offering == nil || e.Offering.CapacityType != c.capacity ||
			e.Offering.Region != "westeurope" {
			t.Errorf("%s, as %s: got %v, want an exhausted %s offering of the region", name, c.reason, err, c.capacity)
		}
		before := r.asked(http.MethodPut, "virtualMachines")
		if _, err := a.Create(t.Context(), r.request); cloud.CodeOf(err) != cloud.Exhausted ||
			r.asked(http.MethodPut, "virtualMachines") != before {
			t.Errorf("%s: asked again for what is exhausted: %v", name, err)
		}
		r.request.Name, r.request.Token, r.request.Class = "m-2", "2", other
		r.request.OwnerID = "11111111-1111-4111-8111-111111111112"
		if _, err := a.Create(t.Context(), r.request); err != nil {
			t.Errorf("%s, as %s: a VM of the other kind: %v, want one", name, c.reason, err)
		}
	}
}
