// Package azuretest is a double of Azure: the parts of Resource Manager, of its providers for
// compute and networks, and of the login that a driver of VMs calls.
//
// It refuses requests that the published model of the API does not allow, and changes what
// it has as time passes on the clock that it is given. It is a server for tests, and no part
// of the manager.
//
// The shapes are Microsoft's, of its SDK. From public reports are the words for disks of another
// zone, names of disks that are taken, quotas and room of Spot VMs. Invented are how long things take,
// that an interface of a taken name is NicInUse, that a disk whose image cannot be read becomes Failed,
// and that a zone without room shows only after a VM was accepted.
package azuretest
