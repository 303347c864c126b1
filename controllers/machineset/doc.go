// Package machineset keeps as many Machines as a MachineSet asks for.
//
// A reconcile observes the MachineSet, its MachineDeployment, its Machines and
// the Nodes of failed ones in caches. Then it runs these steps, each in the file
// of its name:
//
//	waitForHold       nothing happens while a Machine of the set is held for a migration
//	deleteSet         a set that is being deleted deletes its Machines first
//	validateSpec      an invalid set is reported and otherwise left alone
//	claimMachines     adds the finalizer, releases and adopts Machines
//	syncMachines      brings node template and timeouts of the template to the Machines
//	preserveFailed    annotates failed Machines that are kept for examination
//	freezeOvershoot   freezes a set with too many Machines
//	scale             creates missing Machines, or deletes surplus and failed ones
//
// At last it reports: the status is a pure function of what was observed and
// done, and is written once, if it differs.
//
// It never creates one Machine too many: the names of Machines follow from the
// MachineSet and an ordinal, ordinals are reserved in the MachineSet before they
// are used, and what a reconcile wrote is remembered until the caches show it.
package machineset
