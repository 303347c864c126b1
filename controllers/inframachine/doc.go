// Package inframachine keeps the VM of each MCMMachine as Cluster API's contract
// for infrastructure machines asks.
//
//	claim ─▶ wait for cluster and boot data ─▶ intent ─▶ create ─▶ record ─▶ provisioned
//
// The intent is an annotation that is written before the first create call, and
// taken away in the write that records the providerID of a complete VM. From then
// on the VM is looked at, never made again: one listing for an account and period
// serves all of its machines. A MCMMachine that is born with a providerID begins
// with the looking.
//
// Draining and deleting Nodes is Cluster API's, which asks for the deletion of a
// MCMMachine when that is over; only when the whole Cluster goes, which leaves
// Nodes behind, they are removed here.
package inframachine
