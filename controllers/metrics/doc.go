// Package metrics exposes the metrics of Machine Controller Manager (MCM) under
// MCM's names, and a few more; docs/metrics.md lists them.
//
// What describes objects is read from the cache when it is asked for, so that
// there is nothing left of a deleted object. A standby exposes no objects:
// otherwise sums over all processes would count them twice.
package metrics
