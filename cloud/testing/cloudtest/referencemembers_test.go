package cloudtest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// drains is how long the load balancers of the reference cloud keep connections.
const drains = 5 * time.Second

// pools are the load balancers of the reference cloud.
func pools() []string { return []string{"api", "web"} }

// member is a VM's place in a load balancer. It stays when the VM goes.
type member struct {
	VM, Owner string
	Until     time.Time // until when it keeps connections; zero: it gets requests
}

// members serves /member/<pool> and /member/<pool>/<vm>.
func (s *server) members(w http.ResponseWriter, r *http.Request, path string) {
	pool, id, _ := strings.Cut(path, "/")
	if !slices.Contains(pools(), pool) {
		fail(w, http.StatusNotFound, "NoSuchPool", pool)
		return
	}
	s.drained()
	at := slices.IndexFunc(s.pools[pool], func(m member) bool { return m.VM == id })
	switch t := s.find(id); {
	case id == "":
	case r.Method == http.MethodPut && (t == nil || s.shown(t).Word != "RUNNING"):
		fail(w, http.StatusBadRequest, "NotRunning", id)
		return
	case r.Method == http.MethodPut:
		if at >= 0 {
			s.pools[pool] = slices.Delete(s.pools[pool], at, at+1)
		}
		s.pools[pool] = append(s.pools[pool], member{VM: id, Owner: t.Tags["owner"]})
	case r.Method == http.MethodDelete && at >= 0 && s.pools[pool][at].Until.IsZero():
		s.pools[pool][at].Until = s.now.Add(drains)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": s.pools[pool]})
}

// drained forgets the members whose connections are closed.
func (s *server) drained() {
	for pool, all := range s.pools {
		s.pools[pool] = slices.DeleteFunc(all, func(m member) bool { return !m.Until.IsZero() && !s.now.Before(m.Until) })
	}
}

// membersAt is Backend.Members.
func (s *server) membersAt(_ testing.TB, place string) (ids []string) {
	s.locked(func() {
		s.drained()
		for _, m := range s.pools[place] {
			ids = append(ids, m.VM)
		}
	})
	return ids
}

func (d driver) Memberships(c cloud.Class) []string {
	return slices.Sorted(slices.Values(c.Spec.(spec).Pools))
}

func (a *account) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	ref := r
	if a.bug("registersAnyOwner") {
		ref.OwnerID = ""
	}
	vm, err := a.Get(ctx, ref)
	if err != nil {
		return cloud.Registration{}, err
	}
	if vm.State != cloud.StateRunning {
		return cloud.Registration{RetryAfter: time.Second, Waiting: []string{"vm " + vm.ID}}, nil
	}
	for _, place := range places {
		var page struct{ Items []member }
		err := a.call(ctx, "register", http.MethodPut, r.Class, "/member/"+place+"/"+vm.ID, nil, &page)
		if cloud.CodeOf(err) == cloud.NotFound {
			if a.bug("registersNowhere") {
				continue
			}
			return cloud.Registration{}, cloud.Errorf(cloud.Invalid, "register", "NoSuchPool", "no pool %s", place)
		}
		if err != nil {
			return cloud.Registration{}, err
		}
	}
	return cloud.Registration{Done: true}, nil
}

func (a *account) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	if a.bug("needsVMToDeregister") {
		if _, err := a.Get(ctx, r); cloud.CodeOf(err) == cloud.NotFound {
			return cloud.Registration{Done: true}, nil
		}
	}
	if a.bug("leavesOnePlace") {
		places = places[:1]
	}
	out := cloud.Registration{}
	for _, place := range places {
		var page struct{ Items []member }
		err := a.call(ctx, "list members", http.MethodGet, r.Class, "/member/"+place, nil, &page)
		if cloud.CodeOf(err) == cloud.NotFound {
			continue
		}
		for _, m := range page.Items {
			if m.Owner != r.OwnerID && !a.bug("deregistersAnyOwner") {
				continue
			}
			out.RetryAfter, out.Waiting = drains, append(out.Waiting, place+" drains "+m.VM)
			if m.Until.IsZero() && err == nil {
				err = a.call(ctx, "deregister", http.MethodDelete, r.Class, "/member/"+place+"/"+m.VM, nil, &page)
			}
		}
		if err != nil {
			return cloud.Registration{}, err
		}
	}
	if a.bug("drainsNothing") {
		return cloud.Registration{Done: true}, nil
	}
	slices.Sort(out.Waiting)
	out.Done = len(out.Waiting) == 0
	return out, nil
}
