package kubevirt

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// KubeVirt's words for how far a VM is, as far as the driver acts on them.
const (
	stopped         = "Stopped"
	stopping        = "Stopping"
	crashed         = "CrashLoopBackOff"
	paused          = "Paused"
	unschedulable   = "ErrorUnschedulable"
	dataVolumeError = "DataVolumeError"
)

// podScheduled is the condition that is false while the scheduler finds no node.
const podScheduled = "PodScheduled"

// states are what KubeVirt's words for a VM mean, where they do not depend on its runStrategy.
var states = map[string]cloud.State{
	"Running": cloud.StateRunning, "Migrating": cloud.StateRunning, paused: cloud.StateStopped,
	"": cloud.StatePending, "Provisioning": cloud.StatePending, "Starting": cloud.StatePending,
	"WaitingForVolumeBinding": cloud.StatePending, "WaitingForReceiver": cloud.StatePending,
	unschedulable: cloud.StatePending, "ErrImagePull": cloud.StatePending, "ImagePullBackOff": cloud.StatePending,
	"ErrorPvcNotFound": cloud.StatePending, dataVolumeError: cloud.StatePending,
	"Terminating": cloud.StateDeleting,
}

// state is what KubeVirt's word for a VM means; i is its instance, nil without one, or where the caller did not
// read it. One that KubeVirt starts again by itself is pending. A DataVolumeError is pending, too: most importers are
// started again.
func (m machine) state(i *instance) cloud.State {
	word := m.Status.PrintableStatus
	switch {
	case !m.down():
		return states[word]
	case m.restarts(i):
		return cloud.StatePending
	case word == crashed:
		return cloud.StateFailed
	}
	return cloud.StateStopped
}

// down reports whether a VM has no instance that runs or starts, or one that is going.
func (m machine) down() bool {
	return slices.Contains([]string{stopped, stopping, crashed}, m.Status.PrintableStatus)
}

// restarts reports whether KubeVirt starts a VM that is down by itself: for the first time, or again.
func (m machine) restarts(i *instance) bool {
	word := m.Status.PrintableStatus
	if slices.Contains(m.Status.Requests, changeRequest{"Start"}) {
		return true
	}
	switch m.runStrategy() {
	case runAlways:
		return true
	case runOnFailure: // a start that fails is tried again; a guest that has shut down stays down
		first := !m.Status.Created && m.Status.RunStrategy == ""
		return first || word == crashed || i != nil && i.Status.Phase == "Failed"
	case runOnce: // an instance that has ended stays; one that was deleted is made again
		return !m.Status.Created || word == stopping
	}
	return false
}

// runStrategy is that of a VM, which MCM's driver spells in another way.
func (m machine) runStrategy() string {
	switch {
	case m.Spec.Running == nil:
		return m.Spec.RunStrategy
	case *m.Spec.Running:
		return runAlways
	}
	return "Halted"
}

// vmOf returns a VM as the controllers see it, with the addresses of its instance, if it has one.
func (s *spec) vmOf(m machine, i *instance) cloud.VM {
	word := m.Status.PrintableStatus
	vm := cloud.VM{
		ID: m.Metadata.Name, ProviderID: providerID(m.Metadata.Name), NodeProviderID: providerID(m.Metadata.Name),
		Name: m.Metadata.machine(), OwnerID: m.Metadata.Labels[ownerLabel], NodeName: m.Metadata.Name,
		State: m.state(i), Reason: cmp.Or(word, "Accepted"), Message: m.message(),
		Region: m.place(regionLabel), Zone: m.place(zoneLabel), Created: m.Metadata.created(),
	}
	if m.Spec.InstanceType != nil {
		vm.InstanceType = m.Spec.InstanceType.Name
	}
	switch {
	case m.Metadata.Deleted != nil:
		vm.State, vm.Reason = cloud.StateDeleting, "Terminating"
	case vm.State == cloud.StatePending && strings.Contains(vm.Message, quotaText):
		vm.Reason = reasonQuota
	}
	if i != nil {
		vm.Addresses = i.addresses()
	}
	return vm
}

// message is what KubeVirt says of a VM that does not run: why it cannot make the instance, or the pod of that, why
// there is no node for it, or what it waits for.
func (m machine) message() string {
	for _, wanted := range []condition{
		{Type: "Failure", Status: "True"},
		{Type: "Synchronized", Status: "False"},
		{Type: podScheduled, Status: "False"},
		{Type: "Ready", Status: "False"},
	} {
		c := conditionOf(m.Status.Conditions, wanted.Type)
		if c.Status == wanted.Status && c.Message != "" {
			return c.Message
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
