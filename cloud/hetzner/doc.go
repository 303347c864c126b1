// Package hetzner makes servers of Hetzner Cloud from MachineClasses as MCM's driver
// for it, machine-controller-manager-provider-hcloud, has them.
//
// The names of servers are unique in a project. That is what keeps a machine to one
// server: a request that is carried out twice is refused the second time, and the server
// that has the name is taken if its labels say that it is the machine's.
package hetzner
