// Package recovery plans how Machines are recreated for VMs that have lost theirs, as when
// the API server was restored from a backup. Nothing is replaced: the new Machine has the
// name, the owner id and the providerID of the VM.
//
//	listed by the orphan      by owner id, name or       Machine (and MCMMachine),
//	collector (no permissions  ──▶ the person's choice:   ──▶ sizes of its MachineSet and
//	to the cloud needed)      its MachineSet             MachineDeployment, used ordinals
//
// [Of] is pure. Package steps carries a plan out.
package recovery
