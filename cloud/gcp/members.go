package gcp

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opRegister   = "register instance"
	opDeregister = "deregister instance"
)

// groupForm is the form of names of instance groups.
var groupForm = regexp.MustCompile(`\A[a-z]([-a-z0-9]{0,61}[a-z0-9])?\z`)

func (s *spec) validateGroups() {
	for i, group := range s.InstanceGroups {
		field := fmt.Sprintf("instanceGroups[%d]", i)
		s.BlockIf(!groupForm.MatchString(group), field,
			"is %q; name an unmanaged instance group that is in each zone of the class", group)
		s.BlockIf(slices.Contains(s.InstanceGroups[:i], group), field, "is %q, as another entry; remove one of them", group)
	}
}

// Memberships returns the instance groups of a class, each as <region>/<group>: groups of one name in
// several zones are one place.
func (judge) Memberships(c cloud.Class) []string {
	s, err := driverkit.SpecOf[*spec]("", c)
	if err != nil {
		return nil
	}
	var places []string
	for _, group := range s.InstanceGroups {
		if groupForm.MatchString(group) {
			places = append(places, regionOf(s.Zone)+"/"+group)
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// groupOf is the instance group of a place.
func groupOf(op, place string) (string, error) {
	_, group, found := strings.Cut(place, "/")
	if !found || !groupForm.MatchString(group) {
		return "", cloud.Errorf(cloud.Invalid, op, "InvalidPlace", "%q is no region with an instance group", place)
	}
	return group, nil
}

// Register puts the instance of r into groups of its zone, once it runs.
func (a *account) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	i, err := a.wanted(ctx, opRegister, r)
	if err != nil {
		return cloud.Registration{}, driverkit.Restrict(err, cloud.NotFound)
	}
	if stateOf(i.Status) != cloud.StateRunning {
		return waitingFor("instance " + i.Name + ": " + i.Status), nil
	}
	var waiting []string
	for _, place := range places {
		group, err := groupOf(opRegister, place)
		if err != nil {
			return cloud.Registration{}, err
		}
		is, err := a.client.hasMember(ctx, opRegister, group, i.place())
		switch {
		case cloud.CodeOf(err) == cloud.NotFound:
			return cloud.Registration{}, cloud.Errorf(cloud.Invalid, opRegister, "NoSuchGroup",
				"zone %s has no instance group %s; make it, or name another one", i.place().zone, group)
		case err != nil:
			return cloud.Registration{}, err
		case is:
			continue
		}
		if err := a.addTo(ctx, group, i.place()); err != nil {
			return cloud.Registration{}, err
		}
		waiting = append(waiting, place+": joining")
	}
	return waitingFor(waiting...), nil
}

// groupPlace is an instance in a group of its zone.
type groupPlace struct {
	group string
	at    place
}

// addTo asks for an instance to be a member of a group, once in a while: the listing does not show it at once.
func (a *account) addTo(ctx context.Context, group string, at place) error {
	key := groupPlace{group, at}
	if joins, asked := a.moves.Known(key); asked && joins {
		return nil
	}
	e := a.client.changeGroup(ctx, opRegister, "addInstances", group, at)
	if e != nil && e.Reason != reasonMember {
		return driverkit.Restrict(e, cloud.Invalid, cloud.Exhausted)
	}
	a.moves.Put(key, true)
	return nil
}

// Deregister takes the instance of r out of groups. One that has gone is in none: Compute Engine takes it out.
func (a *account) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	i, err := a.find(ctx, opDeregister, r)
	if err != nil {
		return cloud.Registration{}, err
	}
	var waiting []string
	for _, place := range places {
		group, err := groupOf(opDeregister, place)
		if err != nil {
			return cloud.Registration{}, err
		}
		if i == nil {
			continue
		}
		out, err := a.removeFrom(ctx, group, i.place())
		if err != nil {
			return cloud.Registration{}, err
		}
		if !out {
			waiting = append(waiting, place+": leaving")
		}
	}
	return waitingFor(waiting...), nil
}

// removeFrom asks for an instance to leave a group, and reports whether it is out. It asks before it
// looks: an instance that has just joined is not listed yet. What a refusal means is for the listing to say.
func (a *account) removeFrom(ctx context.Context, group string, at place) (out bool, err error) {
	accepted, refused := a.askToLeave(ctx, group, at)
	switch code := cloud.CodeOf(refused); {
	case accepted:
		return false, nil
	case code == cloud.NotFound:
		return true, nil // there is no such group
	case refused != nil && code != cloud.Invalid:
		return false, driverkit.Restrict(refused)
	}
	is, err := a.client.hasMember(ctx, opDeregister, group, at)
	switch {
	case cloud.CodeOf(err) == cloud.NotFound:
		return true, nil
	case is && refused != nil:
		return false, cloud.Errorf(cloud.Unavailable, opDeregister, reasonMember,
			"the instance is still in group %s: %w", group, refused)
	}
	return err == nil && !is, err
}

// askToLeave asks for an instance to leave a group, unless that was accepted a moment ago.
func (a *account) askToLeave(ctx context.Context, group string, at place) (accepted bool, refused error) {
	key := groupPlace{group, at}
	if joins, asked := a.moves.Known(key); asked && !joins {
		return false, nil
	}
	if e := a.client.changeGroup(ctx, opDeregister, "removeInstances", group, at); e != nil {
		return false, e
	}
	a.moves.Put(key, false)
	return true, nil
}

// waitingFor is the registration that waits for these; done without any.
func waitingFor(what ...string) cloud.Registration {
	if len(what) == 0 {
		return cloud.Registration{Done: true}
	}
	slices.Sort(what)
	return cloud.Registration{RetryAfter: pause, Waiting: what}
}

// member is an instance as its group shows it and takes it.
type member struct {
	Instance string `json:"instance"` // URL
}

// is reports whether the member is the instance at a place.
func (m member) is(at place) bool {
	return path.Base(m.Instance) == at.name && path.Base(path.Dir(path.Dir(m.Instance))) == at.zone
}

// hasMember reports whether a group has an instance, in whose zone it is. The error is NotFound if there is no such
// group.
func (c *client) hasMember(ctx context.Context, op, group string, at place) (bool, error) {
	for m, err := range c.members(ctx, op, at.zone, group) {
		if err != nil {
			return false, driverkit.Restrict(err, cloud.NotFound)
		}
		if m.is(at) {
			return true, nil
		}
	}
	return false, nil
}

// members yields the instances of a group. It is a read, although it is a POST.
func (c *client) members(ctx context.Context, op, zone, group string) iter.Seq2[member, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, token string) ([]member, string, error) {
		var out struct {
			Items   []member `json:"items"`
			Next    string   `json:"nextPageToken"`
			Warning *warning `json:"warning"`
		}
		e := c.do(ctx, op, driverkit.Call{
			Method: http.MethodPost, URL: in(zone, "instanceGroups", group, "listInstances") + query("", "", token),
			Body: struct{}{}, Out: &out,
		})
		if e != nil {
			return nil, "", e
		}
		return out.Items, out.Next, out.Warning.partial(op, zone)
	})
}

// changeGroup puts an instance into a group of its zone, or takes it out.
func (c *client) changeGroup(ctx context.Context, op, action, group string, at place) *cloud.Error {
	return c.do(ctx, op, driverkit.Call{
		Method: http.MethodPost, URL: in(at.zone, "instanceGroups", group, action),
		Body: map[string][]member{"instances": {{
			Instance: "projects/" + url.PathEscape(c.who.project) + in(at.zone, "instances", at.name),
		}}},
	})
}
