package naming

import (
	"encoding/hex"
	"testing"
)

// The IDs are what other processes derive too, in other versions: they do not change.
func TestTraceIDsAreFixed(t *testing.T) {
	t.Parallel()
	trace, span := TraceID("owner"), SpanID("owner", "make")
	if got := hex.EncodeToString(trace[:]); got != "1d5178fd7253b2315462706a9d419c11" {
		t.Errorf("trace %s", got)
	}
	if got := hex.EncodeToString(span[:]); got != "dc2cc6915b011fa4" {
		t.Errorf("span %s", got)
	}
}

// Two machines have two traces, and the phases of one machine have spans of their own.
func TestTraceIDsDiffer(t *testing.T) {
	t.Parallel()
	if TraceID("a") == TraceID("b") {
		t.Error("two machines share a trace")
	}
	seen := map[[8]byte]bool{}
	for _, owner := range []string{"a", "b"} {
		for _, phase := range []string{"make", "boot", "join"} {
			seen[SpanID(owner, phase)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d spans, want 6", len(seen))
	}
}
