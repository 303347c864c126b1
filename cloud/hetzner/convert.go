package hetzner

import (
	"encoding/base64"
	"net/netip"
	"strconv"
	"unicode/utf8"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// The states of servers that the driver acts on.
const (
	statusOff      = "off"
	statusDeleting = "deleting"
)

// stateOf returns what a server's status means.
func stateOf(status string) cloud.State {
	switch status {
	case "initializing", "starting":
		return cloud.StatePending
	case "running", "migrating", "rebuilding":
		return cloud.StateRunning
	case statusOff, "stopping":
		return cloud.StateStopped
	case statusDeleting:
		return cloud.StateDeleting
	}
	return cloud.StateUnknown
}

// machine returns the name of the machine of a server: that in its label, or its own, because
// MCM's driver sets no such label.
func (t server) machine() string {
	if name := t.Labels[machineLabel]; name != "" {
		return name
	}
	return t.Name
}

// zone returns the zone of a server as its class names it.
func (t server) zone() string {
	if zone := t.Labels[zoneLabel]; zone != "" {
		return zone
	}
	return t.Location.Name
}

// vm returns a server as the controllers see it.
func (t server) vm() cloud.VM {
	id := strconv.FormatInt(t.ID, 10)
	return cloud.VM{
		ID: id, ProviderID: providerID(t.zone(), id), NodeProviderID: providerIDPrefix + id,
		Name: t.machine(), OwnerID: t.Labels[ownerLabel], NodeName: t.Name,
		State: stateOf(t.Status), Reason: driverkit.CamelCase(t.Status),
		Region: t.Location.Name, Zone: t.zone(), InstanceType: t.ServerType.Name,
		Addresses: t.addresses(), Created: t.Created,
	}
}

// providerID returns a providerID in MCM's form.
func providerID(zone, id string) string { return providerIDPrefix + "/" + zone + "/" + id }

// addresses returns how a server is reached. A public address is never an internal one, also while the
// server is not in its networks yet: nodes would be known by it for good.
func (t server) addresses() []cloud.Address {
	var all []cloud.Address
	add := func(kind, text string) {
		if _, err := netip.ParseAddr(text); err == nil {
			all = append(all, cloud.Address{Kind: kind, Value: text})
		}
	}
	for _, n := range t.PrivateNet {
		add("InternalIP", n.IP)
	}
	for _, address := range t.public() {
		add("ExternalIP", address)
	}
	return all
}

// public returns the public addresses of a server. Of IPv6 it has a network, whose first
// address its image configures.
func (t server) public() []string {
	var all []string
	if t.PublicNet.IPv4 != nil {
		all = append(all, t.PublicNet.IPv4.IP)
	}
	if t.PublicNet.IPv6 != nil {
		if network, err := netip.ParsePrefix(t.PublicNet.IPv6.IP); err == nil {
			all = append(all, network.Masked().Addr().Next().String())
		}
	}
	return all
}

// sent returns user data as it is sent. Hetzner takes text only, and cloud-init decodes what is
// base64: so is sent what is no text, and what cloud-init would take for base64. Ignition, which
// decodes nothing, has neither.
func sent(data []byte) string {
	_, err := base64.StdEncoding.DecodeString(string(data))
	if !utf8.Valid(data) || err == nil {
		return base64.StdEncoding.EncodeToString(data)
	}
	return string(data)
}
