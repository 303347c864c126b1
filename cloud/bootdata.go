package cloud

import "context"

// A BootDataKeeper is a Driver of a cloud that shows user data to others than the guest, and
// whose accounts can keep it private instead, as BootDataRemovers: the VM then gets what
// fetches it.
type BootDataKeeper interface {
	// PrivateBootData reports whether boot data of VMs of c is kept private, and which field of
	// the provider spec asks for that, e.g. "providerSpec.privateUserData".
	PrivateBootData(c Class) (field string, private bool)
}

// A BootDataRemover is an Account that keeps the boot data of VMs outside of them.
type BootDataRemover interface {
	// RemoveBootData removes what Create keeps of the boot data of r, of all attempts, and
	// nothing else. It is for VMs that have fetched it: others never can. It can be repeated,
	// and does nothing where there is none. Delete does the same once the VM has gone.
	// Codes: Denied, Throttled, Unavailable, Unknown.
	RemoveBootData(ctx context.Context, r Ref) error
}

// RemoveBootData removes the boot data that is kept for a VM. An Account that is no
// BootDataRemover keeps none.
func RemoveBootData(ctx context.Context, a Account, r Ref) error {
	if b, ok := a.(BootDataRemover); ok {
		return b.RemoveBootData(ctx, r)
	}
	return nil
}
