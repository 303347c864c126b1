package naming

import (
	"fmt"
	"strconv"
	"strings"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// An Ordinals record tells which ordinals of a MachineSet are used up: all below
// Next. Those from Open to Next-1 are reserved for Machines that may or may not
// have been created; none are if Open equals Next. The zero record is that of a
// MachineSet that never made a Machine.
type Ordinals struct {
	Next int64
	Open int64
}

// ParseOrdinals reads what String wrote; "" is the zero record.
func ParseOrdinals(text string) (Ordinals, error) {
	o := Ordinals{Open: -1}
	if text == "" {
		return Ordinals{}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if !o.parsePart(part) {
			return Ordinals{}, fmt.Errorf("%q is not a record of ordinals", text)
		}
	}
	if o.Open < 0 {
		o.Open = o.Next
	}
	if o.Open > o.Next || o.Next > NameCount {
		return Ordinals{}, fmt.Errorf("%q is not a record of ordinals", text)
	}
	return o, nil
}

// parsePart sets the field of one part of a record, and reports whether it is valid.
func (o *Ordinals) parsePart(part string) bool {
	key, value, _ := strings.Cut(part, "=")
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil || number < 0 {
		return false
	}
	switch key {
	case "next":
		o.Next = number
	case "open":
		o.Open = number
	case "at": // the time of the reservation, which earlier versions needed
	default:
		return false
	}
	return true
}

// String is the record as an annotation holds it.
func (o Ordinals) String() string {
	if !o.IsOpen() {
		return fmt.Sprintf("next=%d", o.Next)
	}
	return fmt.Sprintf("next=%d,open=%d", o.Next, o.Open)
}

// IsOpen reports whether a reservation is unfinished.
func (o Ordinals) IsOpen() bool { return o.Open < o.Next }

// Reserve returns the record with count further ordinals reserved. An earlier
// reservation stays open; close it first, unless a request to create one of its
// Machines may still take effect. It fails when the names are used up.
func (o Ordinals) Reserve(count int) (Ordinals, error) {
	if o.Next+int64(count) > NameCount {
		return o, fmt.Errorf("reserve %d ordinals: all %d names of the set are used, replace it by a new one", count,
			NameCount)
	}
	return Ordinals{Next: o.Next + int64(count), Open: o.Open}, nil
}

// Close returns the record with its reservation finished.
func (o Ordinals) Close() Ordinals { return Ordinals{Next: o.Next, Open: o.Next} }

// NameReserved reports whether the name of m is one of an open reservation of its
// set: a request to create a Machine of it may be in flight, and would succeed once
// m is gone.
func NameReserved(set *machinev1.MachineSet, m *machinev1.Machine) bool {
	record, err := ParseOrdinals(set.Annotations[machinev1.OrdinalsAnnotation])
	ordinal, named := NewNames(set).Ordinal(m.Name)
	return err == nil && named && ordinal >= record.Open && ordinal < record.Next
}

// OwnerIDOf returns the owner id that a MachineSet gave a Machine of its, which follows from the name; ok is false for
// a Machine with a name that the set has not given.
func OwnerIDOf(set *machinev1.MachineSet, m *machinev1.Machine) (id string, ok bool) {
	record, err := ParseOrdinals(set.Annotations[machinev1.OrdinalsAnnotation])
	names := NewNames(set)
	ordinal, named := names.Ordinal(m.Name)
	if err != nil || !named || ordinal >= record.Next {
		return "", false
	}
	return names.OwnerID(ordinal), true
}

// Unfinished returns the reserved ordinals that have no Machine yet. Machines of
// a reservation are created in order, so one that is missing below one that
// exists was created and is gone: its name is not used again.
func (o Ordinals) Unfinished(exists func(ordinal int64) bool) []int64 {
	var left []int64
	for ordinal := o.Open; ordinal < o.Next; ordinal++ {
		if exists(ordinal) {
			left = nil
			continue
		}
		left = append(left, ordinal)
	}
	return left
}

// Recover returns a record for a MachineSet whose own was lost or destroyed. It
// leaves a wide gap behind the Machines that are left, because later ones may
// have existed.
func Recover(names Names, machines []*machinev1.Machine) Ordinals {
	const gap = 27 * 27 * 27
	next := int64(0)
	for _, m := range machines {
		ordinal, ok := names.Ordinal(m.Name)
		if ok && m.Annotations[machinev1.OwnerIDAnnotation] == names.OwnerID(ordinal) {
			next = max(next, min(ordinal+gap, NameCount))
		}
	}
	return Ordinals{Next: next, Open: next}
}
