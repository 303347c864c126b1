// Package inplaceupdate answers the hooks with which Cluster API changes
// Machines without replacing them (docs/in-place-updates.md): which differences
// between two templates can be made on the VM that is there, and how far that is
// on one Machine.
//
// What is on the Node alone, MCMMachine.spec.nodeTemplate, is changed by the
// MCMMachine's controller, and only waited for here. Anything else is done by an
// agent on the node, if the Machine says that there is one, with the labels and
// the condition by which the native door asks it. Nothing is remembered between
// two calls: all that an answer depends on is on the Node and the MCMMachine, so
// any number of processes may answer.
package inplaceupdate
