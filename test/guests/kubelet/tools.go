//go:build tools

// Package tools names the programs of Kubernetes that a guest runs, so that go mod
// keeps what they need.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
