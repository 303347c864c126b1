package cloud

import "context"

// ReasonRebootUnsupported is the reason of the error of code Invalid for a cloud whose driver
// cannot reboot VMs.
const ReasonRebootUnsupported = "RebootUnsupported"

// ReasonVMBusy is the reason of an error of code Unavailable for a VM that something else is done
// to, so that the cloud refuses its reboot for now.
const ReasonVMBusy = "VMBusy"

// A Rebooter is an Account that can reboot a VM that exists. Traits.Reboots tells that the
// accounts of a Driver are Rebooters.
type Rebooter interface {
	// Reboot asks for a hard reset of the VM of r, or starts it if it is powered off, and does
	// not wait for it. The guest is not asked first: it may hang. The VM keeps its ids,
	// addresses, disks, interfaces and tags, and does not get its user data again.
	//
	// Clouds take no idempotency key for this: a second call may reboot the VM a second time.
	// After an error of code Unavailable or Unknown the VM may be rebooting, unless the reason
	// is ReasonVMBusy; after any other it is not.
	// Codes: NotFound (no such VM, or one that is going), Invalid, Denied, Exhausted (no room
	// to start it), Throttled, Unavailable, Unknown.
	Reboot(ctx context.Context, r Ref) error
}

// Reboot reboots a VM. An Account that is no Rebooter refuses that as Invalid.
func Reboot(ctx context.Context, a Account, r Ref) error {
	if b, ok := a.(Rebooter); ok {
		return b.Reboot(ctx, r)
	}
	return Errorf(Invalid, "reboot VM", ReasonRebootUnsupported, "the cloud's driver cannot reboot a VM")
}
