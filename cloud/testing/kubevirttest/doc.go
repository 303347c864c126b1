// Package kubevirttest plays KubeVirt for tests.
//
// Objects are kept by a real API server, whose address and administrator the caller gives: names,
// conflicts, pages, permissions, and fields that do not exist are its own business. What is played are
// those who act on objects: virt-controller, CDI, the garbage collector, and the part of virt-api
// that is no object. They act when a test lets time pass, one namespace at a time.
//
// Transcribed from KubeVirt's and CDI's sources: which word printableStatus has for which volumes and
// instance, and their precedence; what each runStrategy does about an instance that has ended; that
// an instance waits for volumes that are imported, and is what one of WaitForFirstConsumer waits
// for; the conditions Failure, Synchronized, PodScheduled and Ready with their reasons; the
// interface that an instance without any gets; the refusal of a bridge in the network of pods; who
// may be started by hand, and the words of that refusal; that labels of a VM's template reach its
// next instance only. The words of a quota are those of the API server.
//
// Invented: that everything that does not wait for another happens within one Move; the numbers of
// addresses; the annotations by which tests hold a VM in a state; a reset that only counts boots.
// Backoff after failed starts, live migration, and the pods that bind volumes are not played.
package kubevirttest
