// Package rollout is the arithmetic of replicas: pure functions over plain
// numbers that say how large each MachineSet of a MachineDeployment shall be,
// which set has the current template, and how far a rollout is. Nothing here
// reads or writes anything.
//
// The numbers are those of MCM (its pkg/controller/deployment_*.go). Where they
// differ, a comment says why: mostly because MCM counts what a MachineSet last
// reported, which falls behind, and so makes or removes too many machines.
package rollout
