package vm

import (
	"context"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// TestForgottenVMIsOfOwnClass: a former leader's request makes the VM between the look-ups with the
// owner's class and with another one. Both show the same account, so the class stays.
func TestForgottenVMIsOfOwnClass(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	o := env.object
	late := cloud.VM{ID: "vm-1", ProviderID: "sim:///sim-1/vm-1", OwnerID: "owner", State: cloud.StatePending}
	looks := 0
	own := o.class
	own.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: func(r cloud.Ref) (cloud.VM, error) {
			if looks++; looks == 1 {
				return notFound(r)
			}
			return late, nil
		}}, nil
	}
	other := elsewhere(o.class)
	other.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: func(cloud.Ref) (cloud.VM, error) { return late, nil }}, nil
	}
	o.class, o.others = own, []class.Resolved{other}
	found, ok, err := env.engine.findForgotten(t.Context(), o, own)
	if err != nil || !ok || found.ID != late.ID {
		t.Fatalf("got VM %q, %v, %v, want %s", found.ID, ok, err, late.ID)
	}
	if len(o.steps) != 1 || o.steps[0] != "intent" {
		t.Errorf("recorded %v, want the intent with the owner's class", o.steps)
	}
}
