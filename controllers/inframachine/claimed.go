package inframachine

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// claimedNetwork is what the VM is asked for with, once all addresses are there.
// requested are those that it was asked for with before, empty if it was not.
func claimedNetwork(p *pass, requested string) ([]cloud.Interface, *condition) {
	if missing := missingAddress(p, requested); missing != nil {
		return nil, missing
	}
	network, done := networkOf(p)
	if is := recordOf(network); requested != "" && network != nil && is != requested {
		return nil, lost("the IPAddressClaims have "+is+" now", requested)
	}
	return network, done
}

// missingAddress is why not all addresses are there; nil: they are.
func missingAddress(p *pass, requested string) *condition {
	look, failed := unfulfilled, func(wrong string) *condition {
		return conditionFalse(infrav1.ReasonIPAddressClaimFailed, wrong)
	}
	if requested != "" {
		look, failed = lostClaim, func(wrong string) *condition { return lost(wrong, requested) }
	}
	var without, pools []string
	for _, a := range p.seen.addresses {
		wrong, pending := look(p.object, a)
		if wrong != "" {
			return failed(wrong)
		}
		if pending {
			without = append(without, a.name)
			pools = append(pools, fmt.Sprintf("%s.%s %s", a.pool.Kind, a.pool.APIGroup, a.pool.Name))
		}
	}
	claims := "IPAddressClaims " + strings.Join(without, ", ")
	switch {
	case len(without) == 0:
		return nil
	case requested != "":
		return conditionFalse(infrav1.ReasonWaitingForIPAddresses, claims+" name no IPAddress; the VM keeps "+requested)
	}
	return conditionFalse(infrav1.ReasonWaitingForIPAddresses, claims+" have no address yet; check that the IPAM "+
		"provider runs and that its pools exist: "+strings.Join(pools, ", "))
}

// lost is the condition of a machine whose VM has addresses that may go to others.
func lost(what, requested string) *condition {
	return conditionFalse(infrav1.ReasonIPAddressLost, "The VM was created with "+requested+", and "+what+
		"; nothing is claimed again for a VM that may run. Delete the Machine, so that its replacement gets addresses of "+
		"its own")
}

// unfulfilled is what is wrong with a claim whose address is waited for, or whether it
// has none yet.
func unfulfilled(o *infrav1.MCMMachine, a poolAddress) (wrong string, pending bool) {
	switch {
	case a.claim == nil, !a.claim.DeletionTimestamp.IsZero():
		return "", true // another one follows when it has gone
	case !ownsClaim(o, a.claim):
		return "IPAddressClaim " + a.name + " belongs to another object; delete it, or give the Machine another name", false
	case a.claim.Spec.PoolRef != poolRef(a):
		return fmt.Sprintf("IPAddressClaim %s asks pool %s for an address, not %s; delete it", a.name,
			a.claim.Spec.PoolRef.Name, a.pool.Name), false
	case a.claim.Status.AddressRef.Name == "":
		return refusedByProvider(a), true
	}
	return "", a.address == nil
}

// lostClaim is what became of a claim whose address the VM was asked for with, or whether
// that is not known: clusterctl does not move the status of claims.
func lostClaim(o *infrav1.MCMMachine, a poolAddress) (wrong string, pending bool) {
	switch {
	case a.claim == nil:
		return "IPAddressClaim " + a.name + " does not exist any more", false
	case !a.claim.DeletionTimestamp.IsZero():
		return "IPAddressClaim " + a.name + " is being deleted", false
	case !ownsClaim(o, a.claim):
		return "IPAddressClaim " + a.name + " belongs to another object", false
	case a.claim.Status.AddressRef.Name == "":
		return "", true
	case a.address == nil:
		return "IPAddress " + a.claim.Status.AddressRef.Name + " does not exist any more", false
	}
	return "", false
}

// refusedByProvider is what the IPAM provider says of a claim that it cannot fulfil.
func refusedByProvider(a poolAddress) string {
	ready := meta.FindStatusCondition(a.claim.Status.Conditions, ipamv1.IPAddressClaimReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf("IPAddressClaim %s gets no address from pool %s: %s: %s", a.name, a.pool.Name, ready.Reason,
		ready.Message)
}

// networkOf is what the VM is asked for with, once all addresses are there. A value that
// is none is a failure of the claim, as the condition says.
func networkOf(p *pass) ([]cloud.Interface, *condition) {
	out := make([]cloud.Interface, len(p.object.Spec.Network.Devices))
	for i, device := range p.object.Spec.Network.Devices {
		for _, text := range device.Nameservers {
			server, err := netip.ParseAddr(text)
			if err != nil {
				return nil, conditionFalse(infrav1.ReasonIPAddressClaimFailed, fmt.Sprintf(
					"spec.network.devices[%d].nameservers: %s; write IP addresses into a new MCMMachineTemplate", i, err))
			}
			out[i].Nameservers = append(out[i].Nameservers, server)
		}
		out[i].SearchDomains = device.SearchDomains
	}
	for _, a := range p.seen.addresses {
		static, err := staticAddress(a.address.Spec)
		if err != nil {
			return nil, conditionFalse(infrav1.ReasonIPAddressClaimFailed, fmt.Sprintf(
				"IPAddress %s cannot be used: %s; correct pool %s and delete IPAddressClaim %s", a.address.Name, err, a.pool.Name,
				a.name))
		}
		out[a.device].Addresses = append(out[a.device].Addresses, static)
	}
	return out, conditionTrue(infrav1.ReasonIPAddressesClaimed)
}

func staticAddress(s ipamv1.IPAddressSpec) (cloud.StaticAddress, error) {
	var out cloud.StaticAddress
	address, err := netip.ParseAddr(s.Address)
	if err != nil {
		return out, err
	}
	if s.Prefix == nil {
		return out, fmt.Errorf("%s has no prefix", address)
	}
	if out.Prefix = netip.PrefixFrom(address, int(*s.Prefix)); !out.Prefix.IsValid() {
		return out, fmt.Errorf("%s has the invalid prefix %d", address, *s.Prefix)
	}
	if s.Gateway == "" {
		return out, nil
	}
	if out.Gateway, err = netip.ParseAddr(s.Gateway); err == nil && out.Gateway.Is4() != address.Is4() {
		err = fmt.Errorf("gateway %s is of another family than %s", out.Gateway, address)
	}
	return out, err
}

// recordOf are the addresses of a request, as the annotation of the intent keeps them.
func recordOf(network []cloud.Interface) string {
	var all []string
	for _, n := range network {
		for _, a := range n.Addresses {
			all = append(all, a.Prefix.String())
		}
	}
	return strings.Join(all, ",")
}

// waitsForAddresses is why the VM cannot be asked for yet; nil: its addresses are there,
// or it wants none.
func waitsForAddresses(p *pass) *condition {
	switch {
	case len(p.seen.addresses) == 0, p.did.network != nil:
		return nil
	case p.did.addressCondition == nil:
		return conditionFalse(infrav1.ReasonWaitingForIPAddresses, "No address has been claimed")
	}
	return p.did.addressCondition
}
