// Package sim is a cloud with memory, time and faults, its HTTP API, and the
// driver that speaks to it.
//
// Cloud is the cloud itself. It starts no goroutines and never waits: how far a
// VM is follows from the injected clock, so it runs under virtual time too.
// Handler serves a Cloud over HTTP, and Driver is the cloud.Driver that calls
// that API, over a network or in process. What the API looks like is written
// down in docs/clouds/sim.md.
package sim
