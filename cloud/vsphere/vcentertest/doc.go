// Package vcentertest is govmomi's simulator of a vCenter, made ready for tests:
// with a user, a folder and a template, and kept from what the simulator does
// wrong when a VM goes while it is being cloned.
//
// It is a real server that speaks the vSphere API over TLS, with tags and content
// libraries (vapi) and storage policies (pbm) as a vCenter has them. What a vCenter
// refuses and the simulator accepts is refused in front of it.
package vcentertest
