// Package machinedeployment rolls changes of a machine template out over
// MachineSets.
//
// A reconcile observes the MachineDeployment, its MachineSets, their Machines and
// the Nodes of these in caches. Then it runs these steps, each in the file of its
// name:
//
//	waitForHold           nothing happens while a set or machine is held for a migration
//	deleteDeployment      a deployment that is being deleted deletes its sets first
//	validate              an invalid deployment is reported and otherwise left alone
//	adoptSets             adds the finalizer, adopts orphaned sets, syncs metadata of all sets
//	syncFreeze            copies the freeze of the sets to the deployment
//	offerCapacity         tells the cluster-autoscaler what a node will be like
//	adaptCreationTimeout  gives machines more time while they do not join
//	pauseFailing          pauses a rollout whose new machines never join
//	markForDeletion       marks the machines that a scaler has listed for deletion
//	scale                 if paused, or if spec.replicas has changed
//	rollBack              if spec.rollbackTo is set
//	rollingUpdate         replaces old machines gradually
//	recreate              deletes all old machines before it creates new ones
//	inPlaceUpdate         updates the nodes of old machines without replacing the VMs
//
// At last it reports: the status is a pure function of what was observed and
// done, and is written once, if it differs.
//
// The desired state of a set is collected in a copy of it, and written with one
// merge patch per set and reconcile. How large each set becomes is decided in
// controllers/internal/rollout.
package machinedeployment
