package gcp

import (
	"cmp"
	"context"
	"net/http"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "delete VM"

// Delete removes the instance of r, and then the disks that it leaves behind, but for those that were
// to outlive it when it was made.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	s, err := driverkit.SpecOf[*spec](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	vms := func(ctx context.Context) ([]driverkit.Part, error) { return a.vmParts(ctx, s, r) }
	disks := func(ctx context.Context) ([]driverkit.Part, error) { return a.diskParts(ctx, s, r) }
	return driverkit.Remove(ctx, driverkit.RemoveStep{Find: vms, RetryAfter: pause},
		driverkit.RemoveStep{Find: disks, RetryAfter: pause})
}

// vmParts finds the instance, or the operation that still makes it.
func (a *account) vmParts(ctx context.Context, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	i, err := a.find(ctx, opDelete, r)
	if err != nil {
		return nil, err
	}
	if i != nil {
		at := i.place()
		return []driverkit.Part{{Kind: cloud.KindVM, ID: at.id(), Remove: func(ctx context.Context) (bool, error) {
			return a.removeVM(ctx, s, r, *i)
		}}}, nil
	}
	n := noteOf(r.State)
	if n.Operation == "" || r.ProviderID != "" {
		return nil, nil
	}
	at := place{cmp.Or(n.Zone, s.Zone), r.Name}
	o, err := a.client.operation(ctx, opDelete, at.zone, n.Operation)
	if err != nil || o.Status == operationDone {
		return nil, err
	}
	return []driverkit.Part{{Kind: cloud.KindVM, ID: at.id()}}, nil
}

// removeVM asks for an instance to go. The protection from deletion that its class asks for is removed
// first, because its machine is deleted. Any other one was set by a person, and stays.
func (a *account) removeVM(ctx context.Context, s *spec, r cloud.Ref, i instance) (gone bool, err error) {
	at := i.place()
	switch {
	case i.DeletionProtection && !s.DeletionProtection:
		return false, cloud.Errorf(cloud.Denied, opDelete, "DeletionProtected",
			"instance %s in zone %s is protected from deletion, and its class does not ask for that; remove the protection",
			at.name, at.zone)
	case i.DeletionProtection:
		e := a.client.do(ctx, opDelete, driverkit.Call{
			Method: http.MethodPost,
			URL:    in(at.zone, "instances", at.name, "setDeletionProtection") + "?deletionProtection=false",
		})
		return false, restricted(e)
	}
	if a.isGoing(i) {
		return false, nil
	}
	if err := a.recordKept(ctx, s, r, i); err != nil {
		return false, err
	}
	if gone, err = a.client.remove(ctx, opDelete, "instances", at); err == nil {
		a.going.Put(at, true)
	}
	return gone, err
}

// diskParts finds the disks of r that no instance has.
func (a *account) diskParts(ctx context.Context, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	filter := ""
	switch {
	case r.OwnerID != "":
		filter = filterOf(ownerTag, r.OwnerID)
	case r.Name != "":
		filter = filterOf(machineTag, r.Name)
	default:
		return nil, nil
	}
	var parts []driverkit.Part
	for _, zone := range a.zonesOf(s, r) {
		for d, err := range a.client.disksIn(ctx, opDelete, zone, filter) {
			if err != nil {
				return nil, driverkit.Restrict(err)
			}
			if len(d.Users) == 0 && s.ownsDisk(d, r) && d.resource().Retention.MayGo() {
				parts = append(parts, a.diskPart(d.place()))
			}
		}
	}
	return parts, nil
}

func (a *account) diskPart(at place) driverkit.Part {
	return driverkit.Part{Kind: cloud.KindDisk, ID: at.id(), Remove: func(ctx context.Context) (bool, error) {
		return a.client.remove(ctx, opDelete, "disks", at)
	}}
}

// ownsDisk reports whether a disk is provably of r.
func (s *spec) ownsDisk(d disk, r cloud.Ref) bool {
	tags := codec.Decode(d.Labels)
	return driverkit.Carries(d.Labels, s.ownership) && driverkit.IsOf(r, tags[ownerTag], tags[machineTag])
}

// filterOf returns the filter of what has a tag with a value.
func filterOf(tag, value string) string {
	encoded, _ := codec.Encode(map[string]string{tag: value})
	key := codec.Key(tag)
	return "labels." + key + `="` + encoded[key] + `"`
}

// restricted is driverkit.Restrict for an error that may be nil.
func restricted(e *cloud.Error) error {
	if e == nil {
		return nil
	}
	return driverkit.Restrict(e)
}
