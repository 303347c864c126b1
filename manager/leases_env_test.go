package manager

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// stage counts who leads at the same time.
type stage struct {
	t       *testing.T
	mu      sync.Mutex
	leading map[string]bool
	history []string
}

func (s *stage) enter(name string, excludes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range excludes {
		if s.leading[other] {
			s.t.Errorf("%s started to lead while %s leads", name, other)
		}
	}
	s.leading[name] = true
	s.history = append(s.history, name)
}

func (s *stage) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leading, name)
}

func (s *stage) leads(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leading[name]
}

// contend runs an elector until ctx ends or the lock is lost.
func (s *stage) contend(ctx context.Context, name string, lock resourcelock.Interface, release bool,
	excludes ...string,
) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { s.enter(name, excludes...) },
			OnStoppedLeading: func() { s.leave(name) },
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	go elector.Run(ctx)
}

// single is the lock of one of MCM's processes.
func single(leases coordinationv1client.LeasesGetter, lease, identity string) resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: lease}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

func pair(leases coordinationv1client.LeasesGetter, identity string) *leaseLock {
	return newLeaseLock(leases, "ns", identity, clock.RealClock{},
		fence.New(clock.RealClock{}, 10*time.Second), first, second)
}

func holders(t *testing.T, c *fake.Clientset) [2]string {
	t.Helper()
	var found [2]string
	for i, name := range []string{first, second} {
		lease, err := c.CoordinationV1().Leases("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			found[i] = "-"
			continue
		}
		found[i] = *lease.Spec.HolderIdentity
	}
	return found
}

// newClientset is a fake API server that refuses to update a lease which has
// changed since it was read, as a real one does.
func newClientset() *fake.Clientset {
	c := fake.NewClientset()
	var mu sync.Mutex
	version := 0
	stamp := func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		lease := a.(clienttesting.CreateAction).GetObject().(*coordinationv1.Lease)
		if a.GetVerb() == "update" {
			found, err := c.Tracker().Get(a.GetResource(), lease.Namespace, lease.Name)
			if err != nil {
				return true, nil, err
			}
			if found.(*coordinationv1.Lease).ResourceVersion != lease.ResourceVersion {
				return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), lease.Name, errors.New("changed"))
			}
		}
		version++
		lease = lease.DeepCopy()
		lease.ResourceVersion = strconv.Itoa(version)
		if a.GetVerb() == "update" {
			return true, lease, c.Tracker().Update(a.GetResource(), lease, lease.Namespace)
		}
		return true, lease, c.Tracker().Create(a.GetResource(), lease, lease.Namespace)
	}
	c.PrependReactor("create", "leases", stamp)
	c.PrependReactor("update", "leases", stamp)
	return c
}

// slowLeases are those of an API server that takes so many nanoseconds for each request.
type slowLeases struct {
	coordinationv1client.LeasesGetter
	delay atomic.Int64
}

func (s *slowLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return slowLease{s.LeasesGetter.Leases(namespace), s}
}

type slowLease struct {
	coordinationv1client.LeaseInterface
	of *slowLeases
}

func (s slowLease) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	time.Sleep(time.Duration(s.of.delay.Load()))
	return s.LeaseInterface.Get(ctx, name, o)
}

func (s slowLease) Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease,
	error,
) {
	time.Sleep(time.Duration(s.of.delay.Load()))
	return s.LeaseInterface.Update(ctx, l, o)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return &stage{t: t, leading: map[string]bool{}}
}
