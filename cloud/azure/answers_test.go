package azure_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// answerTo lets Azure answer all requests of a kind with an error.
func (r *room) answerTo(op string, status int, code, message string) {
	body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}})
	r.proxy.Inject(cloudtest.Fault{
		Kind: cloudtest.Answer, Times: cloudtest.Forever, Match: func(c cloudtest.Call) bool { return c.Op == op },
		Reply: cloudtest.Reply{Status: status, Body: string(body)},
	})
}

// TestForAPerson: answers that only a person mends are Denied, of creations and of deletions.
func TestForAPerson(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		status          int
		reason, message string
	}{
		"ScopeLocked": {http.StatusConflict, "somebody removes the lock", "The scope is locked. Please remove the lock."},
		"MissingSubscriptionRegistration": {
			http.StatusConflict, "somebody registers the provider", "The subscription is not registered to use namespace " +
				"'Microsoft.Compute'.",
		},
		"SubscriptionNotRegistered": {http.StatusConflict, "the same for networks", "Subscription is not registered."},
		"RequestDisallowedByPolicy": {http.StatusForbidden, "somebody changes the policy", "Disallowed by policy."},
		"ReadOnlyDisabledSubscription": {
			http.StatusConflict, "somebody pays", "The subscription is disabled and therefore marked as read only.",
		},
	} {
		r := newRoom(t, nil)
		r.request.Zone = "2"
		r.answerTo("PUT virtualMachines", c.status, code, c.message)
		r.answerTo("DELETE virtualMachines", c.status, code, c.message)
		if _, err := r.account.Create(t.Context(), r.request); cloud.CodeOf(err) != cloud.Denied {
			t.Errorf("create, %s: got %v, want Denied, as %s", code, err, c.reason)
		}
		r = newRoom(t, nil)
		r.request.Zone = "2"
		if _, err := r.account.Create(t.Context(), r.request); err != nil {
			t.Fatal(err)
		}
		r.answerTo("DELETE virtualMachines", c.status, code, c.message)
		if _, err := r.account.Delete(t.Context(), r.request.Ref); cloud.CodeOf(err) != cloud.Denied {
			t.Errorf("delete, %s: got %v, want Denied, as %s", code, err, c.reason)
		}
	}
}

// TestWrongReference: Azure names what it does not find, and the user is told which field of the class names it.
func TestWrongReference(t *testing.T) {
	t.Parallel()
	const group = "/subscriptions/s/resourceGroups/g/providers/Microsoft."
	for field, id := range map[string]string{
		"subnetInfo": group + "Network/virtualNetworks/n/subnets/s",
		"properties.networkProfile.loadBalancerPoolIDs":             group + "Network/loadBalancers/l/backendAddressPools/p",
		"properties.networkProfile.securityGroupID":                 group + "Network/networkSecurityGroups/s",
		"properties.availabilitySet.id":                             group + "Compute/availabilitySets/a",
		"properties.virtualMachineScaleSet.id":                      group + "Compute/virtualMachineScaleSets/v",
		"properties.identityID":                                     group + "ManagedIdentity/userAssignedIdentities/i",
		"properties.capacityReservation.capacityReservationGroupID": group + "Compute/capacityReservationGroups/c",
		"": group + "Compute/somethingElse/x",
	} {
		r := newRoom(t, nil)
		r.request.Zone = "2"
		r.answerTo("PUT virtualMachines", http.StatusBadRequest, "InvalidResourceReference", "Resource "+id+" referenced by "+
			"resource "+group+"Network/networkInterfaces/m-1-nic was not found. Please make sure that the referenced resource "+
			"exists, and that both resources are in the same region.")
		_, err := r.account.Create(t.Context(), r.request)
		e, _ := errors.AsType[*cloud.Error](err)
		got := ""
		if e != nil && len(e.Problems) > 0 {
			got = e.Problems[0].Field
		}
		if want := "providerSpec." + field; e == nil || e.Code != cloud.Invalid || got != want && field+got != "" {
			t.Errorf("%s is not found: got %v, which blames %q; want Invalid, and %q", id, err, got, want)
		}
	}
}
