package hetzner

import (
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
	return driverkit.Creation{
		Find: func(ctx context.Context) ([]cloud.VM, error) {
			found, err := a.labelled(ctx, opCreate, s, r.Ref)
			return vms(found), err
		},
		Make: func(ctx context.Context) (cloud.VM, error) { return a.make(ctx, s, r, labels) },
		Finish: func(ctx context.Context, vm cloud.VM) (time.Duration, error) {
			return a.finish(ctx, s, r, vm, labels)
		},
	}.Do(ctx, opCreate, r)
}

// accepted is the checkpoint: Hetzner has given the server of an attempt this id.
type accepted struct {
	Token string `json:"token"`
	ID    int64  `json:"server"`
}

// make asks for the server of r, or takes the one that has its name.
func (a *account) make(ctx context.Context, s *spec, r cloud.CreateRequest, labels map[string]string) (cloud.VM,
	error,
) {
	request, err := a.resolve(ctx, opCreate, s, r)
	if err != nil {
		return cloud.VM{}, err
	}
	request.Labels = labels
	made, e, err := a.request(ctx, s, request)
	switch {
	case err != nil:
		return cloud.VM{}, err
	case e == nil:
		err := driverkit.Note(ctx, opCreate, r, accepted{Token: r.Token, ID: made.ID})
		return made.vm(), err
	case codeOf(e) == codeNameTaken:
		return a.taken(ctx, s, r)
	case e.Code == cloud.NotFound || e.Code == cloud.Invalid: // an id may stand for something that has gone
		a.ids.Clear()
		a.types.Clear()
	}
	return cloud.VM{}, s.refused(r, e)
}

// taken returns the server that has the name of r, if it is the machine's.
func (a *account) taken(ctx context.Context, s *spec, r cloud.CreateRequest) (cloud.VM, error) {
	found, err := a.byName(ctx, opCreate, r.Name)
	switch {
	case err != nil:
		return cloud.VM{}, err
	case found == nil:
		return s.unseen(r)
	case s.owns(*found, r.Ref):
		return found.vm(), nil
	case found.Status == statusDeleting:
		return cloud.VM{}, unavailable("NameTaken", "server "+strconv.FormatInt(found.ID, 10)+
			", which has the machine's name, is being deleted; the machine's own is requested when it has gone")
	}
	return cloud.VM{}, cloud.Errorf(cloud.Invalid, opCreate, "NameTaken",
		"server %d of this project has the name %q and is not the machine's; rename or delete it", found.ID, r.Name)
}

// unseen returns a server whose name is taken and that Hetzner does not show yet.
func (s *spec) unseen(r cloud.CreateRequest) (cloud.VM, error) {
	var made accepted
	if json.Unmarshal([]byte(r.State), &made) != nil || made.Token != r.Token || made.ID == 0 {
		return cloud.VM{}, unavailable("NameTaken",
			"the machine's name is taken, and Hetzner does not show by which server; it is looked for again")
	}
	t := server{ID: made.ID, Name: r.Name, Status: "initializing", Labels: map[string]string{
		machineLabel: r.Name, ownerLabel: r.OwnerID, zoneLabel: s.zoneFor(r),
	}}
	t.Location.Name, t.ServerType.Name = locationOf(s.zoneFor(r)), s.ServerType
	return t.vm(), nil
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

// finish sees that the server runs, and that it has its floating IP. Hetzner may leave a server
// that it has made switched off.
func (a *account) finish(ctx context.Context, s *spec, r cloud.CreateRequest, vm cloud.VM,
	labels map[string]string,
) (time.Duration, error) {
	switch {
	case vm.State == cloud.StatePending:
		return bootWait, nil
	case vm.Reason == driverkit.CamelCase(statusOff):
		return bootWait, ignoreBusy(a.act(ctx, opCreate, vm.ID, "poweron"))
	case vm.State != cloud.StateRunning || s.FloatingPoolName == "":
		return 0, nil
	}
	return a.ensureAddress(ctx, s, r, vm, labels)
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
