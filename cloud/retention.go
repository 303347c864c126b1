package cloud

import "context"

// OnTerminationTag is the tag, on a volume or an interface, for what becomes of it when the VM
// that it was made with goes. Its values are RetentionKeep and RetentionDelete.
const OnTerminationTag = TagPrefix + "on-termination"

// A Retention is what becomes of a volume or an interface when its VM goes. It is decided when
// the VM is made, and no class changes it afterwards. The zero value is that it goes with its
// VM, as everything does in clouds whose classes can keep nothing.
type Retention string

// The retentions beside the zero value, which are those of clouds whose classes can keep something.
const (
	RetentionKeep   Retention = "keep"   // it stays, and is never deleted
	RetentionDelete Retention = "delete" // it goes with its VM
	// RetentionUndecided is that nothing shows what was decided. It may have been promised that
	// the resource stays, so it is never deleted.
	RetentionUndecided Retention = "undecided"
)

// RetentionOf returns what a tag with OnTerminationTag says; any other value than the two that are
// written, none too, is RetentionUndecided.
func RetentionOf(tag string) Retention {
	if r := Retention(tag); r == RetentionKeep || r == RetentionDelete {
		return r
	}
	return RetentionUndecided
}

// MayGo reports whether a resource with this retention may be deleted with its machine.
func (r Retention) MayGo() bool { return r == "" || r == RetentionDelete }

// Unrecorded reports whether r is part of a VM, and its tag lacks what was decided when that VM
// was made: RetentionRecorder.RecordRetention adds it.
func (r Resource) Unrecorded() bool {
	return r.Attached && r.Retention != "" && r.Tags[OnTerminationTag] != string(r.Retention)
}

// A RetentionRecorder is an Account whose classes can keep volumes or interfaces.
type RetentionRecorder interface {
	// RecordRetention tags parts, which List has yielded for c as Unrecorded, with what the
	// cloud shows of the decision that was made with their VMs. What has gone, or come loose,
	// meanwhile is left out. It can be repeated; after an error, some may have their tag.
	// Codes: Invalid, Denied, Throttled, Unavailable, Unknown.
	RecordRetention(ctx context.Context, c Class, parts []Resource) error
}

// RecordRetention tags parts of VMs with what was decided about them. With an Account that is no
// RetentionRecorder it does nothing: none of its parts has a retention.
func RecordRetention(ctx context.Context, a Account, c Class, parts []Resource) error {
	if r, ok := a.(RetentionRecorder); ok {
		return r.RecordRetention(ctx, c, parts)
	}
	return nil
}
