package v1alpha1

import "strings"

// LeaseMark is the value of LeaseHolderLabel for a holder's identity
// "<hostname>_<uuid>": the part behind the last underscore, which is a label
// value and which no other process has. It is empty for an empty identity.
func LeaseMark(identity string) string {
	return identity[strings.LastIndexByte(identity, '_')+1:]
}
