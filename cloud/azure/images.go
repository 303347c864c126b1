package azure

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// diskImages makes the data disks that have an image of their own: a VM can attach them, and
// not make them. A positive wait means that they are not finished.
func (c *creation) diskImages(ctx context.Context) (wait time.Duration, err error) {
	for _, d := range c.Properties.Storage.DataDisks {
		if d.Image == nil {
			continue
		}
		made, err := c.ensureDisk(ctx, d)
		if err != nil {
			return 0, err
		}
		if made.Properties.ProvisioningState != stateDone {
			wait = pollWait
		}
	}
	return wait, nil
}

// ensureDisk returns a disk of the machine, made if need be. A disk of that name which is not
// the machine's stays as it is: a request for it would change it. One that no VM can attach, because an
// earlier try made it for another zone or could not make it, is deleted, and made again once it is gone.
func (c *creation) ensureDisk(ctx context.Context, d diskSpec) (disk, error) {
	var there disk
	name := d.nameFor(c.request.Name)
	path := c.client.path(c.spec, diskType, name)
	e := c.client.do(ctx, opCreate, request{method: http.MethodGet, path: path, version: diskVersion, out: &there})
	switch {
	case e == nil && c.ownsPart(there.resource, c.request.Ref):
		return there, c.replace(ctx, &there, path)
	case e == nil:
		return there, cloud.Errorf(cloud.Unknown, opCreate, codeNameTaken,
			"the resource group has a disk %q that is not this machine's; delete it, or give the machine another name", name)
	case e.Code != cloud.NotFound:
		return there, driverkit.Restrict(e)
	}
	var made disk
	e = c.client.do(ctx, opCreate, request{
		method: http.MethodPut, path: path, version: diskVersion, body: c.diskOf(d), out: &made,
	})
	if e != nil {
		return made, c.refused(c.request, e)
	}
	return made, nil
}

// replace deletes a disk of the machine that no VM can attach. Those of a VM stay.
func (c *creation) replace(ctx context.Context, there *disk, path string) error {
	failed := there.Properties.ProvisioningState == stateFailed
	if there.ManagedBy != "" || !failed && slices.Equal(there.Zones, c.wantedZones()) {
		return nil
	}
	if _, err := c.remove(ctx, opCreate, path, diskVersion); err != nil {
		return err
	}
	there.Properties.ProvisioningState = stateDeleting
	if failed {
		e := cloud.Errorf(cloud.Unavailable, opCreate, "DiskFailed",
			"disk %q could not be made of its image; it is deleted and made again", there.Name)
		e.RetryAfter = pollWait
		return e
	}
	return nil
}

// wantedZones are those of the VM and of its disks: one, or none.
func (c *creation) wantedZones() []string {
	if zone := c.zoneFor(c.request); zone != "" {
		return []string{zone}
	}
	return nil
}

// clear removes what of the machine has no VM, and returns the error of a request that found the name of a disk
// or an interface taken: an earlier try has left it, and the next one finds the name free.
func (c *creation) clear(ctx context.Context, taken error) error {
	left, err := c.loose(ctx, c.spec, c.request.Ref)
	if err != nil {
		return driverkit.WithOp(opCreate, err)
	}
	for _, part := range left {
		if _, err := part.Remove(ctx); err != nil {
			return driverkit.WithOp(opCreate, err)
		}
	}
	return taken
}

// diskOf is the disk to ask for.
func (c *creation) diskOf(d diskSpec) disk {
	tags, _ := c.tagsFor(c.request, nil) // what does not fit has been refused
	out := disk{resource: resource{Location: c.Location, Tags: tags, Zones: c.wantedZones()}, SKU: &sku{d.Type}}
	out.Properties.SizeGB, out.Properties.OSType = d.SizeGB, "Linux" // as MCM has it
	out.Properties.Creation = &creationData{Option: fromImage}
	image := imageParts{ID: d.Image.ID, CommunityGallery: d.Image.CommunityGallery, SharedGallery: d.Image.SharedGallery}
	if d.Image.URN != "" {
		image.ID = c.client.images(c.Location, *d.Image.reference())
	}
	if strings.Contains(strings.ToLower(image.ID), "/galleries/") || image.ID == "" {
		out.Properties.Creation.Gallery = &image
	} else {
		out.Properties.Creation.Image = &image
	}
	return out
}

// images is the path of a version of a marketplace image.
func (c *client) images(location string, i imageReference) string {
	part := url.PathEscape
	return "/subscriptions/" + part(c.subscription) + "/providers/Microsoft.Compute/locations/" + part(location) +
		"/publishers/" + part(i.Publisher) + "/artifacttypes/vmimage/offers/" + part(i.Offer) + "/skus/" + part(i.SKU) +
		"/versions/" + part(i.Version)
}
