// Package rollout has the arithmetic of replicas: pure functions that decide how
// large each MachineSet of a MachineDeployment becomes, which set has the template
// (the new set, as in Kubernetes' Deployments), which machines are deleted first,
// what Machines are named, and how far a rollout is. Nothing here reads or writes
// an API.
//
// The results are those of MCM (its pkg/controller/deployment_*.go). Where they
// differ, a comment explains why: mostly because MCM counts what a MachineSet last
// reported, which may be outdated, and so creates or deletes too many machines.
package rollout
