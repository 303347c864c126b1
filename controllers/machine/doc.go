// Package machine keeps the VM and the node of each native Machine as its spec
// asks.
//
// A Machine joins through these phases; every arrow is one observation:
//
//	""  ──VM made──▶ Pending ──node healthy──▶ Running ◀──healthy──┐
//	 │                  │                         │ unhealthy      │
//	 │ create fails     │ creation timeout        ▼                │
//	 ▼                  ▼                      Unknown ────────────┘
//	CrashLoopBackOff ─▶ Failed ◀──health timeout──┘
//
// and leaves through these steps, each of which is skipped when there is
// nothing to do, so that a Machine without pods leaves in one pass:
//
//	drain ─▶ detach ─▶ destroy ─▶ release
//
// Which step is next is read from the node, the pods and the cloud, never from
// what was written about an earlier step.
package machine
