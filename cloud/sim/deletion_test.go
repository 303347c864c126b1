package sim_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// slowly answers as a cloud on the network does.
type slowly struct{ http.Handler }

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	w, in := httptest.NewRecorder(), r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	s.ServeHTTP(w, in)
	return w.Result(), nil
}

// wallClock is time itself, the bubble's in a bubble.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

// TestManyDeletionsShareTheirLookups rolls a hundred VMs, as a manager does: some
// are deleted every moment, and events make it ask again before it is worth it.
// The VMs take half a second to go, and each may cost three calls of the cloud.
func TestManyDeletionsShareTheirLookups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		together int           // that are deleted at once
		every    time.Duration // between two lots
		lists    int           // of the cloud, at most
	}{
		"AllAtOnce":   {100, 0, 4},
		"InLotsOfTen": {10, 400 * time.Millisecond, 30},
		"OneByOne":    {1, 120 * time.Millisecond, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const many = 100
				s, account, class := behindNetwork(t)
				refs := make([]cloud.Ref, many)
				for i := range refs {
					refs[i] = create(t, account, class, i)
				}
				before := s.Calls("*")
				var wg sync.WaitGroup
				for i, ref := range refs {
					if i > 0 && i%c.together == 0 {
						time.Sleep(c.every)
					}
					wg.Go(func() { removeAs(t, account, ref) })
				}
				wg.Wait()
				if left := s.Live(); len(left) > 0 {
					t.Errorf("%d resources are left, e.g. %v", len(left), left[0].ID)
				}
				lists, all := s.Calls(sim.OpList), many+s.Calls("*")-before
				if lists > c.lists || all > 3*many {
					t.Errorf("%d VMs cost %d calls, %d of them List; want at most %d and %d", many, all, lists, 3*many, c.lists)
				}
			})
		})
	}
}

// behindNetwork returns a cloud that takes 100 ms to answer and half a second to
// delete, and an account with all that a manager puts around it.
func behindNetwork(t *testing.T) (*sim.Cloud, cloud.Account, cloud.Class) {
	t.Helper()
	settings := sim.DefaultSettings()
	settings.DeleteTime = sim.Duration(500 * time.Millisecond)
	settings.Latency = map[string]sim.Duration{"*": sim.Duration(100 * time.Millisecond)}
	s := sim.New(sim.Options{Clock: wallClock{}, Settings: settings})
	network := slowly{sim.Handler(s, func(_ context.Context, d time.Duration) { time.Sleep(d) })}
	d := sim.NewDriver(network).Batched(driverkit.Window{Idle: 100 * time.Millisecond, Longest: 500 * time.Millisecond})
	c, problems := d.Parse(class("c", nil))
	if err := cloud.Worst("parse", problems, cloud.BlocksCreate); err != nil {
		t.Fatal(err)
	}
	a, err := d.Open(t.Context(), c, credentials())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrap.Standard(wrap.Options{Rate: wrap.Rate{PerSecond: 1000, Burst: 1000}}) {
		a = w(cloud.AccountInfo{Driver: d.Traits(), Endpoint: c.Endpoint}, a)
	}
	return s, a, c
}

func create(t *testing.T, a cloud.Account, c cloud.Class, i int) cloud.Ref {
	t.Helper()
	ref := cloud.Ref{Name: fmt.Sprintf("m-%d", i), OwnerID: fmt.Sprintf("owner-%d", i), Class: c}
	vm, err := a.Create(t.Context(), cloud.CreateRequest{Ref: ref, Token: fmt.Sprintf("%d", i)})
	if err != nil {
		t.Fatal(err)
	}
	ref.ProviderID = vm.ProviderID
	return ref
}

// removeAs deletes a VM as a controller does: it asks when the cloud said that it
// is worth it, and whenever its object changes, here twice for each answer.
func removeAs(t *testing.T, a cloud.Account, ref cloud.Ref) {
	t.Helper()
	for range 100 {
		d, err := a.Delete(t.Context(), ref)
		if err != nil {
			t.Error(err)
			return
		}
		if d.Done {
			return
		}
		again := time.Now().Add(d.RetryAfter)
		for range 2 {
			time.Sleep(30 * time.Millisecond)
			if d, err = a.Delete(t.Context(), ref); err != nil || d.Done {
				t.Errorf("asked too soon: got %+v, %v, want that it is going", d, err)
			}
		}
		time.Sleep(time.Until(again))
	}
	t.Errorf("%s does not go", ref.Name)
}

// TestListOfNames: names and ids are alternatives, tags are not.
func TestListOfNames(t *testing.T) {
	t.Parallel()
	s := newEnv(t, nil)
	a, c := s.open(full())
	for i := range 5 {
		create(t, a, c, i)
	}
	undo := s.AddFault(sim.Fault{Op: sim.OpList, Name: "m-3"})
	who := sim.Login{Account: "demo", Secret: "demo-secret"}
	query := sim.Query{
		Kind: sim.KindVM, Names: []string{"m-3", "m-1", "m-1", "none"},
		IDs: []string{s.VMs()[1].ID, s.VMs()[2].ID},
	}
	if _, err := s.List(who, c.Region, query); err == nil {
		t.Error("a fault of one of the names does not strike")
	}
	undo()
	query.Limit = 1
	var found []string
	for {
		page, err := s.List(who, c.Region, query)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			found = append(found, r.Name())
		}
		if query.Next = page.Next; page.Next == "" {
			break
		}
	}
	if fmt.Sprint(found) != "[m-1 m-2 m-3]" {
		t.Errorf("got %v, want each that is there once, in the order of making", found)
	}
}
