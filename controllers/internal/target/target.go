// Package target is the cluster that the machines' nodes join.
package target

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a target cluster. A nil *Cluster means that there is none: then
// there are no nodes, no bootstrap tokens and no drains, and a machine is
// Available as soon as its VM exists.
type Cluster struct {
	// Client reads Nodes, Pods, PersistentVolumes, PersistentVolumeClaims,
	// PodDisruptionBudgets and VolumeAttachments from a cache, and writes.
	Client client.Client
	// Live reads from the API server. Secrets of kube-system are only read here:
	// the role has no watch on them.
	Live client.Reader
	// Cache is what Client reads from; controllers watch it. Nil where nothing
	// watches, in tests.
	Cache cache.Cache
}
