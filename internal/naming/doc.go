// Package naming has the names and owner ids that a MachineSet gives to its Machines:
// both follow from the UID of the set and an ordinal, and the set records which ordinals
// are used up.
package naming
