// Package cloudtest tries every rule of package cloud on a driver.
//
// A cloud ships a Harness and calls Run; the cases, from C01 on, are the
// same for every cloud, in this repository and outside of it. A rule that a
// cloud, or the server that stands for it, cannot keep is named in
// Harness.Lacks with the reason. A hook that is missing without such a reason
// fails the case: there are no silent holes.
//
// All calls of the driver pass through a Proxy, which loses, delays, breaks and
// replaces them. It serves as http.RoundTripper and as a listening reverse
// proxy, so that any SDK can be sent through it.
//
//	driver → SDK → Proxy → real service, simulator or fake
//
// Run holds the accounts of the driver to the rules of every call throughout:
// only *cloud.Error, no secrets in any text, arguments not touched, a prompt
// return. It imports the standard library only.
package cloudtest
