// Package capi runs the Cluster API provider end to end: real control planes, the
// real core manager and clusterctl of Cluster API, our manager with the permissions
// that its bundles ship, and the simulated cloud. It is a module of its own, so
// that Cluster API's test framework and its dependencies stay out of the product.
package capi
