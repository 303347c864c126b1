// Package machinedeployment rolls changes of a machine template out over
// MachineSets.
//
// A pass reads the deployment, its MachineSets, their Machines and these
// machines' Nodes from caches; then acts, in this order:
//
//	remove    a deployment that is being deleted takes its sets with it
//	validate  an invalid deployment is reported and otherwise left alone
//	adopt     finalizer, orphaned sets, sets without the hash
//	freeze    mirrors the sets' freeze onto the deployment
//	choose    machines that a scaler chose for deletion are marked
//	scale     if paused, or if the replicas have changed
//	rollBack  if asked to
//	roll      replaces old machines by the strategy
//
// and reports at last: the status is a pure function of what was seen and done,
// and is written once, if it differs.
//
// What a set shall be is collected in a copy of it, and written with one merge
// patch a set and pass. How large it shall be is decided in
// controllers/internal/rollout.
package machinedeployment
