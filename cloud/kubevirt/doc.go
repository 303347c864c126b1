// Package kubevirt is the driver of KubeVirt: VMs that are objects of a Kubernetes API server.
//
// The driver speaks to that API server over HTTP with structs of its own. The name of an object is
// what keeps a machine from getting two VMs: the API server makes no second one of the same name.
// A VM boots from a Secret that is made before it and removed after it.
package kubevirt
