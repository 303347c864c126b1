package cloud

import (
	"testing"
	"time"
)

func TestRefusedCredentialsRest(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var r Refusals
	if r.Lately("a", now) {
		t.Error("nothing was refused yet")
	}
	r.Note("a", now)
	if last := now.Add(RefusalTime - 1); !r.Lately("a", last) || r.Lately("b", last) {
		t.Error("credentials that were refused are not tried, others are")
	}
	now = now.Add(RefusalTime)
	if r.Lately("a", now) {
		t.Error("they are tried again later")
	}
	r.Note("b", now)
	if len(r.until) != 1 {
		t.Errorf("%d fingerprints are remembered, want only what is not forgotten", len(r.until))
	}
}
