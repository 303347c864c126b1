// Package gcp is the driver of Google Compute Engine, provider "GCP" of MCM.
//
// An instance has the machine's name, which is unique in its project and zone, and so keeps a VM
// from being made twice: no request carries an idempotency key, because a key would also repeat a
// refusal. Who the instance belongs to is in its labels from birth, and whose class in its network
// tags, where MCM looks for it. Compute Engine answers a request for an instance with an operation
// that goes on afterwards and may fail, e.g. for want of capacity: its name is the checkpoint, by which
// the next call of Create, of any process, finds out what became of it.
package gcp
