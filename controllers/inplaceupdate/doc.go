// Package inplaceupdate implements the hooks with which Cluster API updates Machines
// without replacing them (docs/in-place-updates.md): which differences between two
// templates can be applied to an existing VM, and the progress on one Machine.
//
// The MCMMachine controller applies spec.nodeTemplate to the Node; this package only
// waits for it. An agent on the node applies all other changes, if an annotation of the
// Machine says that there is one. It is triggered by the same labels and condition as
// with the native API. The package keeps no state between calls: all of it is on the
// Node and the MCMMachine, so any number of processes can answer.
package inplaceupdate
