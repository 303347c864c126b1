package azure

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opTags = "set tags"

// fixed are the keys of a class's tags that tell whose a resource is, as they are spelled.
func (s *spec) fixed(keys map[string]string) []string {
	var fixed []string
	for key := range keys {
		if _, is := keptKeys(s.ownership)[strings.ToLower(key)]; is {
			fixed = append(fixed, key)
		}
	}
	return fixed
}

func keptKeys(keys []string) map[string]struct{} {
	kept := map[string]struct{}{}
	for _, key := range keys {
		kept[key] = struct{}{}
	}
	return kept
}

// UserTags returns the tags of c that SetTags sets.
func (*Driver) UserTags(c cloud.Class) map[string]string {
	s, ok := c.Spec.(*spec)
	if !ok {
		return map[string]string{}
	}
	return codec.UserTags(s.Tags, s.fixed(s.Tags)...)
}

// SetTags changes the tags of the VM of r, and of its disks and interfaces that carry those
// of the class.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	v, s, err := a.staying(ctx, opTags, r)
	if err != nil {
		return err
	}
	all := []resource{v.resource}
	for t, err := range a.parts(ctx, opTags, s, v.Name) {
		if err != nil {
			return err
		}
		if v.has(t) && s.ownsPart(t, r) {
			all = append(all, t)
		}
	}
	for _, t := range all {
		if err := a.retag(ctx, s, t, obsolete); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a resource is a disk or an interface of the VM.
func (v virtualMachine) has(t resource) bool {
	var ids []string
	if n := v.Properties.Network; n != nil {
		for _, ref := range n.Interfaces {
			ids = append(ids, ref.ID)
		}
		for _, made := range n.Configured {
			ids = append(ids, strings.TrimSuffix(v.ID, vmType+"/"+v.Name)+nicType+"/"+made.Name)
		}
	}
	for _, id := range ids {
		if strings.EqualFold(id, t.ID) {
			return true
		}
	}
	return strings.EqualFold(t.ManagedBy, v.ID)
}

// retag changes the tags of one resource. Obsolete ones go first: with what replaces them,
// there may be more than Azure takes.
func (a *account) retag(ctx context.Context, s *spec, t resource, obsolete []string) error {
	wanted, gone := codec.UserTags(s.Tags, s.fixed(s.Tags)...), map[string]string{}
	for _, key := range codec.Obsolete(obsolete, s.Tags, s.fixed(t.Tags)...) {
		if value, has := t.Tags[key]; has {
			gone[key] = value // Azure removes a tag only with its value
		}
	}
	maps.DeleteFunc(wanted, func(key, value string) bool { now, has := t.Tags[key]; return has && now == value })
	for _, step := range []tagChange{{Operation: "Delete", Properties: tagSet{gone}}, {"Merge", tagSet{wanted}}} {
		if len(step.Properties.Tags) == 0 {
			continue
		}
		e := a.client.do(ctx, opTags, request{
			method: http.MethodPatch, path: t.ID + "/providers/" + resourceAPI, version: resourcesVersion, body: step,
		})
		if e != nil && e.Code == cloud.NotFound {
			e.Code = cloud.Unavailable // it has gone meanwhile; the next call does not find it
		}
		if e != nil {
			return driverkit.Restrict(e, cloud.Invalid)
		}
	}
	return nil
}

// tagChange changes some tags of a resource, and no others.
type tagChange struct {
	Operation  string `json:"operation"`
	Properties tagSet `json:"properties"`
}

type tagSet struct {
	Tags map[string]string `json:"tags"`
}
