// Package kubevirttest plays KubeVirt for tests.
//
// Objects are kept by a real API server, whose address and administrator the caller gives: names,
// conflicts, pages, permissions, and fields that do not exist are its own business. What is played are
// those who act on objects: virt-controller, CDI, the garbage collector, and the part of virt-api
// that is no object. They act when a test lets time pass, one namespace at a time.
package kubevirttest
