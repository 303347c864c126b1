// Package mcmremediation is the controller of MCMRemediation: the external remediation of Cluster
// API's MachineHealthCheck.
//
//	MachineHealthCheck creates          unhealthy after the timeout,
//	the object                          reboots are left
//	      │                        ┌───────────────────────┐
//	      ▼        reboot          ▼                       │
//	   Pending ───────────────▶ Waiting ───────────────────┤
//	      │                        │ healthy               │ none is left
//	      │ no reboot helps        ▼                       ▼
//	      │                     Healthy                Replacing
//	      └────────────────────────────────────────────────▶
//	                     MachineHealthCheck             the Machine's owner
//	                     deletes the object             deletes the Machine
//
// How often the VM was rebooted is recorded before each call to the cloud, under the version of
// the object that was read. What became of a call whose answer is lost is not asked for: it
// counts, and the node has its time. So there are never more calls than the limit, whatever
// fails. Status is output; it is derived again after clusterctl move.
package mcmremediation
