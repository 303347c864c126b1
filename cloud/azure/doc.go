// Package azure is the driver of Azure's virtual machines, by the REST API of Azure Resource
// Manager.
//
// A VM has the name of its machine, and names are unique in a resource group, so that there
// is one VM per machine. It is made by one request, with its disks and its network
// interface, that the cloud refuses if the name is taken. What is made carries the tags of
// the class, of the machine and of its owner from birth, and goes with the VM.
package azure
