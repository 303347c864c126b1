// Package tracing tests the traces of the manager against the receiver of the OpenTelemetry
// Collector: what is exported is what a collector reads.
package tracing
