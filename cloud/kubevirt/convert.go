package kubevirt

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// KubeVirt's words for how far a VM is, as far as the driver acts on them.
const (
	stopped       = "Stopped"
	paused        = "Paused"
	unschedulable = "ErrorUnschedulable"
)

// states are what KubeVirt's words for a VM mean.
var states = map[string]cloud.State{
	"Running": cloud.StateRunning, "Migrating": cloud.StateRunning,
	stopped: cloud.StateStopped, paused: cloud.StateStopped, "Stopping": cloud.StateStopped,
	"": cloud.StatePending, "Provisioning": cloud.StatePending, "Starting": cloud.StatePending,
	"WaitingForVolumeBinding": cloud.StatePending, "WaitingForReceiver": cloud.StatePending,
	unschedulable: cloud.StatePending, "ErrImagePull": cloud.StatePending, "ImagePullBackOff": cloud.StatePending,
	"ErrorPvcNotFound": cloud.StatePending, "DataVolumeError": cloud.StateFailed, "CrashLoopBackOff": cloud.StateFailed,
	"Terminating": cloud.StateDeleting,
}

// vmOf returns a VM as the controllers see it, with the addresses of its instance, if it has one.
func (s *spec) vmOf(m machine, i *instance) cloud.VM {
	word := m.Status.PrintableStatus
	vm := cloud.VM{
		ID: m.Metadata.Name, ProviderID: providerID(m.Metadata.Name), NodeProviderID: providerID(m.Metadata.Name),
		Name: m.Metadata.machine(), OwnerID: m.Metadata.Labels[ownerLabel], NodeName: m.Metadata.Name,
		State: states[word], Reason: cmp.Or(word, "Accepted"), Message: m.message(),
		Region: m.place(regionLabel), Zone: m.place(zoneLabel), Created: m.Metadata.created(),
	}
	if m.Spec.InstanceType != nil {
		vm.InstanceType = m.Spec.InstanceType.Name
	}
	if m.Metadata.Deleted != nil {
		vm.State, vm.Reason = cloud.StateDeleting, "Terminating"
	}
	if i != nil {
		vm.Addresses = i.addresses()
	}
	return vm
}

// message is what KubeVirt says of a VM that does not run.
func (m machine) message() string {
	for _, kind := range []string{"Failure", "PodScheduled", "Ready"} {
		for _, c := range m.Status.Conditions {
			bad := c.Status == "False"
			if kind == "Failure" {
				bad = c.Status == "True"
			}
			if c.Type == kind && bad && c.Message != "" {
				return c.Message
			}
		}
	}
	return ""
}

// place is the region or zone that a VM's node has to be in; default where the nodes have none.
func (m machine) place(key string) string {
	for _, e := range m.Spec.Template.Spec.Affinity.requirements() {
		switch {
		case e.Key != key:
		case e.Operator == "DoesNotExist":
			return anyPlace
		case e.Operator == "In" && len(e.Values) > 0:
			return e.Values[0]
		}
	}
	return ""
}

// requirements are those of the nodes; none if there are several sets of which one is enough.
func (a *affinity) requirements() []requirement {
	if a == nil || a.Node == nil || a.Node.Required == nil || len(a.Node.Required.Terms) != 1 {
		return nil
	}
	return a.Node.Required.Terms[0].Expressions
}

// addresses are those of an instance's interfaces, in order.
func (i instance) addresses() []cloud.Address {
	var all []cloud.Address
	for _, nic := range i.Status.Interfaces {
		for _, text := range append([]string{nic.IP}, nic.IPs...) {
			ip, err := netip.ParseAddr(text)
			a := cloud.Address{Kind: "InternalIP", Value: ip.String()}
			if err == nil && !ip.IsLinkLocalUnicast() && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}
