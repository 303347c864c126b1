package capi

import (
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// testsAtOnce is how many tests of this package run at once on two processors, unless -parallel says otherwise. Three
// keep both busy to nine tenths and more.
const testsAtOnce = 3

// queue starts the tests of this package, those that take longest first. go test starts them in any order, and may
// leave one that takes ten minutes for the end, when nothing runs beside it.
var queue turns

// turns are the tests that wait to run.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []turn
}

// turn is one test: about how long it takes, and what is closed when it may begin.
type turn struct {
	of      *turns
	minutes int
	begin   chan struct{}
}

// prepare takes over from go test how many tests run at once: go test starts all of them, and they wait in the queue.
func (q *turns) prepare() error {
	flag.Parse()
	q.free = testsAtOnce
	flag.Visit(func(f *flag.Flag) {
		if n, err := strconv.Atoi(f.Value.String()); err == nil && f.Name == "test.parallel" {
			q.free = n
		}
	})
	// flag.Set would make the flag look like the user's, which Ginkgo refuses.
	return flag.Lookup("test.parallel").Value.Set("100")
}

// add puts a test into the queue that takes about so many minutes. A test calls it before t.Parallel, which returns
// once every test of the run has been added.
func (q *turns) add(minutes int) turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := turn{q, minutes, make(chan struct{})}
	q.waiting = append(q.waiting, own)
	slices.SortStableFunc(q.waiting, func(a, b turn) int { return b.minutes - a.minutes })
	return own
}

// await returns when t may begin, and has the next one begin when t ends.
func (own turn) await(t *testing.T) {
	t.Helper()
	own.of.start(0)
	<-own.begin
	t.Cleanup(func() { own.of.start(1) }) // the first cleanup is the last to run
}

// start lets tests begin while there is room, when so many have ended.
func (q *turns) start(ended int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.free += ended; q.free > 0 && len(q.waiting) > 0; q.free-- {
		close(q.waiting[0].begin)
		q.waiting = q.waiting[1:]
	}
}

// TestTurns: a test that takes long and begins last would run alone at the end.
func TestTurns(t *testing.T) {
	t.Parallel()
	q := turns{free: 2}
	var all []turn
	for _, minutes := range []int{1, 3, 2, 4} {
		all = append(all, q.add(minutes))
	}
	begun := func() (minutes []int) {
		for _, own := range all {
			select {
			case <-own.begin:
				minutes = append(minutes, own.minutes)
			default:
			}
		}
		return minutes
	}
	for _, step := range []struct {
		ended int
		want  []int
	}{{0, []int{3, 4}}, {0, []int{3, 4}}, {1, []int{3, 2, 4}}, {2, []int{1, 3, 2, 4}}} {
		if q.start(step.ended); !slices.Equal(begun(), step.want) {
			t.Fatalf("when %d have ended, those of %v minutes have begun, want %v", step.ended, begun(), step.want)
		}
	}
}
