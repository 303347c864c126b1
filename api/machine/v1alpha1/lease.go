package v1alpha1

import "strings"

// LeaseMark returns the value of LeaseHolderLabel for a holder's identity
// "<hostname>_<uuid>": the part after the last underscore, which is a valid label
// value and unique to the process. It is empty for an empty identity.
func LeaseMark(identity string) string {
	return identity[strings.LastIndexByte(identity, '_')+1:]
}
