// Package apiserver models a Kubernetes API server in memory: resourceVersions
// and conflicts, finalizers, generations, status subresources, patches,
// preconditions, evictions and a log of changes that caches follow at their own
// pace. It starts no goroutines and tells the time it is given, so that a run
// can be repeated. A test compares it with a real API server.
package apiserver
