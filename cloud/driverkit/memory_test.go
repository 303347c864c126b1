package driverkit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

func TestCacheLoadsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		c := driverkit.NewCache[string, int](driverkit.CacheOptions{Keep: time.Minute})
		load := func(ctx context.Context) (int, error) {
			time.Sleep(time.Second)
			loads++
			return loads, ctx.Err()
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got, err := c.Get(t.Context(), "op", "k", load); got != 1 || err != nil {
					t.Errorf("got %d, %v", got, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		if got, err := c.Get(t.Context(), "op", "k", load); got != 2 || err != nil {
			t.Errorf("after a minute: got %d, %v, want another load", got, err)
		}
		c.Forget("k")
		if _, known := c.Known("k"); known {
			t.Error("it is known although it was forgotten")
		}
	})
}

func TestCacheKeepsNoErrors(t *testing.T) {
	t.Parallel()
	c := driverkit.NewCache[string, int](driverkit.CacheOptions{})
	failing := func(context.Context) (int, error) {
		return 0, cloud.Errorf(cloud.Throttled, "inner", "Slow", "slow down")
	}
	if _, err := c.Get(t.Context(), "mine", "k", failing); err == nil || err.Error() != "mine: slow down" {
		t.Errorf("got %v, want the error with the caller's operation", err)
	}
	seven := func(context.Context) (int, error) { return 7, nil }
	if got, err := c.Get(t.Context(), "mine", "k", seven); got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := driverkit.NewCache[int, int](driverkit.CacheOptions{
		Max: 3, Keep: time.Minute, Now: func() time.Time { return now },
	})
	known := func() (n int) {
		for i := range 10 {
			if _, ok := c.Known(i); ok {
				n++
			}
		}
		return n
	}
	c.Put(0, 0)
	now = now.Add(time.Minute)
	c.Put(1, 1)
	c.Put(2, 2)
	c.Put(2, 3)
	c.Put(3, 3)
	if got := known(); got != 3 {
		t.Errorf("%d values are known, want the old one to make room", got)
	}
	c.Put(4, 4)
	if got := known(); got != 1 {
		t.Errorf("%d values are known, want the newest alone", got)
	}
	c.Clear()
	if got := known(); got != 0 {
		t.Errorf("%d values are known after Clear", got)
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turns driverkit.Turns
		done, err := turns.Take(t.Context(), "op", "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := turns.Take(t.Context(), "op", "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.Take(impatient, "op", "a"); cloud.CodeOf(err) != cloud.Unavailable ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want Unavailable and the context's error", err)
		}
		began := time.Now()
		go func() { time.Sleep(time.Minute); done() }()
		next, err := turns.Take(t.Context(), "op", "a")
		if err != nil || time.Since(began) != time.Minute {
			t.Errorf("got the turn after %v, %v, want it after that of the other", time.Since(began), err)
		}
		next()
	})
}
