// Package azuretest is a double of Azure: the parts of Resource Manager, of its providers for
// compute and networks, and of the login that a driver of VMs calls.
//
// It refuses requests that the published model of the API does not allow, and changes what
// it has as time passes on the clock that it is given. It is a server for tests, and no part
// of the manager.
package azuretest
