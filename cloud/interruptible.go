package cloud

// An Interrupter is a Driver of a cloud that may take VMs of some classes away
// at any time, e.g. on a spot market.
type Interrupter interface {
	// Interruptible reports whether VMs of c are of that kind.
	Interruptible(c Class) bool
}
