// Package openstack is the driver of OpenStack, for MachineClasses and Secrets
// as MCM's OpenStack driver has them.
//
// Nova has no idempotency key, and names are not unique. So a VM is looked for by
// its name and its metadata before it is made, one caller at a time, and looked
// for again afterwards: should several processes have made one each, all but one
// go. A port and a volume that have to be there before the server are found the
// same way, by marks that they carry from birth.
//
// Metadata is filtered here: Nova ignores such a filter of an ordinary user.
package openstack
