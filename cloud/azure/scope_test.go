package azure_test

import (
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
)

// TestGroupThatIsAbsent: an absent resource group means that the VM is gone only in the subscription that is
// known to be the machine's; elsewhere it means that the credentials are of another subscription.
func TestGroupThatIsAbsent(t *testing.T) {
	t.Parallel()
	const (
		recorded = "subscription " + azuretest.Subscription + ", resource group machines"
		path     = "azure:///subscriptions/" + azuretest.Subscription + "/resourceGroups/machines/providers/" +
			"Microsoft.Compute/virtualMachines/m-1"
		elsewhere = "azure:///subscriptions/" + azuretest.OtherSubscription + "/resourceGroups/machines/providers/" +
			"Microsoft.Compute/virtualMachines/m-1"
		otherGroup = "azure:///subscriptions/" + azuretest.Subscription + "/resourceGroups/others/providers/" +
			"Microsoft.Compute/virtualMachines/m-1"
	)
	for name, row := range map[string]struct {
		reason, scope, providerID string
		get                       cloud.Code
		done                      bool
	}{
		"Recorded": {
			"MCM's deletion ends there, too", recorded, "azure:///westeurope/m-1", cloud.NotFound, true,
		},
		"InProviderID": {"the Node's form names subscription and group", "", path, cloud.NotFound, true},
		"Unknown": {
			"nothing says that this was the subscription", "", "azure:///westeurope/m-1", cloud.Denied, false,
		},
		"OtherSubscription": {"the Node's form names another one", "", elsewhere, cloud.Denied, false},
		"OtherGroup":        {"the class names another one now", "", otherGroup, cloud.Denied, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t, nil)
			r.RemoveGroup()
			ref := r.request.Ref
			ref.ProviderID, ref.Scope = row.providerID, row.scope
			if _, err := r.account.Get(t.Context(), ref); cloud.CodeOf(err) != row.get {
				t.Errorf("%s: get: got %v, want %v", row.reason, err, row.get)
			}
			d, err := r.account.Delete(t.Context(), ref)
			if d.Done != row.done || row.done == (err != nil) || err != nil && cloud.CodeOf(err) != cloud.Denied {
				t.Errorf("%s: delete: got %+v, %v, want done %v", row.reason, d, err, row.done)
			}
		})
	}
}
