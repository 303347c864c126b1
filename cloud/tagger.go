package cloud

import "context"

// ReasonTagsUnsupported is the reason of the error of code Invalid for a cloud whose driver
// cannot change tags.
const ReasonTagsUnsupported = "TagsUnsupported"

// A Tagger is a Driver that can change the tags of VMs that exist: its accounts are
// TagSetters.
type Tagger interface {
	// UserTags returns the tags of c that TagSetter.SetTags sets: those of the class, as its
	// author wrote them, without those that tell whose a resource is (of the cluster, the
	// role, the machine and its owner, and all that the manager sets). The result is the
	// caller's and never nil.
	UserTags(c Class) map[string]string
}

// A TagSetter is an Account that can change the tags of a VM that exists.
type TagSetter interface {
	// SetTags gives the VM of r, and those of its disks and interfaces that Create tags, the
	// UserTags of r.Class, and removes the obsolete keys that are not among them. All other
	// tags stay as they are, and those that tell whose a resource is stay even if they are
	// obsolete. The keys are as in UserTags. SetTags can be repeated; after an error, some
	// tags may have been changed.
	// Codes: NotFound (no such VM), Invalid, Denied, Throttled, Unavailable, Unknown.
	SetTags(ctx context.Context, r Ref, obsolete []string) error
}

// SetTags changes the tags of a VM. An Account that is no TagSetter refuses that as Invalid.
func SetTags(ctx context.Context, a Account, r Ref, obsolete []string) error {
	if s, ok := a.(TagSetter); ok {
		return s.SetTags(ctx, r, obsolete)
	}
	return Errorf(Invalid, "set tags", ReasonTagsUnsupported, "the cloud's driver cannot change the tags of a VM")
}
