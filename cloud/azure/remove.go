package azure

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opDelete = "delete VM"

// Delete removes the VM of r, with which its disks and interfaces go, and then what of them
// is left.
func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	s, err := driverkit.SpecOf[*spec](opDelete, r.Class)
	if err != nil {
		return cloud.Deletion{}, driverkit.Restrict(err)
	}
	vm := func(ctx context.Context) ([]driverkit.Part, error) {
		v, found, err := a.vmFor(ctx, opDelete, s, r)
		if err != nil || !found || !s.owns(v, r) {
			return nil, driverkit.Restrict(err)
		}
		part := driverkit.Part{Kind: cloud.KindVM, ID: v.Name}
		if v.Properties.ProvisioningState != stateDeleting {
			part = a.part(cloud.KindVM, v.Name, a.client.path(s, vmType, v.Name), computeVersion)
		}
		return []driverkit.Part{part}, nil
	}
	loose := func(ctx context.Context) ([]driverkit.Part, error) { return a.loose(ctx, s, r) }
	return driverkit.Remove(ctx, driverkit.RemoveStep{Find: vm, RetryAfter: pollWait},
		driverkit.RemoveStep{Find: loose, RetryAfter: pollWait})
}

// part is a resource that Delete removes.
func (a *account) part(kind cloud.Kind, id, path, version string) driverkit.Part {
	return driverkit.Part{Kind: kind, ID: id, Remove: func(ctx context.Context) (bool, error) {
		return a.remove(ctx, opDelete, path, version)
	}}
}

// remove asks for a resource to go, and reports whether it is gone already.
func (a *account) remove(ctx context.Context, op, path, version string) (gone bool, err error) {
	e := a.client.do(ctx, op, request{method: http.MethodDelete, path: path, version: version})
	switch {
	case e == nil:
		return false, nil
	case e.Code == cloud.NotFound:
		return true, nil
	}
	return false, driverkit.Restrict(reserved(e))
}

// loose finds the disks and interfaces that are the machine's and that no VM has.
func (a *account) loose(ctx context.Context, s *spec, r cloud.Ref) ([]driverkit.Part, error) {
	var parts []driverkit.Part
	for t, err := range a.parts(ctx, opDelete, s, r.Name) {
		switch {
		case err != nil:
			return nil, err
		case t.ManagedBy != "" || !s.ownsPart(t, r):
		case strings.EqualFold(t.Type, nicType):
			parts = append(parts, a.part(cloud.KindInterface, t.Name, a.client.path(s, nicType, t.Name), networkVersion))
		case strings.EqualFold(t.Type, diskType):
			parts = append(parts, a.part(cloud.KindDisk, t.Name, a.client.path(s, diskType, t.Name), diskVersion))
		}
	}
	return parts, nil
}

// parts yields the resources of the class's group whose names contain that of a machine, as
// those of all its disks and interfaces do, in one call for all kinds.
func (a *account) parts(ctx context.Context, op string, s *spec, name string) func(func(resource, error) bool) {
	return func(yield func(resource, error) bool) {
		if name == "" {
			return
		}
		filter := "substringof('" + strings.ReplaceAll(name, "'", "''") + "', name)"
		for t, err := range list[resource](ctx, a.client, op, request{
			path: a.client.group(s, "") + "/resources", version: resourcesVersion, query: url.Values{"$filter": {filter}},
		}) {
			if err != nil && (cloud.CodeOf(err) == cloud.NotFound) {
				return // the whole group is gone
			}
			if !yield(t, driverkit.Restrict(err)) || err != nil {
				return
			}
		}
	}
}

// ownsPart reports whether a disk or an interface is provably of r.
func (s *spec) ownsPart(t resource, r cloud.Ref) bool {
	tags := t.tags()
	return driverkit.Carries(tags, s.ownership) && driverkit.IsOf(r, tags[ownerTag], s.machineOf(t))
}

// machineOf is the name of the machine of a disk or interface: that of the tag, or, if MCM
// made it, what its own name says. It is empty for other resources.
func (s *spec) machineOf(t resource) string {
	if name := t.tags()[machineTag]; name != "" {
		return name
	}
	suffixes := []string{osSuffix}
	for _, d := range s.Properties.Storage.DataDisks {
		suffixes = append(suffixes, d.suffix())
	}
	if strings.EqualFold(t.Type, nicType) {
		suffixes = []string{nicSuffix}
	}
	for _, suffix := range suffixes {
		if name, is := strings.CutSuffix(strings.ToLower(t.Name), strings.ToLower(suffix)); is {
			return name
		}
	}
	return ""
}
