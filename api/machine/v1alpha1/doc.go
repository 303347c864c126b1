// Package v1alpha1 holds the native kinds: Machine, MachineSet,
// MachineDeployment and MachineClass of the group machine.sapcloud.io, as
// Machine Controller Manager defines them. Every JSON key that MCM writes is
// here with MCM's meaning; what this project adds is optional and listed in
// docs/api.
//
// Field order and Go type names of the machine template take part in MCM's
// template hash, so neither may change.
//
// +kubebuilder:object:generate=true
// +groupName=machine.sapcloud.io
package v1alpha1
