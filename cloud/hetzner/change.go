package hetzner

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// staying returns the one server of r that is not being deleted.
func (a *account) staying(ctx context.Context, op string, s *spec, r cloud.Ref) (server, error) {
	found, err := a.find(ctx, op, s, r)
	if err != nil {
		return server{}, err
	}
	found = slices.DeleteFunc(found, func(t server) bool { return t.Status == statusDeleting })
	if _, err := driverkit.One(op, r, vms(found)); err != nil {
		return server{}, err
	}
	return found[0], nil
}

// SetTags changes the labels of the server of r. Its floating IP has none of the class's.
//
// Hetzner replaces all labels at once: what somebody else changes between the look and the
// change is lost. There is no version that could be compared.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	const op = opLabels
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return err
	}
	t, err := a.staying(ctx, op, s, r)
	if err != nil {
		return err
	}
	labels := maps.Clone(t.Labels)
	for _, key := range codec.Obsolete(obsolete, s.Labels, fixedLabels()...) {
		delete(labels, key)
	}
	maps.Copy(labels, codec.UserTags(s.Labels, fixedLabels()...))
	if maps.Equal(labels, t.Labels) {
		return nil
	}
	e := a.do(ctx, op, driverkit.Call{
		Method: http.MethodPut, URL: t.path(), Body: map[string]map[string]string{"labels": labels},
	})
	if e == nil {
		return nil
	}
	return driverkit.Restrict(e, cloud.NotFound, cloud.Invalid)
}

// Reboot resets the server of r, or starts it if it is off.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	const op = "reboot server"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return err
	}
	t, err := a.staying(ctx, op, s, r)
	if err != nil {
		return err
	}
	action := "reset"
	if t.Status == statusOff {
		action = "poweron"
	}
	e := a.act(ctx, op, strconv.FormatInt(t.ID, 10), action)
	if e == nil {
		return nil
	}
	err = driverkit.Restrict(e, cloud.NotFound, cloud.Invalid, cloud.Exhausted)
	return driverkit.Busy(err, reasonLocked, reasonConflict)
}
