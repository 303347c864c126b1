package hetzner

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opCreate = "create server"

// Create makes the server of r, once, because its name is the machine's.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	s, err := driverkit.SpecOf[*spec](opCreate, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	labels, wrong := s.labels(r)
	problems := slices.Concat(s.Problems, r.Problems(nameLimits, userDataMax), wrong)
	if err := cloud.Worst(opCreate, problems, cloud.BlocksCreate); err != nil {
		return cloud.VM{}, err
	}
	var found []server
	return driverkit.Creation{
		Find: func(ctx context.Context) (_ []cloud.VM, err error) {
			look := a.labelled // the name is looked up only where Hetzner says that it is taken
			if r.ProviderID != "" {
				look = a.find
			}
			found, err = look(ctx, opCreate, s, r.Ref)
			return vms(found), err
		},
		Make: func(ctx context.Context) (cloud.VM, error) {
			made, err := a.make(ctx, s, r, labels)
			if err != nil {
				return cloud.VM{}, err
			}
			found = []server{made}
			return made.vm(), nil
		},
		Finish: func(ctx context.Context, vm cloud.VM) (time.Duration, error) {
			of := slices.IndexFunc(found, func(t server) bool { return t.vm().ID == vm.ID })
			return a.finish(ctx, s, r, found[of], labels)
		},
	}.Do(ctx, opCreate, r)
}

// accepted is the checkpoint: Hetzner has given the server of an attempt this id.
type accepted struct {
	Token string `json:"token"`
	ID    int64  `json:"server"`
}

// make asks for the server of r, or takes the one that has its name.
func (a *account) make(ctx context.Context, s *spec, r cloud.CreateRequest, labels map[string]string) (server,
	error,
) {
	request, err := a.resolve(ctx, opCreate, s, r)
	if err != nil {
		return server{}, err
	}
	request.Labels = labels
	made, e, err := a.request(ctx, s, request)
	switch {
	case err != nil:
		return server{}, err
	case e == nil:
		err := driverkit.Note(ctx, opCreate, r, accepted{Token: r.Token, ID: made.ID})
		return made, err
	case codeOf(e) == codeNameTaken:
		return a.taken(ctx, s, r)
	case e.Code == cloud.NotFound || e.Code == cloud.Invalid: // an id may stand for something that has gone
		a.ids.Clear()
		a.types.Clear()
	}
	if e.Reason == reasonNotHere {
		return server{}, a.notHere(ctx, s, r, e)
	}
	return server{}, s.refused(r, e)
}

// taken returns the server that has the name of r, if it is the machine's.
func (a *account) taken(ctx context.Context, s *spec, r cloud.CreateRequest) (server, error) {
	found, err := a.byName(ctx, opCreate, r.Name)
	switch {
	case err != nil:
		return server{}, err
	case found == nil:
		return s.unseen(r)
	case s.owns(*found, r.Ref):
		return *found, nil
	case found.Status == statusDeleting:
		return server{}, unavailable("NameTaken", "server "+strconv.FormatInt(found.ID, 10)+
			", which has the machine's name, is being deleted; the machine's own is requested when it has gone")
	}
	return server{}, cloud.Errorf(cloud.Invalid, opCreate, "NameTaken",
		"server %d of this project has the name %q and is not the machine's; rename or delete it", found.ID, r.Name)
}

// unseen returns a server whose name is taken and that Hetzner does not show yet.
func (s *spec) unseen(r cloud.CreateRequest) (server, error) {
	var made accepted
	if json.Unmarshal([]byte(r.State), &made) != nil || made.Token != r.Token || made.ID == 0 {
		return server{}, unavailable("NameTaken",
			"the machine's name is taken, and Hetzner does not show by which server; it is looked for again")
	}
	t := server{ID: made.ID, Name: r.Name, Status: "initializing", Labels: map[string]string{
		machineLabel: r.Name, ownerLabel: r.OwnerID, zoneLabel: s.zoneFor(r),
	}}
	t.Location.Name, t.ServerType.Name = locationOf(s.zoneFor(r)), s.ServerType
	return t, nil
}

// unavailable returns the error of a creation that has to be repeated soon.
func unavailable(reason, text string) error {
	e := cloud.Errorf(cloud.Unavailable, opCreate, reason, "%s", text)
	e.RetryAfter = soon
	return e
}

const (
	soon     = 2 * time.Second
	bootWait = 5 * time.Second // a server runs after about ten seconds
)

// finish sees that the server is in its networks, that it runs, and that it has its floating IP. Hetzner may
// leave a server that it has made switched off.
func (a *account) finish(ctx context.Context, s *spec, r cloud.CreateRequest, t server,
	labels map[string]string,
) (time.Duration, error) {
	vm := t.vm()
	switch vm.State {
	case cloud.StatePending:
		return bootWait, nil
	case cloud.StateDeleting, cloud.StateFailed, cloud.StateUnknown:
		return 0, nil
	case cloud.StateRunning, cloud.StateStopped:
	}
	return driverkit.Steps(ctx,
		func(ctx context.Context) (time.Duration, error) { return a.ensureNetworks(ctx, s, r, t) },
		func(ctx context.Context) (time.Duration, error) {
			if t.Status != statusOff {
				return 0, nil
			}
			return bootWait, ignoreBusy(a.act(ctx, opCreate, vm.ID, "poweron"))
		},
		func(ctx context.Context) (time.Duration, error) {
			if vm.State != cloud.StateRunning || s.FloatingPoolName == "" {
				return 0, nil
			}
			return a.ensureAddress(ctx, s, r, vm, labels)
		})
}

// ensureNetworks asks for the networks that the server is not in. Hetzner makes the server first, and puts it
// into its networks then, which may fail; without one and without a public address it does not start either.
func (a *account) ensureNetworks(ctx context.Context, s *spec, r cloud.CreateRequest, t server) (time.Duration, error) {
	if len(t.PrivateNet) >= len(s.networks()) {
		return 0, nil
	}
	wanted, err := a.lookUpAll(ctx, opCreate, "networks", s.networks(), s.NetworkName)
	if err != nil {
		return 0, err
	}
	for _, id := range wanted {
		if slices.ContainsFunc(t.PrivateNet, func(n privateNet) bool { return n.Network == id }) {
			continue
		}
		e := a.do(ctx, opCreate, driverkit.Call{
			Method: http.MethodPost, URL: t.path() + "/actions/attach_to_network", Body: map[string]int64{"network": id},
		})
		if e != nil && e.Code == cloud.NotFound {
			a.ids.Clear() // the network may be another one of that name by now
		}
		if codeOf(e) == codeAttached {
			e = nil // and is not shown yet
		}
		wait, err := a.waitUnless(e, s, r)
		return cmp.Or(wait, soon), err
	}
	return 0, nil
}

// act asks for an action of a server.
func (a *account) act(ctx context.Context, op, id, action string) *cloud.Error {
	return a.do(ctx, op, driverkit.Call{Method: http.MethodPost, URL: "/servers/" + id + "/actions/" + action})
}

// busy reports whether Hetzner refuses a call because something else is done to its object.
func busy(e *cloud.Error) bool {
	return e != nil && (e.Reason == reasonLocked || e.Reason == reasonConflict)
}

// ignoreBusy returns e as an error of a creation, and nil for one that passes by itself.
func ignoreBusy(e *cloud.Error) error {
	if e == nil || busy(e) {
		return nil
	}
	return driverkit.Restrict(e, cloud.Invalid, cloud.Exhausted)
}
