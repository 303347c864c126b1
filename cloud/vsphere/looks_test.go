package vsphere

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// TestLooksAreShared lets many ask while a look is under way: they share one,
// which begins after they asked.
func TestLooksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		n, under := 0, make(chan struct{})
		l := newLooks(func(context.Context, *spec) ([]*seen, error) {
			n++
			vms := []*seen{{name: fmt.Sprintf("look %d", n)}}
			<-under
			return vms, nil
		})
		names := make([]string, many)
		var wg sync.WaitGroup
		for i := range names {
			if i == 1 {
				synctest.Wait() // the first look is under way
			}
			wg.Go(func() {
				vms, err := l.into(t.Context(), &spec{})
				if err != nil {
					t.Error(err)
					return
				}
				names[i] = vms[0].name
			})
		}
		synctest.Wait()
		close(under)
		wg.Wait()
		if n != 2 || names[0] != "look 1" {
			t.Errorf("%d ask, the first before all others: got %d looks, the first sees %q, want 2 looks", many, n, names[0])
		}
		for i, name := range names[1:] {
			if name != "look 2" {
				t.Errorf("caller %d asked during look 1 and is shown %q", i+2, name)
			}
		}
	})
}

// TestLookFoldersApart: folders do not wait for each other.
func TestLookFoldersApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLooks(func(ctx context.Context, s *spec) ([]*seen, error) {
			if s.Folder == "slow" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.into(ctx, &spec{Folder: "slow"}); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that gives up: got %v, want context.Canceled", err)
			}
		})
		synctest.Wait()
		if _, err := l.into(t.Context(), &spec{Folder: "quick"}); err != nil {
			t.Errorf("another folder: %v", err)
		}
		cancel() // the last caller has gone: the look ends, and nothing is left of it
		wg.Wait()
		synctest.Wait()
		if len(l.busy) != 0 || len(l.next) != 0 {
			t.Errorf("after all: %d folders are looked into, %d looks wait, want none", len(l.busy), len(l.next))
		}
	})
}

// TestLookThatPanics: who asked panics, where it is seen to, and the next look
// works.
func TestLookThatPanics(t *testing.T) {
	t.Parallel()
	n := 0
	l := newLooks(func(context.Context, *spec) ([]*seen, error) {
		if n++; n == 1 {
			panic("boom")
		}
		return nil, nil
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nobody hears of the panic")
			}
		}()
		_, _ = l.into(t.Context(), &spec{})
	}()
	if _, err := l.into(t.Context(), &spec{}); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}
