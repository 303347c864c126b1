// Package vcentertest is govmomi's simulator of a vCenter, made ready for tests:
// with a user, a folder and a template, and kept from what the simulator does
// wrong when a VM goes while it is being cloned.
//
// It is a real server that speaks the vSphere API over TLS, with tags and content
// libraries (vapi) and storage policies (pbm) as a vCenter has them. What a vCenter
// refuses and the simulator accepts is refused in front of it.
//
// The types of requests, answers and faults are those of govmomi, which are made from VMware's own description of
// the API; what the simulator does with them is the work of govmomi's authors. Of what is refused in front of it,
// rules for names, pools, hosts, datastores, snapshots, networks and extra configuration follow the faults that the
// description gives for a method; drsOff has vCenter's text. That cloud-init prefers vApp properties is a report of
// users (kubernetes-sigs/cluster-api-provider-vsphere issue 1746), and nothing here boots a guest.
//
// Invented are: the moments at which FailTask and Delay let tasks fail and end, which fault a name gets that a folder
// or left-over files have (FailTask plays DuplicateName and FileAlreadyExists), and that PlaceVm recommends without
// regard to networks.
package vcentertest
