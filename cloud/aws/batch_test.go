package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

func TestBatchPanicsWhereItIsCalled(t *testing.T) {
	t.Parallel()
	b := newBatcher(Window{Idle: time.Millisecond, Longest: time.Millisecond},
		func(context.Context, string, []int) (map[int]int, error) {
			panic("a defect")
		})
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "a defect") {
			t.Errorf("got %s, want the panic in the caller, where it is caught", p)
		}
	}()
	_, _ = b.do(t.Context(), "op", "key", 1)
}

func TestBatchSharesByKeyAndSplitsBySize(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sizes []int
	b := newBatcher(Window{Idle: 50 * time.Millisecond, Longest: time.Second},
		func(_ context.Context, key string, items []int) (map[int]string, error) {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(items))
			out := map[int]string{}
			for _, i := range items {
				out[i] = fmt.Sprint(key, i)
			}
			return out, nil
		})
	const more = 10
	var wg sync.WaitGroup
	for i := range batchMax + more {
		for range 2 { // the same item twice is asked for once
			wg.Go(func() {
				if got, err := b.do(t.Context(), "op", "a", i); err != nil || got != fmt.Sprint("a", i) {
					t.Errorf("item %d: got %q, %v", i, got, err)
				}
			})
		}
	}
	wg.Go(func() { _, _ = b.do(t.Context(), "op", "b", 1) })
	wg.Wait()
	slices.Sort(sizes)
	if len(sizes) < 3 || slices.Max(sizes) > batchMax || len(sizes) > 8 {
		t.Errorf("sizes of calls %v, want a few, by key, of at most %d", sizes, batchMax)
	}
	if len(b.open) != 0 {
		t.Errorf("%d batches stay open", len(b.open))
	}
}

func TestBatchErrorIsEachCallersOwn(t *testing.T) {
	t.Parallel()
	b := newBatcher(Window{Idle: 20 * time.Millisecond, Longest: time.Second},
		func(context.Context, string, []int) (map[int]int, error) {
			return nil, cloud.Errorf(cloud.Throttled, "inner", "RequestLimitExceeded", "no")
		})
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = b.do(t.Context(), fmt.Sprint("op ", i), "key", i) })
	}
	wg.Wait()
	for i, err := range errs {
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Code != cloud.Throttled || e.Op != fmt.Sprint("op ", i) {
			t.Errorf("caller %d: got %v, want the error under its own operation", i, err)
		}
	}
}

// TestLateCallersJoin: whoever asks for the same while a call is under way gets
// its answer, and does not make another.
func TestLateCallersJoin(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	calls := 0 // calls of one key never overlap
	b := newBatcher(Window{}, func(context.Context, string, []struct{}) (map[struct{}]string, error) {
		calls++
		close(begun)
		<-release
		return map[struct{}]string{{}: "answer"}, nil
	})
	b.late = true
	var wg sync.WaitGroup
	ask := func() {
		if got, err := b.do(t.Context(), "op", "key", struct{}{}); err != nil || got != "answer" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	wg.Go(ask)
	<-begun
	late := make(chan struct{})
	wg.Go(func() {
		close(late)
		ask()
	})
	<-late
	for joined := false; !joined; {
		b.mu.Lock()
		joined = b.open["key"] != nil && b.open["key"].waiting == 2
		b.mu.Unlock()
	}
	close(release)
	wg.Wait()
	if calls != 1 || len(b.open) != 0 {
		t.Errorf("%d calls, %d still open, want one and none", calls, len(b.open))
	}
}
