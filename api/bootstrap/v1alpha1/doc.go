// Package v1alpha1 has the bootstrap kinds for Cluster API, contract v1beta2.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.cluster.x-k8s.io
package v1alpha1
