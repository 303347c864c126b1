// Package autoscaler plays the upstream cluster-autoscaler, provider clusterapi,
// against one node group of either API: the reads and writes that its
// documentation and source name, and no others. Where a binary of it is at hand,
// it runs that, too.
package autoscaler
