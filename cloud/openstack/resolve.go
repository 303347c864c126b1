package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// How long names are believed to mean the same.
const (
	idAge     = time.Minute
	flavorAge = 5 * time.Minute
)

// lookupTimeout is how long a look-up by name may take. All who ask for the name wait for
// the same one, so it must not hang for as long as a single call may.
const lookupTimeout = 30 * time.Second

// idName is whatever has an id and a name.
type idName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// flavor is one of Nova's.
type flavor struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	CPUs      int64  `json:"vcpus"`
	MemoryMiB int64  `json:"ram"`
	DiskGiB   int64  `json:"disk"`
}

// flavorNamed returns the flavor of that name. Code NotFound if there is none.
func (a *account) flavorNamed(ctx context.Context, op, name string) (flavor, error) {
	if f, known := a.flavors.Known("name " + name); known {
		return f, nil
	}
	if err := a.learnFlavors(ctx, op); err != nil {
		return flavor{}, err
	}
	if f, known := a.flavors.Known("name " + name); known {
		return f, nil
	}
	return flavor{}, cloud.Errorf(cloud.NotFound, op, reasonNoFlavor, "there is no flavor %q", name)
}

// flavorName returns the name of a flavor, or its id once the flavor has been deleted.
func (a *account) flavorName(ctx context.Context, op, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	if f, known := a.flavors.Known("id " + id); known {
		return f.Name, nil
	}
	if err := a.learnFlavors(ctx, op); err != nil {
		return "", driverkit.Restrict(err)
	}
	f, known := a.flavors.Known("id " + id)
	if !known {
		f = flavor{ID: id, Name: id}
		a.flavors.Put("id "+id, f)
	}
	return f.Name, nil
}

func (a *account) learnFlavors(ctx context.Context, op string) error {
	all := pages(ctx, a, op, listing[flavor]{nova, "flavors/detail", "flavors", nil, func(f flavor) string {
		return f.ID
	}})
	for f, err := range all {
		if err != nil {
			return err
		}
		a.flavors.Put("name "+f.Name, f)
		a.flavors.Put("id "+f.ID, f)
	}
	return nil
}

// reference is a resource that a class names: in which collection of a service,
// and by which field.
type reference struct {
	of                service
	path, name, field string
	query             url.Values // narrows the collection; nil takes all
}

// key returns how answers call the collection, and what the reference is known as.
func (w reference) key() (inAnswer, known string) {
	return strings.ReplaceAll(strings.TrimPrefix(w.path, "os-"), "-", "_"), w.path + " " + w.query.Encode() + " " + w.name
}

// idOf returns the id of a resource that is given by id or name.
func (a *account) idOf(ctx context.Context, w reference) (string, error) {
	if serverID.MatchString(w.name) {
		return w.name, nil
	}
	return a.only(ctx, opCreate, w)
}

// only returns the id of the one resource of that name.
func (a *account) only(ctx context.Context, op string, w reference) (string, error) {
	collection, key := w.key()
	return a.ids.Get(ctx, op, key, func(ctx context.Context) (string, error) {
		query := url.Values{"name": {w.name}}
		maps.Copy(query, w.query)
		var found []string
		all := pages(ctx, a, op, listing[idName]{w.of, w.path, collection, query, func(t idName) string { return t.ID }})
		for t, err := range all {
			if err != nil {
				return "", driverkit.Restrict(err)
			}
			if t.Name == w.name {
				found = append(found, t.ID)
			}
		}
		if len(found) != 1 {
			e := cloud.Errorf(cloud.Invalid, op, "NotOne", "there are %d %s named %q", len(found),
				strings.ReplaceAll(collection, "_", " "), w.name)
			return "", driverkit.WithField(e, w.field, "name exactly one, or give its id")
		}
		return found[0], nil
	})
}

// imageOf returns the id of the image.
func (a *account) imageOf(ctx context.Context, op string, s *spec) (string, error) {
	if s.ImageID != "" {
		return s.ImageID, nil
	}
	return a.only(ctx, op, reference{of: glance, path: "images", name: s.ImageName, field: "spec.imageName"})
}

// networks returns what Nova makes ports in.
func (a *account) networks(ctx context.Context, c *config) ([]map[string]string, error) {
	if id := c.Spec.NetworkID; id != "" {
		return []map[string]string{{"uuid": id}}, nil
	}
	var all []map[string]string
	for i, n := range c.Spec.Networks {
		id, err := a.networkOf(ctx, i, n)
		if err != nil {
			return nil, err
		}
		all = append(all, map[string]string{"uuid": id})
	}
	return all, nil
}

// podNetworks returns the ids of the networks in which pods have addresses.
func (a *account) podNetworks(ctx context.Context, c *config) ([]string, error) {
	if id := c.Spec.NetworkID; id != "" {
		return []string{id}, nil
	}
	var all []string
	for i, n := range c.Spec.Networks {
		if !n.PodNetwork {
			continue
		}
		id, err := a.networkOf(ctx, i, n)
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, nil
}

func (a *account) networkOf(ctx context.Context, i int, n network) (string, error) {
	if n.ID != "" {
		return n.ID, nil
	}
	return a.only(ctx, opCreate, reference{
		of: neutron, path: "networks", name: n.Name, field: fmt.Sprintf("spec.networks[%d].name", i),
	})
}

// serverGroup returns the id of the server group; empty if the class names none.
func (a *account) serverGroup(ctx context.Context, s *spec) (string, error) {
	switch {
	case s.ServerGroupID != nil:
		return *s.ServerGroupID, nil
	case s.ServerGroup == "":
		return "", nil
	}
	return a.idOf(ctx, reference{
		of: nova, path: "os-server-groups", name: s.ServerGroup, field: "spec.serverGroup",
	})
}

// pool returns the id of the external network that floating IPs are of; empty if the
// class names none.
func (a *account) pool(ctx context.Context, s *spec) (string, error) {
	if s.FloatingIPPool == "" {
		return "", nil
	}
	return a.idOf(ctx, reference{
		of: neutron, path: "networks", name: s.FloatingIPPool, field: "spec.floatingIPPool",
		query: url.Values{"router:external": {"true"}},
	})
}

// subnets returns the subnets of a network that the port has an address of each of.
func (a *account) subnets(ctx context.Context, c *config, network string) ([]map[string]string, error) {
	ids := slices.Clone(c.Spec.SubnetIDs)
	if len(c.Spec.Subnets) > 0 {
		ids = nil
	}
	for i, name := range c.Spec.Subnets {
		id, err := a.idOf(ctx, reference{
			of: neutron, path: "subnets", name: name, field: fmt.Sprintf("spec.subnets[%d]", i),
			query: url.Values{"network_id": {network}},
		})
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	var all []map[string]string
	for _, id := range ids {
		all = append(all, map[string]string{"subnet_id": id})
	}
	return all, nil
}

// groups returns the ids of the security groups.
func (a *account) groups(ctx context.Context, c *config) ([]string, error) {
	if name := c.Spec.DefaultSecurityGroup; name != "" {
		id, err := a.defaultGroup(ctx, name)
		return []string{id}, err
	}
	var all []string
	for i, name := range c.Spec.SecurityGroups {
		if blank(name) {
			continue
		}
		id, err := a.idOf(ctx, reference{
			of: neutron, path: "security-groups", name: name, field: fmt.Sprintf("spec.securityGroups[%d]", i),
		})
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, nil
}
