package vm

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// static has the object want a static address.
func (o *object) static() *Machine {
	m := o.machine()
	address := cloud.StaticAddress{Prefix: netip.MustParsePrefix("10.0.0.5/24")}
	m.Request.Network = []cloud.Interface{{Addresses: []cloud.StaticAddress{address}}}
	return m
}

// plain is a driver that knows no static addresses.
type plain struct{ cloud.Driver }

func (d plain) Traits() cloud.Traits {
	traits := d.Driver.Traits()
	traits.StaticAddresses = false
	return traits
}

// A driver that does not know of them would create a VM without the address that it needs.
func TestStaticAddressesAreRefused(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.object.class.Driver = plain{env.object.class.Driver}
	_, err := env.engine.Ensure(t.Context(), env.object.static())
	if cloud.CodeOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "does not support static addresses; remove") {
		t.Errorf("got %v, want Invalid with the remedy", err)
	}
	if len(env.object.steps) != 0 || len(env.cloud.Ledger()) != 0 {
		t.Errorf("steps %v, %d resources, want nothing", env.object.steps, len(env.cloud.Ledger()))
	}
	if made, err := env.engine.Ensure(t.Context(), env.object.machine()); err != nil || made.ProviderID == "" {
		t.Errorf("without static addresses: %v", err)
	}
	if _, err := env.engine.Ensure(t.Context(), env.object.static()); err != nil {
		t.Errorf("a VM that exists is not refused: %v", err)
	}
}

func TestStaticAddressesReachTheVM(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	made, err := env.engine.Ensure(t.Context(), env.object.static())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range made.Addresses {
		if a.Kind == "InternalIP" && a.Value != "10.0.0.5" {
			t.Errorf("the VM has %s", a.Value)
		}
	}
}
