package gcp

import (
	"context"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opRetention = "record retention"

// retentionOf returns what becomes of a disk with autoDelete when its instance goes.
func retentionOf(autoDelete bool) cloud.Retention {
	if autoDelete {
		return cloud.RetentionDelete
	}
	return cloud.RetentionKeep
}

// retentionLabel returns the label of a disk that says so once it is loose.
func retentionLabel(autoDelete bool) map[string]string {
	label, _ := codec.Encode(map[string]string{cloud.OnTerminationTag: string(retentionOf(autoDelete))})
	return label
}

// diskOf returns the place of the disk that an instance shows.
func (i instance) diskOf(d attached) place { return place{i.place().zone, path.Base(d.Source)} }

// disk returns the disk at a place; nil if there is none.
func (c *client) disk(ctx context.Context, op string, at place) (*disk, error) {
	var found disk
	e := c.do(ctx, op, driverkit.Call{Method: http.MethodGet, URL: in(at.zone, "disks", at.name), Out: &found})
	switch {
	case e == nil:
		return &found, nil
	case e.Code == cloud.NotFound:
		return nil, nil //nolint:nilnil // that there is none is an answer
	}
	return nil, driverkit.Restrict(e)
}

// recordKept labels the disks of r that stay when its instance goes and do not say so: those of
// instances that were made before disks had that label, and those whose autoDelete a person has
// taken away.
func (a *account) recordKept(ctx context.Context, s *spec, r cloud.Ref, i instance) error {
	for _, at := range i.Disks {
		if at.AutoDelete || at.Source == "" {
			continue
		}
		d, err := a.client.disk(ctx, opDelete, i.diskOf(at))
		if err != nil {
			return err
		}
		if d == nil || !s.ownsDisk(*d, r) {
			continue
		}
		if err := a.label(ctx, opDelete, *d, at.AutoDelete); err != nil {
			return err
		}
	}
	return nil
}

// label labels a disk with what becomes of it. That the label is refused for good is no error: a disk
// without it is reported when it is loose, and stays.
func (a *account) label(ctx context.Context, op string, d disk, autoDelete bool) error {
	want := retentionLabel(autoDelete)
	labels := driverkit.MergeTags(d.Labels, nil, want)
	if maps.Equal(labels, d.Labels) {
		return nil
	}
	e := a.client.do(ctx, op, driverkit.Call{
		Method: http.MethodPost, URL: in(d.place().zone, "disks", d.Name, "setLabels"),
		Body: map[string]any{"labels": labels, "labelFingerprint": d.LabelFingerprint},
	})
	if e == nil || e.Code == cloud.Denied || e.Code == cloud.Invalid || e.Code == cloud.NotFound {
		return nil
	}
	return driverkit.Restrict(e)
}

// RecordRetention labels disks that are attached with what their instances show.
func (a *account) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	s, err := driverkit.SpecOf[*spec](opRetention, c)
	if err != nil {
		return driverkit.Restrict(err)
	}
	seen := map[place]*instance{}
	for _, part := range parts {
		zone, name, _ := strings.Cut(part.ID, "/")
		at := place{zone, name}
		d, err := a.client.disk(ctx, opRetention, at)
		if err != nil {
			return err
		}
		if d == nil || len(d.Users) == 0 || !driverkit.Carries(d.Labels, s.ownership) {
			continue
		}
		user := place{at.zone, path.Base(d.Users[0])}
		if _, known := seen[user]; !known {
			if seen[user], err = a.client.get(ctx, opRetention, user); err != nil {
				return driverkit.Restrict(err)
			}
		}
		i := seen[user]
		if i == nil {
			continue
		}
		n := slices.IndexFunc(i.Disks, func(x attached) bool { return x.Source != "" && i.diskOf(x) == at })
		if n < 0 {
			continue
		}
		if err := a.label(ctx, opRetention, *d, i.Disks[n].AutoDelete); err != nil {
			return err
		}
	}
	return nil
}
