package driverkit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingIsLeft: keys without callers are forgotten.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBatcher(BatchOptions{Keep: time.Minute}, func(context.Context, int, []int) (int, error) { return 0, nil })
		for key := range 10 {
			_, _ = b.DoSince(t.Context(), "op", key, 0, time.Time{})
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = b.Do(gone, "op", 100, 0)
		time.Sleep(time.Hour)
		_, _ = b.DoSince(t.Context(), "op", 200, 0, time.Time{})
		synctest.Wait()
		if len(b.queues) != 1 {
			t.Errorf("%d keys are known, want the last alone", len(b.queues))
		}
		var turns Turns
		for _, key := range []string{"a", "b", "a"} {
			done, err := turns.Take(t.Context(), "op", key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := turns.Take(gone, "op", key); err == nil {
				t.Error("a turn was given to a caller who is gone, during that of another")
			}
			done()
		}
		if len(turns.lines) != 0 {
			t.Errorf("%d keys have a line without callers", len(turns.lines))
		}
	})
}
