package naming

import "crypto/sha256"

// TraceID returns the ID of the trace of a machine's life, as OpenTelemetry has it. It
// follows from the durable owner ID of the machine alone, so that every process finds the same
// one, without an API server to ask.
func TraceID(ownerID string) [16]byte {
	sum := sha256.Sum256([]byte("trace/" + ownerID))
	return [16]byte(sum[:16])
}

// SpanID returns the ID of the span of a phase in the trace of a machine's life. A span that is
// exported again, by a new leader that cannot know better, is the same one again.
func SpanID(ownerID, phase string) [8]byte {
	sum := sha256.Sum256([]byte("span/" + phase + "/" + ownerID))
	return [8]byte(sum[:8])
}
