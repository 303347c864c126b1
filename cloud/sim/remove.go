package sim

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "delete VM"

// Delete asks for everything that is provably of r to go, but for disks that stay.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	s, err := driverkit.SpecOf[*spec](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, err
	}
	found, err := a.find(ctx, opDelete, s, r)
	if err != nil {
		return cloud.Deletion{}, err
	}
	found = slices.DeleteFunc(found, func(item Resource) bool { return !retentionOf(item).MayGo() })
	d := removal{account: a, spec: s, gone: map[string]bool{}}
	for _, item := range found { // VMs first: their parts go with them
		if item.VM == nil {
			continue
		}
		if err := d.vm(ctx, item); err != nil {
			return cloud.Deletion{}, err
		}
	}
	for _, item := range found {
		if item.VM != nil {
			continue
		}
		if err := d.part(ctx, item); err != nil {
			return cloud.Deletion{}, err
		}
	}
	if len(d.left) == 0 {
		return cloud.Deletion{Done: true, Found: len(found) > 0}, nil
	}
	slices.Sort(d.left)
	return cloud.Deletion{RetryAfter: d.wait, Remaining: d.left}, nil
}

// removal is one pass over what has to go.
type removal struct {
	account *account
	spec    *spec
	gone    map[string]bool // VMs that went at once
	left    []string        // what is still there
	wait    time.Duration
}

// vm asks for a VM to go.
func (d *removal) vm(ctx context.Context, item Resource) error {
	if item.Deleting.IsZero() {
		if err := d.drop(ctx, "vms", &item); err != nil {
			return err
		}
	}
	if item.VM == nil || item.VM.State == StateGone {
		d.gone[item.ID] = true
		return nil
	}
	d.remains(item, item.Gone.Sub(item.Deleting))
	return nil
}

// part asks for a disk or an interface to go, unless it goes with its VM.
func (d *removal) part(ctx context.Context, item Resource) error {
	vm := item.attachedTo()
	if vm != "" && !d.gone[vm] || !item.Deleting.IsZero() {
		d.remains(item, item.Gone.Sub(item.Deleting))
		return nil
	}
	if vm != "" && (item.NIC != nil || item.Disk.DeleteWithVM) {
		return nil
	}
	if item.NIC != nil {
		return d.drop(ctx, "nics", &item)
	}
	return d.drop(ctx, "disks", &item)
}

// drop deletes one resource and leaves in item what the cloud says of it then;
// of one that was not there, its id alone.
func (d *removal) drop(ctx context.Context, collection string, item *Resource) error {
	id := item.ID
	var left Resource
	r := request{op: opDelete, method: http.MethodDelete, path: []string{collection, id}}
	err := d.account.client.call(ctx, d.spec.Region, r, &left)
	if cloud.CodeOf(err) == cloud.NotFound {
		*item = Resource{ID: id}
		return nil
	}
	if err != nil {
		return err
	}
	*item = left
	return nil
}

// remains notes what is still there, and for about how long.
func (d *removal) remains(item Resource, wait time.Duration) {
	d.left = append(d.left, string(kindOf(item))+" "+item.ID)
	d.wait = max(d.wait, within(wait))
}
