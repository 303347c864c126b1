// Package metrics exposes the metrics of Machine Controller Manager (MCM) under
// MCM's names, and a few more; docs/monitoring.md lists them.
//
// Metrics about objects are read from the cache during a scrape, so that a deleted object
// leaves none. A standby exposes no metrics about objects: otherwise sums over all
// processes would count them twice.
package metrics
