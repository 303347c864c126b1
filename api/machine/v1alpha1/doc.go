// Package v1alpha1 has the kinds of the native API: Machine, MachineSet,
// MachineDeployment and MachineClass of the group machine.sapcloud.io, as Machine
// Controller Manager (MCM) defines them. Every JSON key that MCM writes is here with
// MCM's meaning. What this project adds is optional and listed in docs/api.
//
// MCM's template hash covers the field order and the Go type names of the machine
// template, so neither may change.
//
// +kubebuilder:object:generate=true
// +groupName=machine.sapcloud.io
package v1alpha1
