package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

const (
	first  = machinev1.LeaseMachineControllerManager
	second = machinev1.LeaseMachineController
)

func TestTwoOfUs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newStage(t), newClientset()
		ctxA, stopA := context.WithCancel(t.Context())
		ctxB, stopB := context.WithCancel(t.Context())
		defer stopB()
		s.contend(ctxA, "a", pair(c.CoordinationV1(), "a"), true, "b")
		time.Sleep(time.Second)
		s.contend(ctxB, "b", pair(c.CoordinationV1(), "b"), true, "a")
		time.Sleep(time.Minute)
		if !s.leads("a") || s.leads("b") {
			t.Fatalf("after a minute %v lead, want only a", s.leading)
		}
		if got := holders(t, c); got != [2]string{"a", "a"} {
			t.Fatalf("leases are held by %q, want both by a", got)
		}
		stopA()
		time.Sleep(5 * time.Second)
		if !s.leads("b") {
			t.Errorf("b does not lead 5s after a released the leases; held by %q", holders(t, c))
		}
	})
}

// TestSlowAPIServer: the leases of all APIs are kept where each request takes three seconds. One after the other they
// would take longer than the renew deadline.
func TestSlowAPIServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		leases := &slowLeases{LeasesGetter: newClientset().CoordinationV1()}
		lock := newLeaseLock(leases, "ns", "us", clock.RealClock{}, fence.New(clock.RealClock{}, 10*time.Second),
			"a", "b", "c", "d", "e")
		s.contend(t.Context(), "us", lock, false)
		time.Sleep(time.Second)
		leases.delay.Store(int64(3 * time.Second))
		time.Sleep(5 * time.Minute)
		if !s.leads("us") {
			t.Error("the leases were lost")
		}
	})
}

func TestLeaderDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newStage(t), newClientset()
		ctxA, killA := context.WithCancel(t.Context())
		s.contend(ctxA, "a", pair(c.CoordinationV1(), "a"), false, "b")
		time.Sleep(3 * time.Second)
		s.contend(t.Context(), "b", pair(c.CoordinationV1(), "b"), true)
		time.Sleep(time.Second)
		killA() // leaves both leases behind
		time.Sleep(10 * time.Second)
		if s.leads("b") {
			t.Fatal("b leads before a's leases have expired")
		}
		time.Sleep(15 * time.Second)
		if !s.leads("b") {
			t.Errorf("b does not lead although a's leases have expired; held by %q", holders(t, c))
		}
	})
}

func TestMCMHoldsBoth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newStage(t), newClientset()
		ctxMCM, stopMCM := context.WithCancel(t.Context())
		ctxMC, stopMC := context.WithCancel(t.Context())
		s.contend(ctxMCM, "mcm", single(c.CoordinationV1(), first, "host-mcm"), false)
		s.contend(ctxMC, "mc", single(c.CoordinationV1(), second, "host-mc"), false)
		time.Sleep(time.Second)
		s.contend(t.Context(), "us", pair(c.CoordinationV1(), "us"), true, "mcm", "mc")
		time.Sleep(time.Minute)
		stopMCM()
		time.Sleep(time.Minute)
		if s.leads("us") {
			t.Fatal("we lead while machine-controller still runs")
		}
		if got := holders(t, c); got != [2]string{"host-mcm", "host-mc"} {
			t.Fatalf("leases are held by %q: we took one while waiting for the other", got)
		}
		stopMC()
		// An elector looks every 2 to 4.4 s: it sees the last renewal up to 4.4 s late,
		// waits the lease's 15 s from then, and finds that at its next look.
		time.Sleep(25 * time.Second)
		if !s.leads("us") {
			t.Errorf("we do not lead although MCM is gone; held by %q", holders(t, c))
		}
	})
}

func TestMCMComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newStage(t), newClientset()
		ctx, stop := context.WithCancel(t.Context())
		s.contend(ctx, "us", pair(c.CoordinationV1(), "us"), true)
		time.Sleep(time.Second)
		s.contend(t.Context(), "mcm", single(c.CoordinationV1(), first, "host-mcm"), false, "us")
		s.contend(t.Context(), "mc", single(c.CoordinationV1(), second, "host-mc"), false, "us")
		time.Sleep(time.Minute)
		if s.leads("mcm") || s.leads("mc") {
			t.Fatal("MCM leads while we do")
		}
		stop()
		time.Sleep(5 * time.Second)
		if !s.leads("mcm") || !s.leads("mc") {
			t.Errorf("MCM does not lead after we released both leases; held by %q", holders(t, c))
		}
	})
}

// Several of us and several of MCM's processes start at once, again and again,
// with one of them dying each time: somebody always gets on.
func TestContentionSettles(t *testing.T) {
	t.Parallel()
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			s, c := newStage(t), newClientset()
			ours := []string{"us0", "us1", "us2"}
			stops := map[string]context.CancelFunc{}
			for i, name := range ours {
				ctx, stop := context.WithCancel(t.Context())
				stops[name] = stop
				others := append(append([]string{}, ours[:i]...), ours[i+1:]...)
				s.contend(ctx, name, pair(c.CoordinationV1(), name), true, append(others, "mcm", "mc")...)
			}
			ctx, stopMCM := context.WithCancel(t.Context())
			s.contend(ctx, "mcm", single(c.CoordinationV1(), first, "host-mcm"), false, ours...)
			s.contend(ctx, "mc", single(c.CoordinationV1(), second, "host-mc"), false, ours...)
			time.Sleep(time.Minute)
			if !s.leads("mcm") && !s.leads("mc") && len(s.leading) != 1 {
				t.Fatalf("round %d: %v lead after a minute, want exactly one of us, or MCM; leases %q", round, s.leading,
					holders(t, c))
			}
			stopMCM()
			time.Sleep(time.Minute)
			if len(s.leading) != 1 {
				t.Fatalf("round %d: %v lead after MCM is gone, want exactly one of us; leases %q", round, s.leading, holders(t, c))
			}
			for name, stop := range stops {
				if s.leads(name) {
					stop()
					delete(stops, name)
					break
				}
			}
			time.Sleep(time.Minute)
			if len(s.leading) != 1 {
				t.Errorf("round %d: %v lead after the leader stopped, want exactly one of us; leases %q", round, s.leading,
					holders(t, c))
			}
		})
	}
}

func TestSecondLeaseLost(t *testing.T) {
	t.Parallel()
	c := newClientset()
	stolen := false
	c.PrependReactor("create", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		lease := a.(clienttesting.CreateAction).GetObject().(*coordinationv1.Lease)
		if lease.Name != second || stolen {
			return false, nil, nil
		}
		stolen = true
		return true, nil, errors.New("somebody was faster")
	})
	us := pair(c.CoordinationV1(), "us")
	if _, _, err := us.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "us", LeaseDurationSeconds: 15}
	if err := us.Update(t.Context(), record); err == nil {
		t.Fatal("Update succeeded although the second lease was taken")
	}
	if got := holders(t, c)[0]; got != "" {
		t.Errorf("the first lease is held by %q after a failed attempt, want nobody", got)
	}
	if _, _, err := us.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := us.Update(t.Context(), record); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}

func TestExpiredFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		us := pair(newClientset().CoordinationV1(), "us")
		if got := us.expiredFor(time.Second); got != 0 {
			t.Errorf("expired for %s before it was ever held, want 0", got)
		}
		if _, _, err := us.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := us.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "us"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if got := us.expiredFor(15 * time.Second); got != 5*time.Second {
			t.Errorf("expired for %s after 20s of 15s, want 5s", got)
		}
		if err := us.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Fatal(err)
		}
		if got := us.expiredFor(0); got != 0 {
			t.Errorf("expired for %s after it was released, want 0", got)
		}
	})
}

// TestLeasesAreMarked: who looks at a lease can tell ours from MCM's, whose
// identities look alike, also when one has taken it from the other.
func TestLeasesAreMarked(t *testing.T) {
	t.Parallel()
	c := newClientset()
	marked := func(name string) bool {
		t.Helper()
		lease, err := c.CoordinationV1().Leases("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return lease.Labels[machinev1.LeaseHolderLabel] == machinev1.LeaseMark(*lease.Spec.HolderIdentity)
	}
	take := func(lock resourcelock.Interface, holder string) {
		t.Helper()
		record := resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15}
		if _, _, err := lock.Get(t.Context()); apierrors.IsNotFound(err) {
			err = lock.Create(t.Context(), record)
			if err != nil {
				t.Fatal(err)
			}
		} else if err := lock.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	take(single(c.CoordinationV1(), second, "host_mcm"), "host_mcm")
	if marked(second) {
		t.Error("MCM marks nothing")
	}
	take(pair(c.CoordinationV1(), "host_one"), "host_one")
	if !marked(first) || !marked(second) {
		t.Error("both leases are ours, the new one and the one that MCM made")
	}
	take(pair(c.CoordinationV1(), "host_two"), "host_two")
	if !marked(first) || !marked(second) {
		t.Error("the mark is the next one's of us")
	}
	take(single(c.CoordinationV1(), first, "host_mcm"), "host_mcm")
	if marked(first) || !marked(second) {
		t.Error("MCM has taken one of them")
	}
}

// TestLeasesOpenTheFence: nothing is sent before all leases are ours, when they
// could not be renewed for the renew deadline, or once they have been released.
func TestLeasesOpenTheFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		us := pair(newClientset().CoordinationV1(), "us")
		want := func(open bool, when string) {
			t.Helper()
			if err := us.fence.Check(); (err == nil) != open {
				t.Errorf("%s: %v, want open: %t", when, err, open)
			}
		}
		update := func(holder string) {
			t.Helper()
			if err := us.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder}); err != nil {
				t.Fatal(err)
			}
		}
		want(false, "before the election")
		if _, _, err := us.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		update("us")
		want(true, "as the leader")
		if left := us.fence.FormerLeader(); left != 0 {
			t.Errorf("a former leader is feared for %s although nobody held the leases", left)
		}
		time.Sleep(9 * time.Second)
		update("us")
		time.Sleep(9 * time.Second)
		want(true, "renewed 9s ago")
		time.Sleep(time.Second)
		want(false, "renewed 10s ago, of a lease of 15s")
		update("us")
		want(true, "renewed again")
		update("")
		want(false, "released")
	})
}
