// Package mcmmachine keeps the VM of each MCMMachine as Cluster API's contract
// for infrastructure machines asks.
//
//	ensureFinalizer ─▶ claimAddresses ─▶ wait for cluster and boot data ─▶ intent ─▶ create ─▶ record ─▶ provisioned
//
// Addresses that spec.network wants from IP pools are claimed before the intent, which
// records them. The claims are deleted when the VM has gone, and not before.
//
// The intent is an annotation that is written before the first create call, and
// removed in the write that records the providerID of a complete VM. From then on
// the VM is looked up, never created again: one listing per account and period
// serves all machines. An MCMMachine that is created with a providerID starts there.
//
// Boot data that the cloud keeps outside of the VM is deleted once the Node has joined.
//
// A VM is registered with the load balancers of its class as soon as it runs, before anything
// is asked of the workload cluster, and leaves them before it is deleted.
//
// Cluster API drains and deletes Nodes before it deletes an MCMMachine. Only when a
// whole Cluster is deleted it leaves Nodes behind, which are deleted here.
package mcmmachine
