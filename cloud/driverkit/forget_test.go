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
	})
}
