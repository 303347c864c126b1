// Package tracing exports traces to OpenTelemetry: one of each machine's life, with a span of each
// phase and of each call to the cloud.
//
// The IDs of a machine's trace, and of the spans of its phases, follow from its owner ID (package
// naming). So processes need to tell each other nothing: the calls that one leader makes and the phases that
// the next one sees end are spans of one trace. Phases are exported when they are over, from
// what is on record then (package explain). A new leader exports what ended shortly before it began once
// more: with the same IDs it is the same span.
//
// Nothing here decides anything or writes to an API server, but for an annotation on Events. Where
// traces are not wanted nothing of it runs.
package tracing
