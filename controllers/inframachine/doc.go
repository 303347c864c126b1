// Package inframachine keeps the VM of each MCMMachine as Cluster API's contract
// for infrastructure machines asks.
//
//	ensureFinalizer ─▶ wait for cluster and boot data ─▶ intent ─▶ create ─▶ record ─▶ provisioned
//
// The intent is an annotation that is written before the first create call, and
// removed in the write that records the providerID of a complete VM. From then on
// the VM is looked up, never created again: one listing per account and period
// serves all machines. A MCMMachine that is created with a providerID starts there.
//
// Cluster API drains and deletes Nodes before it deletes a MCMMachine. Only when a
// whole Cluster is deleted it leaves Nodes behind, which are deleted here.
package inframachine
