package capi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

const (
	small      = 2 // machines of a pool
	namespaces = 4 // that the pools are spread over
	atOnce     = 8 // commands
)

// TestMigrationFaults kills the command after each of its writes, on the real API
// server with the real controllers of both APIs, and goes on in either direction;
// the manager and the API server are killed in the middle. Each pool is once
// forward and once back, and no VM, Node or pod has noticed. Afterwards machines
// fail and people scale in the middle. TestKilledAfterEachWrite of package
// migration does so with each pair of controllers and each write of each command.
func TestMigrationFaults(t *testing.T) {
	turn := queue.add(6)
	t.Parallel()
	turn.await(t)
	a := require(t)
	f := &faults{}
	// CI keeps the end of a failed test's output, and the logs of all servers come before it.
	t.Cleanup(func() {
		for _, failure := range f.failures {
			t.Log(failure)
		}
	})
	f.bothAPIs = newBothAPIs(t, a)
	manager := f.startBoth(t)
	for i := range namespaces {
		f.namespace(t, f.space(i))
		f.class(t, f.space(i), "small", "small")
	}
	writes := f.discover(t)
	stories := f.stories(t, writes)
	w := f.watch(t)
	f.tellAll(t, "killed on the way there", stories, (*story).first)
	f.disturb(t, stories, manager)
	w.ends(t, fmt.Sprintf("%d killed commands", f.kills.Load()))
	t.Run("troubles", func(t *testing.T) { f.troubles(t, writes) })
}

// faults is where they happen.
type faults struct {
	*bothAPIs
	kills    atomic.Int32 // commands that were killed
	failures []string
}

func (f *faults) space(i int) string { return fmt.Sprintf("faults-%d", i%namespaces) }

// discover returns how many writes each command makes without faults.
func (f *faults) discover(t *testing.T) map[string]int {
	t.Helper()
	h := f.movingPool(t, f.space(0), "probe", "small", small, bounded)
	h.until(t, "the first pool works", h.onNative(small, true))
	writes := map[string]int{}
	for _, step := range []struct {
		name string
		leg  leg
	}{{"there", toClusterAPI}, {"finish", finishMove}, {"back", toNative}, {"finish", finishMove}, {
		"there",
		toClusterAPI,
	}, {"rollback", rollBack}} {
		begin := time.Now()
		r, err := h.run(t.Context(), step.leg, h.options(), -1)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		writes[step.name] = max(writes[step.name], len(r.writes))
		t.Logf("%s makes %d writes in %.1f s: %v", step.name, len(r.writes), time.Since(begin).Seconds(), r.writes)
	}
	return writes
}

// A story is what happens to one pool.
type story struct {
	*faults
	h      *movingPool
	number int
	kill   int // after which write the first command is killed; 0: after each
	writes map[string]int
}

// stories makes a pool for each write of the way there, and one whose commands all
// die after each of their writes. With MIGRATION_KILL_STEP=n a pool is made for one
// of n writes, from a random one.
func (f *faults) stories(t *testing.T, writes map[string]int) []*story {
	t.Helper()
	var all []*story
	add := func(name string, number, kill int) {
		h := f.movingPool(t, f.space(number), name, "small", small, bounded)
		all = append(all, &story{f, h, number, kill, writes})
	}
	add("each", 0, 0) // it takes longest
	step, _ := strconv.Atoi(os.Getenv("MIGRATION_KILL_STEP"))
	step = max(step, 1)
	first := 1 + rand.IntN(step) // #nosec G404 -- no secret
	t.Logf("pools are made for one of %d writes, from %d", step, first+1)
	// The first write is the Lease: without the second one, the record, no move has begun.
	for number := first; number < writes["there"]; number += step {
		add(fmt.Sprintf("k%02d", number+1), number, number+1)
	}
	for _, s := range all {
		s.h.until(t, s.h.Name+" works", s.h.onNative(small, true))
	}
	return all
}

// tellAll goes on with all stories, some at a time.
func (f *faults) tellAll(t *testing.T, what string, stories []*story, chapter func(*story, context.Context) error) {
	t.Helper()
	begin := time.Now()
	f.each(t, stories, chapter, func(int) {})
	t.Logf("%s: %d pools, %d kills so far, %.1f s", what, len(stories), f.kills.Load(), time.Since(begin).Seconds())
}

// each goes on with all stories, and tells done how many have come to an end.
func (f *faults) each(t *testing.T, stories []*story, chapter func(*story, context.Context) error, done func(int)) {
	t.Helper()
	places := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	var mu sync.Mutex
	ended := 0
	for _, s := range stories {
		places <- struct{}{}
		group.Go(func() {
			err := chapter(s, t.Context())
			<-places
			mu.Lock()
			defer mu.Unlock()
			ended++
			done(ended)
			if err != nil {
				failure := fmt.Sprintf("%s, killed after write %d: %v\n%s", s.h.Pool, s.kill, err,
					s.h.tell(context.WithoutCancel(t.Context())))
				f.failures = append(f.failures, failure)
				t.Error(failure)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// disturb tells the second chapters. In the middle the manager is killed and
// started again, and then the API server.
func (f *faults) disturb(t *testing.T, stories []*story, manager *process.Process) {
	t.Helper()
	begin := time.Now()
	third, twoThirds := make(chan struct{}), make(chan struct{})
	var disturber sync.WaitGroup
	disturber.Go(func() {
		<-third
		if err := manager.Kill(); err != nil {
			t.Error(err)
		}
		f.startBoth(t)
		t.Log("the manager was killed and runs again")
		<-twoThirds
		if err := f.Cluster.RestartAPIServer(t.Context()); err != nil {
			t.Error(err)
		}
		t.Log("the API server was killed and runs again")
	})
	f.each(t, stories, (*story).second, func(ended int) {
		switch ended {
		case len(stories) / 3:
			close(third)
		case len(stories) * 2 / 3:
			close(twoThirds)
		}
	})
	disturber.Wait()
	t.Logf("the other way, while manager and API server are killed: %d pools, %d kills so far, %.1f s", len(stories),
		f.kills.Load(), time.Since(begin).Seconds())
}

func (h *movingPool) options() migration.Options {
	return migration.Options{Cluster: fleetCluster, Timeout: wait}
}

// killed runs a command that is killed after so many writes, unless it makes fewer.
func (s *story) killed(ctx context.Context, l leg, after int) error {
	_, err := s.h.run(ctx, l, s.h.options(), after)
	if errors.Is(err, errKilled) {
		s.kills.Add(1)
		return nil
	}
	return err
}

// through runs a command that is killed once, and again to its end.
func (s *story) through(ctx context.Context, l leg, after int) error {
	if err := s.killed(ctx, l, after); err != nil && !isAway(err) {
		return err
	}
	return s.h.insist(ctx, l, s.h.options())
}

// stutter runs a command again and again, each of which is killed after its fourth
// write; up to three, of Lease and record, are that it is there.
func (s *story) stutter(ctx context.Context, l leg) error {
	const most = 200
	for range most {
		before := s.kills.Load()
		if err := s.killed(ctx, l, 4); err != nil && !isAway(err) {
			return err
		}
		if s.kills.Load() == before {
			return s.h.insist(ctx, l, s.h.options())
		}
	}
	return errors.New("it comes to no end")
}

// some is a write of a command of that name, another one for each story.
func (s *story) some(name string) int { return 1 + (s.number*7)%max(s.writes[name], 1) }

// first is the way to Cluster API, with a kill; half of the pools are rolled back
// from there.
func (s *story) first(ctx context.Context) error {
	switch {
	case s.kill == 0:
		if err := s.stutter(ctx, toClusterAPI); err != nil {
			return err
		}
		return eventually(ctx, s.h.onClusterAPI(small, false))
	case s.home():
		if err := s.killed(ctx, toClusterAPI, s.kill); err != nil && !isAway(err) {
			return err
		}
		if err := s.h.insist(ctx, rollBack, s.h.options()); err != nil {
			return err
		}
		return eventually(ctx, s.h.onNative(small, true))
	}
	if err := s.through(ctx, toClusterAPI, s.kill); err != nil {
		return err
	}
	return eventually(ctx, s.h.onClusterAPI(small, false))
}

// home reports whether the first command is rolled back.
func (s *story) home() bool { return s.number%2 == 1 }

// second is the other way.
func (s *story) second(ctx context.Context) error {
	switch {
	case s.kill == 0:
		return s.secondStutter(ctx)
	case s.home():
		if err := s.through(ctx, toClusterAPI, s.some("there")); err != nil {
			return err
		}
		return eventually(ctx, s.h.onClusterAPI(small, false))
	case s.number%4 == 0:
		if err := s.through(ctx, rollBack, s.some("rollback")); err != nil {
			return err
		}
	default:
		for _, step := range []struct {
			name string
			leg  leg
		}{{"finish", finishMove}, {"back", toNative}, {"finish", finishMove}} {
			if err := s.through(ctx, step.leg, s.some(step.name)); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
	}
	return eventually(ctx, s.h.onNative(small, true))
}

// secondStutter is all the other commands.
func (s *story) secondStutter(ctx context.Context) error {
	for _, l := range []leg{finishMove, toNative, finishMove} {
		if err := s.stutter(ctx, l); err != nil {
			return err
		}
	}
	if err := eventually(ctx, s.h.onNative(small, true)); err != nil {
		return err
	}
	for _, l := range []leg{toClusterAPI, rollBack} {
		if err := s.stutter(ctx, l); err != nil {
			return err
		}
	}
	return eventually(ctx, s.h.onNative(small, true))
}
