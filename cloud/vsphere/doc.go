// Package vsphere is the driver of VMware vCenter, provider "vsphere" of MCM.
//
// A VM is cloned from a template under the machine's name, which is unique in
// its folder and so keeps a VM from being made twice. The clone carries from
// birth who it belongs to, in one entry of its extra configuration (see mark),
// and BIOS and instance UUIDs that follow from the token of the attempt. Then
// it is configured as a whole, tagged as MCM does it and with tags of vSphere, made
// a member of its DRS rule and group, and powered on, in steps of which each can be
// repeated. No step waits for a task of vCenter: the next call of Create looks at
// it.
package vsphere
