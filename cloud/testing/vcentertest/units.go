package vcentertest

import "github.com/vmware/govmomi/vim25/types"

// firstUnit is that of the first network interface on the PCI controller.
const firstUnit = 7

// setUnits gives new network interfaces their unit on the controller, as vCenter does. The
// simulator would take the next one from its controllers, which all of its VMs share and
// which it reads without a lock.
func setUnits(changes []types.BaseVirtualDeviceConfigSpec) {
	unit := int32(firstUnit)
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		card, ok := spec.Device.(types.BaseVirtualEthernetCard)
		if !ok || spec.Operation != types.VirtualDeviceConfigSpecOperationAdd {
			continue
		}
		unit++ // the template has the first
		if device := card.GetVirtualEthernetCard(); device.UnitNumber == nil {
			device.UnitNumber = new(unit)
		}
	}
}
