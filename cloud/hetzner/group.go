package hetzner

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	// groupMax is how many servers Hetzner takes in a placement group.
	groupMax = 10
	// fullFor is how long a group that has refused a server is left alone.
	fullFor = 5 * time.Minute
	// pickFor is how long a server whose request had no answer counts as a member.
	pickFor = time.Minute
)

// groups remembers what placement groups do not show yet: the servers that are being made in them, and
// that one counts members which it does not show. The zero value is ready; it is safe for concurrent use.
type groups struct {
	mu    sync.Mutex
	picks map[string]pick     // by machine
	full  map[int64]time.Time // by group, and since when
}

// pick is a server that is being made in a group.
type pick struct {
	group, server int64 // the server is 0 while its request has no answer
	since         time.Time
}

// choose returns the one of the groups that has the fewest members, for the server of a machine that
// counts as a member from now on; 0 if all are full.
func (g *groups) choose(all []named, machine string, now time.Time) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.picks, machine)
	members := map[int64]int{}
	for _, of := range all {
		members[of.ID] = len(of.Servers)
		if since, full := g.full[of.ID]; full && now.Sub(since) < fullFor {
			members[of.ID] = groupMax
		}
	}
	for name, p := range g.picks {
		of := slices.IndexFunc(all, func(n named) bool { return n.ID == p.group })
		switch {
		case of >= 0 && slices.Contains(all[of].Servers, p.server), now.Sub(p.since) >= pickFor:
			delete(g.picks, name)
		default:
			members[p.group]++
		}
	}
	emptiest := slices.MinFunc(all, func(a, b named) int { return members[a.ID] - members[b.ID] })
	if members[emptiest.ID] >= groupMax {
		return 0
	}
	if g.picks == nil {
		g.picks = map[string]pick{}
	}
	g.picks[machine] = pick{group: emptiest.ID, since: now}
	return emptiest.ID
}

// learn takes note of what became of the request for the server of a machine.
func (g *groups) learn(machine string, made server, e *cloud.Error, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, picked := g.picks[machine]
	switch {
	case !picked:
	case e == nil:
		p.server = made.ID
		g.picks[machine] = p
	case codeOf(e) == codeGroupFull:
		if g.full == nil {
			g.full = map[int64]time.Time{}
		}
		g.full[p.group] = now
		delete(g.picks, machine)
	case !cloud.OutcomeUnknown(e):
		delete(g.picks, machine)
	}
}

// groupID returns the placement group that the class names. As with MCM's driver it counts only beside
// floatingPoolName; it is empty otherwise.
func (s *spec) groupID() string {
	if s.FloatingPoolName == "" {
		return ""
	}
	return s.PlacementGroupID
}

// placementGroup returns the id of the placement group for the server of a machine: the one that the class
// names, or the emptiest of those whose names begin with its prefix. 0 is none.
func (a *account) placementGroup(ctx context.Context, op string, s *spec, machine string) (int64, error) {
	if id := s.groupID(); id != "" {
		number, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return 0, cloud.Errorf(cloud.Invalid, op, "InvalidClass", "placementGroupID %q is no number", id)
		}
		return number, nil
	}
	if s.PlacementGroupPrefix == "" {
		return 0, nil
	}
	answer := map[string][]named{}
	query := url.Values{"type": {"spread"}, "per_page": {strconv.Itoa(pageSize)}}
	if err := a.things(ctx, op, "placement_groups", query, answer); err != nil {
		return 0, err
	}
	all := slices.DeleteFunc(answer["placement_groups"], func(g named) bool {
		return !strings.HasPrefix(g.Name, s.PlacementGroupPrefix)
	})
	if len(all) == 0 {
		return 0, driverkit.WithField(cloud.Errorf(cloud.Invalid, op, "NotFound",
			"the project has no placement group whose name begins with %q", s.PlacementGroupPrefix),
			"placementGroupPrefix", "make one for each 10 servers")
	}
	group := a.groups.choose(all, machine, a.now())
	if group == 0 {
		return 0, cloud.Errorf(cloud.Exhausted, op, "PlacementGroupsFull",
			"all placement groups whose names begin with %q have %d servers; make another", s.PlacementGroupPrefix, groupMax)
	}
	return group, nil
}

// request sends a request for a server, in the group that the class gives it. A group of a prefix that is
// full by Hetzner's own count, which is sometimes higher than what it shows, is left for the next one.
func (a *account) request(ctx context.Context, s *spec, body creation) (server, *cloud.Error, error) {
	for {
		group, err := a.placementGroup(ctx, opCreate, s, body.Name)
		if err != nil {
			return server{}, nil, err
		}
		body.PlacementGroup = group
		var answer serverAnswer
		e := a.do(ctx, opCreate, driverkit.Call{Method: http.MethodPost, URL: "/servers", Body: body, Out: &answer})
		a.groups.learn(body.Name, answer.Server, e, a.now())
		if codeOf(e) != codeGroupFull || group == 0 || s.groupID() != "" {
			return answer.Server, e, nil
		}
	}
}
