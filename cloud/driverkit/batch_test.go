package driverkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// calls counts the calls of a Batcher and says what was asked for in each.
type calls struct {
	mu   sync.Mutex
	made [][]int
	took time.Duration
}

// answer returns the number of the call, from 1.
func (c *calls) answer(ctx context.Context, _ string, requests []int) (int, error) {
	c.mu.Lock()
	c.made = append(c.made, slices.Clone(requests))
	n := len(c.made)
	c.mu.Unlock()
	if c.took == 0 {
		return n, nil
	}
	select {
	case <-time.After(c.took):
		return n, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (c *calls) sizes() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []int
	for _, requests := range c.made {
		all = append(all, len(requests))
	}
	return all
}

func TestWindowGathersCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		b := driverkit.NewBatcher(driverkit.BatchOptions{
			Window: driverkit.Window{Idle: 100 * time.Millisecond, Longest: time.Second},
		}, c.answer)
		var wg sync.WaitGroup
		for i := range 30 { // one every 50 ms: the idle time alone would never end
			wg.Go(func() {
				if _, err := b.Do(t.Context(), "op", "k", i); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		wg.Wait()
		if sizes := c.sizes(); len(sizes) != 2 || sizes[0]+sizes[1] != 30 || sizes[0] < 20 {
			t.Errorf("calls of %v requests, want one after the longest time and one after the idle time", sizes)
		}
	})
}

func TestFullCallBeginsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		c := &calls{}
		b := driverkit.NewBatcher(driverkit.BatchOptions{
			Window: driverkit.Window{Idle: time.Hour, Longest: time.Hour}, Max: most,
		}, c.answer)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 3 * most {
			wg.Go(func() { _, _ = b.Do(t.Context(), "op", "k", i) })
		}
		wg.Wait()
		if sizes := c.sizes(); !slices.Equal(sizes, []int{most, most, most}) || time.Since(began) > 0 {
			t.Errorf("calls of %v requests after %s, want three full ones at once", sizes, time.Since(began))
		}
	})
}

func TestKeysAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := driverkit.NewBatcher(driverkit.BatchOptions{InTurn: true},
			func(ctx context.Context, key string, _ []int) (string, error) {
				if key == "slow" {
					<-ctx.Done()
				}
				return key, ctx.Err()
			})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.Do(ctx, "op", "slow", 1); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that gives up: got %v, want its context's error", err)
			}
		})
		synctest.Wait()
		if got, err := b.Do(t.Context(), "op", "quick", 1); err != nil || got != "quick" {
			t.Errorf("another key: got %q, %v", got, err)
		}
		cancel()
		wg.Wait()
	})
}

// TestDoBeginsAfterTheRequest: an answer that was under way before somebody
// asked is not his.
func TestDoBeginsAfterTheRequest(t *testing.T) {
	t.Parallel()
	for name, inTurn := range map[string]bool{"AtOnce": false, "InTurn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const many = 50
				c := &calls{took: time.Second}
				b := driverkit.NewBatcher(driverkit.BatchOptions{InTurn: inTurn}, c.answer)
				got := make([]int, many)
				var wg sync.WaitGroup
				for i := range many {
					if i == 1 {
						time.Sleep(time.Millisecond) // the first call is under way
					}
					wg.Go(func() { got[i], _ = b.Do(t.Context(), "op", "k", i) })
				}
				wg.Wait()
				if got[0] != 1 || slices.Contains(got[1:], 1) {
					t.Errorf("callers got the answers of calls %v, want the first alone to get that of call 1", got)
				}
				if inTurn && len(c.sizes()) != 2 {
					t.Errorf("%d calls, want 2: those who ask during a call share the next", len(c.sizes()))
				}
			})
		})
	}
}

func TestDoSinceSharesWhatIsFreshEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keep = 10 * time.Second
		c := &calls{took: time.Second}
		b := driverkit.NewBatcher(driverkit.BatchOptions{Keep: keep, InTurn: true}, c.answer)
		ask := func(after time.Time, want int, reason string) {
			t.Helper()
			if got, err := b.DoSince(t.Context(), "op", "k", 0, after); err != nil || got != want {
				t.Errorf("got the answer of call %d, %v, want %d: %s", got, err, want, reason)
			}
		}
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() { ask(time.Time{}, 1, "the first makes the call") })
		time.Sleep(time.Millisecond)
		wg.Go(func() { ask(time.Time{}, 1, "a call under way is shared") })
		wg.Go(func() { ask(began, 2, "a call that began at that moment may show what was before it") })
		wg.Wait()
		ask(began, 2, "the answer is kept")
		ask(time.Now(), 3, "an answer from before is too old")
		time.Sleep(keep)
		ask(time.Time{}, 4, "an answer is not kept for longer")
	})
}

func TestErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	n := 0
	b := driverkit.NewBatcher(driverkit.BatchOptions{Keep: time.Hour},
		func(context.Context, string, []int) (int, error) {
			if n++; n == 1 {
				return 0, cloud.Errorf(cloud.Throttled, "inner", "SlowDown", "no")
			}
			return n, nil
		})
	if _, err := b.DoSince(t.Context(), "op", "k", 0, time.Time{}); cloud.CodeOf(err) != cloud.Throttled {
		t.Errorf("got %v, want the error of the call", err)
	}
	if got, err := b.DoSince(t.Context(), "op", "k", 0, time.Time{}); err != nil || got != 2 {
		t.Errorf("got %d, %v, want a new call", got, err)
	}
}

// TestCallKnowsTheFreshness: a decorator below must not answer from its memory.
func TestCallKnowsTheFreshness(t *testing.T) {
	t.Parallel()
	b := driverkit.NewBatcher(driverkit.BatchOptions{},
		func(ctx context.Context, _ string, _ []int) (time.Time, error) { return cloud.Freshness(ctx), nil })
	asOf := time.Now()
	if got, err := b.DoSince(t.Context(), "op", "k", 0, asOf); err != nil || !got.Equal(asOf) {
		t.Errorf("the call was made as of %v, %v, want %v", got, err, asOf)
	}
}

func TestCallEndsWithItsLastCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		b := driverkit.NewBatcher(driverkit.BatchOptions{InTurn: true, Keep: time.Hour},
			func(ctx context.Context, _ string, _ []int) (int, error) {
				<-ctx.Done()
				ended++
				return 0, ctx.Err()
			})
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		go func() { _, _ = b.DoSince(first, "op", "k", 1, time.Time{}) }()
		synctest.Wait()
		go func() { _, _ = b.DoSince(second, "op", "k", 2, time.Time{}) }()
		synctest.Wait()
		leaveFirst()
		synctest.Wait()
		if ended != 0 {
			t.Error("the call ended with its first caller, and the second one waits")
		}
		leaveSecond()
		synctest.Wait()
		if ended != 1 {
			t.Error("the call goes on although nobody waits for it")
		}
	})
}

// TestNobodyLeftNoCall: a call is dropped when its last caller has gone.
func TestNobodyLeftNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		b := driverkit.NewBatcher(driverkit.BatchOptions{
			Window: driverkit.Window{Idle: time.Second, Longest: time.Second},
		}, c.answer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := b.Do(ctx, "op", "k", 1)
		if cloud.CodeOf(err) != cloud.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want Unavailable and the context's error", err)
		}
		if _, err := b.Do(ctx, "op", "k", 1); cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("with a context that has ended: got %v, want Unavailable", err)
		}
		time.Sleep(time.Minute)
		if sizes := c.sizes(); len(sizes) != 0 {
			t.Errorf("calls of %v requests, want none", sizes)
		}
	})
}

func TestTimeoutEndsACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{took: time.Hour}
		b := driverkit.NewBatcher(driverkit.BatchOptions{Timeout: time.Minute}, c.answer)
		began := time.Now()
		if _, err := b.Do(t.Context(), "op", "k", 1); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Minute {
			t.Errorf("got %v after %s, want the end of the call after a minute", err, time.Since(began))
		}
	})
}

// TestPanicReachesTheCallers: the panic of a call is one of its callers, where
// somebody recovers from it, and the next call works.
func TestPanicReachesTheCallers(t *testing.T) {
	t.Parallel()
	n := 0
	b := driverkit.NewBatcher(driverkit.BatchOptions{InTurn: true, Keep: time.Hour},
		func(context.Context, string, []int) (int, error) {
			if n++; n == 1 {
				panic("a defect")
			}
			return n, nil
		})
	func() {
		defer func() {
			if p := fmt.Sprint(recover()); !strings.Contains(p, "a defect") || !strings.Contains(p, "batch_test.go") {
				t.Errorf("got %s, want the panic, and where it was", p)
			}
		}()
		_, _ = b.Do(t.Context(), "op", "k", 1)
	}()
	if got, err := b.DoSince(t.Context(), "op", "k", 1, time.Time{}); err != nil || got != 2 {
		t.Errorf("after a panic: got %d, %v, want a new call", got, err)
	}
}
