// Package joining records whether machines join within their creation timeout, and adapts
// that of a MachineDeployment to it, as MCM's pull request 1156 does:
//
//	          machines failed to join, in as many cycles as the policy has
//	        ┌────────────────────────────────────────────────────────────┐
//	        │                                                            ▼
//	template's timeout                                       timeout × (1 + percent/100),
//	        ▲                                                 at most four times over
//	        │     two machines joined, or nothing failed for             │
//	        └────────────────────────────────────────────────────────────┘
//	                    twice as long as the longest timeout
//
// A timeout that is too short for a slow cloud ends the creation of machines that would
// have joined, for ever; one that is always long reports a broken pool late. The state is
// in annotations of the MachineDeployment, under MCM's names, so that it outlives the
// status and either manager continues with it.
package joining
