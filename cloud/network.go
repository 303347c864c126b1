package cloud

import (
	"fmt"
	"net/netip"
)

// An Interface is what is wanted of a network interface of a VM. It is never modified.
type Interface struct {
	// Addresses are all that the interface has; empty leaves them to DHCP or the cloud.
	Addresses []StaticAddress
	// Nameservers and SearchDomains are those of DNS, in the order of their use. Without
	// Addresses they are empty.
	Nameservers   []netip.Addr
	SearchDomains []string
}

// A StaticAddress is an address of an interface.
type StaticAddress struct {
	Prefix  netip.Prefix // the address, and how many bits its network has; valid and not masked
	Gateway netip.Addr   // of the default route, of the same family; the zero value is none
}

// NetworkProblems returns what of r.Network a class with so many interfaces cannot honour.
// Each blocks the creation.
func (r CreateRequest) NetworkProblems(interfaces int) []Problem {
	if len(r.Network) <= interfaces {
		return nil
	}
	return []Problem{{
		Severity: BlocksCreate, Field: "spec.network.devices",
		Message: fmt.Sprintf("has %d devices, and the MachineClass names networks for %d; remove some, or add networks "+
			"to the class", len(r.Network), interfaces),
	}}
}
