package vsphere

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// minHardware is the hardware version that VMs are brought to, as MCM does it.
const minHardware = 15

// configure asks for all that a clone lacks, in one change, so that a VM is
// never half configured.
func (a *account) configure(ctx context.Context, s *spec, r cloud.CreateRequest, vm *seen) error {
	nics, err := a.backings(ctx, s)
	if err != nil {
		return err
	}
	c, err := a.configuration(ctx, vm.ref)
	if err != nil {
		return err
	}
	if err := s.fits(r, c); err != nil {
		return err
	}
	if len(r.Network) > 0 {
		if added, err := a.addInterfaces(ctx, vm, c.config, nics); added || err != nil {
			return err
		}
	}
	change, err := s.change(r, c.config, nics, vm.mark.DRS)
	if err != nil {
		return err
	}
	return a.reconfigure(ctx, vm.ref, change)
}

// fits returns what of the request the template cannot serve.
func (s *spec) fits(r cloud.CreateRequest, t configured) error {
	if _, err := s.boot(r, t.config); err != nil || s.SystemDisk == nil || s.SystemDisk.SizeGB <= 0 {
		return err
	}
	disk := firstDisk(t.config)
	switch {
	case disk == nil:
		return wrong(opCreate, "systemDisk.size", "is set and the template has no disk; remove it")
	case s.diskKiB(t.config) < disk.CapacityInKB:
		return wrong(opCreate, "systemDisk.size", fmt.Sprintf(
			"is %d GiB and the template's disk has %d KiB, which cannot shrink; make it larger", s.SystemDisk.SizeGB,
			disk.CapacityInKB))
	case s.diskKiB(t.config) > disk.CapacityInKB && s.LinkedClone:
		return wrong(opCreate, "systemDisk.size", "is larger than the template's disk, which a linked clone shares and "+
			"cannot grow; remove it, enlarge the template, or clone without linkedClone")
	}
	return nil
}

// link makes a clone share the disks of a snapshot of the template, if the class asks
// for it.
func (s *spec) link(t configured, spec *types.VirtualMachineCloneSpec) error {
	if !s.LinkedClone {
		return nil
	}
	if t.snapshots != nil {
		spec.Snapshot = t.snapshots.CurrentSnapshot
		if s.Snapshot != "" {
			spec.Snapshot = snapshotNamed(s.Snapshot, t.snapshots.RootSnapshotList)
		}
	}
	if spec.Snapshot == nil {
		field, what := "linkedClone", "a snapshot"
		if s.Snapshot != "" {
			field, what = "snapshot", fmt.Sprintf("the snapshot %q", s.Snapshot)
		}
		return wrong(opCreate, field, fmt.Sprintf(
			"needs %s of the template, which does not have it; take one, or clone without linkedClone", what))
	}
	spec.Location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
	return nil
}

// snapshotNamed returns the snapshot of that name in a tree of them, or nil.
func snapshotNamed(name string, trees []types.VirtualMachineSnapshotTree) *types.ManagedObjectReference {
	for _, t := range trees {
		if t.Name == name {
			return &t.Snapshot
		}
		if found := snapshotNamed(name, t.ChildSnapshotList); found != nil {
			return found
		}
	}
	return nil
}

// change is what makes a clone the VM that is asked for.
func (s *spec) change(r cloud.CreateRequest, c *types.VirtualMachineConfigInfo,
	nics []types.BaseVirtualDeviceBackingInfo, drs *membership,
) (types.VirtualMachineConfigSpec, error) {
	b, err := s.boot(r, c)
	if err != nil {
		return types.VirtualMachineConfigSpec{}, err
	}
	uuidEnabled := true
	m := s.markFor(r, phaseConfigured)
	m.Disks, m.DRS = ownDisks(c), drs
	extra := maps.Clone(s.ExtraConfig)
	if extra == nil {
		extra = map[string]string{}
	}
	maps.Copy(extra, b.extra)
	delete(extra, markKey)
	change := types.VirtualMachineConfigSpec{
		ChangeVersion: c.ChangeVersion, NumCPUs: s.NumCPUs, MemoryMB: s.MemoryMB, GuestId: s.GuestID,
		MemoryReservationLockedToMax: s.MemoryReservationLockedToMax,
		Flags:                        &types.VirtualMachineFlagInfo{DiskUuidEnabled: &uuidEnabled},
		ScheduledHardwareUpgradeInfo: upgrade(c.Version),
		DeviceChange:                 s.devices(c, nics),
		VAppConfig:                   b.vApp(),
	}
	if b.withoutVApp {
		change.VAppConfigRemoved = &b.withoutVApp
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		change.ExtraConfig = append(change.ExtraConfig, &types.OptionValue{Key: key, Value: extra[key]})
	}
	change.ExtraConfig = append(change.ExtraConfig, m.entry())
	return change, nil
}

// upgrade asks for newer virtual hardware at power-on; nil if it is new enough
// or not known.
func upgrade(version string) *types.ScheduledHardwareUpgradeInfo {
	n, err := strconv.Atoi(strings.TrimPrefix(version, "vmx-"))
	if err != nil || n >= minHardware {
		return nil
	}
	return &types.ScheduledHardwareUpgradeInfo{
		UpgradePolicy: string(types.ScheduledHardwareUpgradeInfoHardwareUpgradePolicyAlways),
		VersionKey:    fmt.Sprintf("vmx-%d", minHardware),
	}
}

// devices puts the interfaces onto their networks, adds those that the template lacks,
// and makes the first disk as large as is asked for.
func (s *spec) devices(c *types.VirtualMachineConfigInfo,
	nics []types.BaseVirtualDeviceBackingInfo,
) []types.BaseVirtualDeviceConfigSpec {
	changes := interfaceChanges(c, nics)
	if disk := firstDisk(c); disk != nil && s.diskKiB(c) > disk.CapacityInKB {
		grown := *disk
		grown.CapacityInKB, grown.CapacityInBytes = s.diskKiB(c), 0
		changes = append(changes, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationEdit,
			Device:    &grown,
		})
	}
	return changes
}

// interfaceChanges gives the interfaces of a VM these backings, in order. Further
// interfaces of the template stay as they are.
func interfaceChanges(c *types.VirtualMachineConfigInfo,
	backings []types.BaseVirtualDeviceBackingInfo,
) []types.BaseVirtualDeviceConfigSpec {
	var changes []types.BaseVirtualDeviceConfigSpec
	for _, d := range c.Hardware.Device {
		card, ok := d.(types.BaseVirtualEthernetCard)
		if !ok || len(changes) == len(backings) {
			continue
		}
		card.GetVirtualEthernetCard().Backing = backings[len(changes)]
		changes = append(changes, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: d,
		})
	}
	for i := len(changes); i < len(backings); i++ {
		changes = append(changes, newInterface(int32(-1-i), backings[i])) //nolint:gosec // there are nicsMax at most
	}
	return changes
}

// cards are the interfaces of a VM, in order.
func cards(c *types.VirtualMachineConfigInfo) []*types.VirtualEthernetCard {
	var all []*types.VirtualEthernetCard
	for _, d := range c.Hardware.Device {
		if card, ok := d.(types.BaseVirtualEthernetCard); ok {
			all = append(all, card.GetVirtualEthernetCard())
		}
	}
	return all
}

// addInterfaces asks for the interfaces that the template lacks, apart from all else, and
// reports whether it did: an interface has a MAC address, by which the guest knows it,
// once vCenter has made it.
func (a *account) addInterfaces(ctx context.Context, vm *seen, c *types.VirtualMachineConfigInfo,
	backings []types.BaseVirtualDeviceBackingInfo,
) (bool, error) {
	there := cards(c)
	if len(there) < len(backings) {
		return true, a.reconfigure(ctx, vm.ref, types.VirtualMachineConfigSpec{
			ChangeVersion: c.ChangeVersion, DeviceChange: interfaceChanges(c, backings),
		})
	}
	for _, card := range there[:len(backings)] {
		if card.MacAddress == "" {
			return false, cloud.Errorf(cloud.Unavailable, opCreate, "NoMACAddress",
				"vCenter has not given an interface of VM %s a MAC address yet", vm.name)
		}
	}
	return false, nil
}

// newInterface adds an interface under a temporary key.
func newInterface(key int32, backing types.BaseVirtualDeviceBackingInfo) types.BaseVirtualDeviceConfigSpec {
	return &types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd,
		Device: &types.VirtualVmxnet3{
			VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: types.VirtualEthernetCard{
				VirtualDevice: types.VirtualDevice{Key: key, Backing: backing, Connectable: &types.VirtualDeviceConnectInfo{
					StartConnected: true, AllowGuestControl: true, Connected: true,
				}},
				AddressType: string(types.VirtualEthernetCardMacTypeGenerated),
			}},
		},
	}
}

// ownDisks are the UUIDs of the disks in the directory of the VM, which came
// with it.
func ownDisks(c *types.VirtualMachineConfigInfo) []string {
	var own []string
	for _, d := range c.Hardware.Device {
		if disk, ok := d.(*types.VirtualDisk); ok && inDirectory(c, disk) {
			if _, id := backingOf(disk); id != "" {
				own = append(own, id)
			}
		}
	}
	return own
}

// inDirectory reports whether a disk is a file in the VM's own directory and no
// disk of its own right.
func inDirectory(c *types.VirtualMachineConfigInfo, disk *types.VirtualDisk) bool {
	file, _ := backingOf(disk)
	return disk.VDiskId == nil && file != "" && path.Dir(file) == path.Dir(c.Files.VmPathName)
}

// backingOf returns the file and the UUID of a disk; both empty when it has
// none that is known.
func backingOf(disk *types.VirtualDisk) (file, id string) {
	switch b := disk.Backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		return b.FileName, b.Uuid
	case *types.VirtualDiskSparseVer2BackingInfo:
		return b.FileName, b.Uuid
	case *types.VirtualDiskSeSparseBackingInfo:
		return b.FileName, b.Uuid
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		return b.FileName, b.Uuid
	}
	return "", ""
}

// sameUUID compares ids without regard to case, blanks and hyphens: switches
// spell theirs in groups of two digits.
func sameUUID(a, b string) bool {
	plain := strings.NewReplacer(" ", "", "-", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}
