// Package migration moves pools of machines from one API to the other without
// touching a VM: a MachineDeployment of Machine Controller Manager's API becomes
// one of Cluster API on the infrastructure provider, and back.
//
// A pool is described on both APIs at once: [Native] and [ClusterAPI] are what
// the API server shows of it. One of them is the truth, the other a copy that
// no controller acts on:
//
//	              hold, ack           paused copies           one write           unpause, hand over
//	Native  ───────────────▶ held ───────────────▶ copied ───────────────▶ switched ───────────────▶ Moved ──▶ Finished
//	   ▲                      │                      │                       │                        │
//	   └──────────────────────┴──────────────────────┘                       │                        │
//	      rollback: the copies go, the hold goes                             │                        │
//	   ▲                                                                     │                        │
//	   └─────────────────────────────────────────────────────────────────────┴────────────────────────┘
//	      rollback: pause, ack, refresh the native side, one write, release the hold, the copies go
//
// The way back from Cluster API is the same with the APIs exchanged.
//
// The rules that make it safe:
//
//   - No controller of the new side acts on a machine before every controller of the old
//     side has acknowledged to leave it alone: a hold that is answered with the
//     value of the hold ([machinev1.MigrationHoldAnnotation]), or Cluster API's
//     condition Paused.
//   - Which side is the truth is one field of the [Record], a ConfigMap beside the
//     pool, changed by one conditional write. What was done before it can be
//     thrown away, what was done after it can be done again.
//   - Each step looks at what is there and does what is missing. So a command that
//     was killed between any two writes is continued by the next one, by whomever,
//     in either direction.
//   - Copies of Cluster API keep their VM ([machinev1.RetainVMAnnotation]) until the
//     native side is held for good, and native Machines keep their finalizer until
//     the new objects have theirs.
package migration
