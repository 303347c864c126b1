package gcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// pause is how long an operation is left alone.
const pause = 3 * time.Second

// note is the checkpoint: the operation that makes the VM.
type note struct {
	Token     string `json:"token"`
	Operation string `json:"operation,omitempty"`
	Zone      string `json:"zone,omitempty"`   // that the VM is asked for in, of a class with several
	Failed    int    `json:"failed,omitempty"` // how many tries of this attempt have failed
}

// noteOf returns the checkpoint of any attempt; a zero one if there is none.
func noteOf(state string) note {
	var n note
	if json.Unmarshal([]byte(state), &n) != nil {
		return note{}
	}
	return n
}

// creation is a Create that is under way.
type creation struct {
	*account

	op   string
	s    *spec
	r    cloud.CreateRequest
	at   place
	note note // of this attempt
}

// Create makes the VM of r, once for its name, unless it is there. It asks before it looks: a name
// that is taken is refused, so that most VMs cost one look.
func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	const op = "create VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	n := noteOf(r.State)
	if n.Token != r.Token {
		n = note{Token: r.Token}
	}
	r.Zone = cmp.Or(n.Zone, r.Zone) // a request of this attempt may have made the VM there
	c := creation{account: a, op: op, s: s, r: r, at: place{s.zoneFor(r), r.Name}, note: n}
	want, wrong := s.requestFor(r, a.client.who.project, c.note.Failed)
	problems := slices.Concat(s.Problems, r.Problems(nameLimits, userDataMax), wrong)
	if err := cloud.Worst(op, problems, cloud.BlocksCreate); err != nil {
		return cloud.VM{}, err
	}
	return c.ensure(ctx, want)
}

// ensure returns the VM, made if need be.
func (c creation) ensure(ctx context.Context, want request) (cloud.VM, error) {
	if c.r.ProviderID != "" {
		return c.get(ctx, c.op, c.r.Ref)
	}
	if c.note.Operation == "" {
		return c.begin(ctx, want)
	}
	i, err := c.client.get(ctx, c.op, c.at)
	if err != nil {
		return cloud.VM{}, driverkit.Restrict(err)
	}
	if i != nil {
		return c.progress(*i)
	}
	over, err := c.outcome(ctx)
	switch {
	case err != nil:
		return cloud.VM{}, err
	case !over:
		return c.accepted(), nil
	}
	return c.begin(ctx, want)
}

// begin asks for the VM. Names are unique in a zone only: where the class has several, it looks into
// each, and notes the zone before the first request, so that the attempt stays there.
func (c creation) begin(ctx context.Context, want request) (cloud.VM, error) {
	if len(c.s.allZones()) == 1 {
		return c.insert(ctx, want)
	}
	i, err := c.find(ctx, c.op, c.r.Ref)
	switch {
	case err != nil:
		return cloud.VM{}, err
	case i != nil:
		c.at = i.place()
		return c.progress(*i)
	}
	if c.note.Zone == "" {
		c.note.Zone = c.at.zone
		if err := driverkit.Note(ctx, c.op, c.r, c.note); err != nil {
			return cloud.VM{}, err
		}
	}
	return c.insert(ctx, want)
}

// insert asks for the VM and notes the operation that makes it.
func (c creation) insert(ctx context.Context, want request) (cloud.VM, error) {
	var o operation
	e := c.client.do(ctx, c.op, driverkit.Call{
		Method: http.MethodPost, URL: in(c.at.zone, "instances", ""), Body: want, Out: &o,
	})
	switch {
	case e != nil && e.Reason == reasonExists:
		return c.taken(ctx, e)
	case e != nil:
		return cloud.VM{}, c.s.refused(e, c.at.zone)
	case o.Name == "":
		return cloud.VM{}, driverkit.BrokenAnswer(c.op, "the answer names no operation")
	}
	c.note.Operation = o.Name
	if err := c.failure(ctx, o); err != nil {
		return cloud.VM{}, err
	}
	return c.accepted(), driverkit.Note(ctx, c.op, c.r, c.note)
}

// taken looks at the VM that has the name. Until it shows, it is being made or deleted. The name of a disk
// may stay taken by one that an earlier try has left; the next try has other names.
func (c creation) taken(ctx context.Context, e *cloud.Error) (cloud.VM, error) {
	if strings.Contains(e.Err.Error(), "/disks/") {
		c.note.Failed++
		if err := driverkit.Note(ctx, c.op, c.r, c.note); err != nil {
			return cloud.VM{}, err
		}
		return cloud.VM{}, e
	}
	i, err := c.client.get(ctx, c.op, c.at)
	switch {
	case err != nil:
		return cloud.VM{}, driverkit.Restrict(err)
	case i == nil:
		return c.accepted(), nil
	}
	return c.progress(*i)
}

// progress returns the VM, once it has its place on a host: until then its operation may still
// fail. A VM that stops before it was recorded is waited for, because it may be going.
func (c creation) progress(i instance) (cloud.VM, error) {
	if !c.s.owns(i, c.r.Ref) {
		return cloud.VM{}, cloud.Errorf(cloud.Unknown, c.op, "NameTaken",
			"an instance of the name %q that is not the machine's is in zone %s; delete it or rename the machine",
			c.at.name, c.at.zone)
	}
	switch i.Status {
	case "PROVISIONING", "PENDING", "STOPPING", "PENDING_STOP", "DEPROVISIONING":
		return c.accepted(), nil
	}
	return c.client.vmOf(i), nil
}

// outcome reports whether the operation is over, and returns why it failed if it did.
func (c creation) outcome(ctx context.Context) (over bool, err error) {
	o, err := c.client.operation(ctx, c.op, c.at.zone, c.note.Operation)
	if err != nil || o.Status != operationDone {
		return false, err
	}
	return true, c.failure(ctx, o)
}

// failure returns the error of an operation that failed. That it did is noted first, so that the
// next call asks for the VM again, with other disks.
func (c creation) failure(ctx context.Context, o operation) error {
	if o.Status != operationDone || len(o.Error.Errors) == 0 {
		return nil
	}
	said := o.Error.Errors[0]
	e := toMinute(table.Error(c.op, driverkit.Answer{Code: said.Code, Message: said.Message}), c.client.now())
	e = c.s.refused(e, c.at.zone)
	if err := driverkit.Note(ctx, c.op, c.r, note{Token: c.r.Token, Failed: c.note.Failed + 1}); err != nil {
		return err
	}
	return e
}

// accepted is the VM while Compute Engine makes it.
func (c creation) accepted() cloud.VM {
	return cloud.VM{
		ID: c.at.id(), Name: c.r.Name, OwnerID: c.r.OwnerID, State: cloud.StatePending, Reason: "Accepted",
		RetryAfter: pause, Region: c.r.Class.Region, Zone: c.at.zone, InstanceType: c.s.MachineType,
	}
}

// operation returns an operation. One that is forgotten is over.
func (c *client) operation(ctx context.Context, op, zone, name string) (operation, error) {
	var o operation
	e := c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: in(zone, "operations", name), Out: &o})
	switch {
	case e == nil:
		return o, nil
	case e.Code == cloud.NotFound:
		return operation{Status: operationDone}, nil
	}
	return o, driverkit.Restrict(e)
}
