// Package v1alpha1 has the control plane kinds for Cluster API, contract v1beta2.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1alpha1
