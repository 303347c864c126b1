package azure

import (
	"cmp"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// How the codes of the statuses of an instance view begin.
const (
	powerStatus  = "PowerState/"
	failedStatus = "ProvisioningState/failed/"
)

// tags are those of a resource, the manager's as they were given to Create. Azure may change
// the case of keys, so that they are in small letters.
func (r resource) tags() map[string]string { return codec.Decode(folded(r.Tags)) }

// machine is the name of the machine of a VM: that of the tag, or on a VM that MCM made its
// own.
func (v virtualMachine) machine() string {
	return cmp.Or(v.tags()[machineTag], strings.ToLower(v.Name))
}

// power is the state of a VM's power, as "running"; empty if the cloud does not show it.
func (v virtualMachine) power() string { return v.code(powerStatus) }

// code is the rest of the code of the status that begins like this; empty if there is none.
func (v virtualMachine) code(begins string) string {
	if v.Properties.InstanceView == nil {
		return ""
	}
	for _, s := range v.Properties.InstanceView.Statuses {
		if rest, is := strings.CutPrefix(s.Code, begins); is {
			return rest
		}
	}
	return ""
}

// failure is why a VM could not be made, as far as the cloud says; both are empty if it does
// not.
func (v virtualMachine) failure() (code, message string) {
	if v.Properties.ProvisioningState != stateFailed || v.Properties.InstanceView == nil {
		return "", ""
	}
	for _, s := range v.Properties.InstanceView.Statuses {
		if rest, is := strings.CutPrefix(s.Code, failedStatus); is {
			return rest, s.Message
		}
	}
	return "", ""
}

// The provisioning states that matter.
const (
	stateCreating = "Creating"
	stateDeleting = "Deleting"
	stateFailed   = "Failed"
	stateDone     = "Succeeded"
)

// state is how far a VM is, and the cloud's word for it. A failed change of a VM that runs
// makes it no failed VM.
func (v virtualMachine) state() (state cloud.State, reason string) {
	provisioning, power := v.Properties.ProvisioningState, v.power()
	switch {
	case provisioning == stateDeleting:
		return cloud.StateDeleting, provisioning
	case provisioning == stateCreating:
		return cloud.StatePending, provisioning
	case power == "running":
		return cloud.StateRunning, power
	case power == "starting":
		return cloud.StatePending, power
	case power != "":
		return cloud.StateStopped, power
	case provisioning == stateFailed:
		code, _ := v.failure()
		return cloud.StateFailed, cmp.Or(code, provisioning)
	case v.Properties.InstanceView == nil:
		return cloud.StateUnknown, cmp.Or(provisioning, "Unknown")
	}
	return cloud.StatePending, cmp.Or(provisioning, "Unknown")
}

// vmOf returns a VM as the controllers see it, without its addresses.
func (s *spec) vmOf(v virtualMachine) cloud.VM {
	tags := v.tags()
	vm := cloud.VM{
		ID: v.Name, Name: v.machine(), OwnerID: tags[ownerTag], NodeName: strings.ToLower(v.Name),
		Region: s.Location,
	}
	vm.ProviderID, vm.NodeProviderID = providerIDs(s.Location, v.Name, v.ID)
	vm.State, vm.Reason = v.state()
	_, vm.Message = v.failure()
	if len(v.Zones) > 0 {
		vm.Zone = v.Zones[0]
	}
	if v.Properties.Hardware != nil {
		vm.InstanceType = v.Properties.Hardware.Size
	}
	if v.Properties.TimeCreated != nil {
		vm.Created = *v.Properties.TimeCreated
	}
	return vm
}
