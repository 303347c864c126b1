package cloudtest_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// diskTags are those of the disk that is made with a VM.
func diskTags(vm *resource) map[string]string {
	tags := maps.Clone(vm.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[cloud.OnTerminationTag] = string(retentionOf(vm.Keep))
	return tags
}

func retentionOf(keep bool) cloud.Retention {
	if keep {
		return cloud.RetentionKeep
	}
	return cloud.RetentionDelete
}

// retention is what becomes of t: what the cloud shows while it is attached, and else its tag.
func (a *account) retention(t resource) cloud.Retention {
	switch {
	case t.Kind != "disk":
		return ""
	case t.VM != "":
		return retentionOf(t.Keep)
	}
	return cloud.RetentionOf(t.Tags[cloud.OnTerminationTag])
}

// mayGo reports whether t may be deleted for r.
func (a *account) mayGo(r cloud.Ref, t resource) bool {
	switch {
	case a.bug("asksTheClass"):
		return t.Kind != "disk" || !r.Class.Spec.(spec).Keep
	case a.bug("takesTheUndecided"):
		return a.retention(t) != cloud.RetentionKeep
	case a.bug("keepsForEver"):
		return t.Kind != "disk"
	}
	return a.retention(t).MayGo()
}

// recordKept tags the disks of VMs that stay.
func (a *account) recordKept(ctx context.Context, r cloud.Ref, vms []resource) error {
	disks, err := a.mine(ctx, r, "disk")
	if err != nil || a.bug("forgetsTheOlder") {
		return err
	}
	for _, t := range disks {
		attached := slices.ContainsFunc(vms, func(vm resource) bool { return t.VM == vm.ID })
		if attached && t.Tags[cloud.OnTerminationTag] != string(a.retention(t)) {
			if err := a.tagRetention(ctx, r.Class, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *account) tagRetention(ctx context.Context, c cloud.Class, t resource) error {
	tags := maps.Clone(t.Tags)
	tags[cloud.OnTerminationTag] = string(a.retention(t))
	return a.call(ctx, "tag", http.MethodPatch, c, "/disk/"+t.ID, tags, &t)
}

func (a *account) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) error {
	for _, p := range parts {
		var t resource
		err := a.call(ctx, "show disk", http.MethodGet, c, "/disk/"+p.ID, nil, &t)
		if err == nil && t.VM != "" && !a.bug("recordsNothing") {
			err = a.tagRetention(ctx, c, t)
		}
		if err != nil && cloud.CodeOf(err) != cloud.NotFound {
			return err
		}
	}
	return nil
}

// undecide takes the tags off that say what stays.
func (s *server) undecide(testing.TB) {
	s.locked(func() {
		for _, t := range s.resources {
			t.Tags = maps.Clone(t.Tags)
			delete(t.Tags, cloud.OnTerminationTag)
		}
	})
}
