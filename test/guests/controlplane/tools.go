//go:build tools

// Package tools names the programs of Kubernetes that a control plane on guests runs beside
// those of test/controlplane, so that go mod keeps what they need.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
