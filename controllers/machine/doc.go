// Package machine keeps the VM and the node of each native Machine as its spec
// asks.
//
// A Machine goes through these phases; every arrow is one observation:
//
//	""  ──VM created──▶ Pending ──node healthy──▶ Running ◀──healthy──┐
//	 │                     │                         │ unhealthy      │
//	 │ create fails        │ creation timeout        ▼                │
//	 ▼                     ▼                      Unknown ────────────┘
//	CrashLoopBackOff ────▶ Failed ◀──health timeout──┘
//
// Every pass over a Machine that is to exist runs all join steps:
//
//	ensureFinalizer     finalizer.go   finalizer and owner id, before anything is created
//	launch              launch.go      the VM and what identifies it
//	register            upkeep.go      the load balancers of the VM
//	syncProviderIDForm  providerid.go  the form of spec.providerID that is asked for
//	checkHealth         health.go      the phase; replacement paused by outage.go
//	updateInPlace       inplace.go     the machine's part of an update in place
//	preserve            preserve.go    a machine that is kept for examination
//	removeBootData      upkeep.go      boot data that the cloud keeps, once the node has joined
//	updateTags          upkeep.go      the tags of the VM, where they follow the class
//
// A pass over a Machine that is being deleted runs the deletion steps until one is
// not done. Each is skipped when there is nothing to do, so a Machine without pods
// is deleted in one pass:
//
//	nameOwnerID      finalizer.go  the owner id that follows from the name, where it was lost
//	findNode         node.go       the node of a Machine that never recorded it
//	drain            drain.go      the pods
//	detachVolumes    drain.go      volumes whose node does not answer
//	deleteVM         deletevm.go   the VM and everything created with it
//	deleteNode       node.go       the Node
//	deleteToken      node.go       the bootstrap token of a VM that never joined
//	waitForName      finalizer.go  until no former leader can create the name again
//	removeFinalizer  finalizer.go  the Machine itself
//
// The node, the pods and the cloud say which step is next, never what was written
// about an earlier step.
package machine
