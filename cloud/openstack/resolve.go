package openstack

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// How long names are believed to mean the same.
const (
	idAge     = time.Minute
	flavorAge = 5 * time.Minute
)

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
func (a *account) flavorNamed(ctx context.Context, op, name string) (flavor, *cloud.Error) {
	if f, known := a.flavors.get("name "+name, a.now(), flavorAge); known {
		return f, nil
	}
	if err := a.learnFlavors(ctx, op); err != nil {
		return flavor{}, err
	}
	if f, known := a.flavors.get("name "+name, a.now(), flavorAge); known {
		return f, nil
	}
	return flavor{}, cloud.Errorf(cloud.NotFound, op, reasonNoFlavor, "there is no flavor %q", name)
}

// flavorName returns the name of a flavor, or its id if nobody knows it any more.
func (a *account) flavorName(ctx context.Context, op, id string) (string, *cloud.Error) {
	if id == "" {
		return "", nil
	}
	if f, known := a.flavors.get("id "+id, a.now(), flavorAge); known {
		return f.Name, nil
	}
	if err := a.learnFlavors(ctx, op); err != nil {
		return "", about(err)
	}
	f, known := a.flavors.get("id "+id, a.now(), flavorAge)
	if !known {
		f = flavor{ID: id, Name: id}
		a.flavors.put("id "+id, f, a.now())
	}
	return f.Name, nil
}

func (a *account) learnFlavors(ctx context.Context, op string) *cloud.Error {
	all := pages(ctx, a, op, listing[flavor]{nova, "flavors/detail", "flavors", nil, func(f flavor) string {
		return f.ID
	}})
	for f, err := range all {
		if err != nil {
			return err
		}
		a.flavors.put("name "+f.Name, f, a.now())
		a.flavors.put("id "+f.ID, f, a.now())
	}
	return nil
}

// reference is a resource that a class names: in which collection of a service,
// and by which field.
type reference struct {
	of                service
	path, name, field string
}

// only returns the id of the one resource of that name.
func (a *account) only(ctx context.Context, op string, w reference) (string, *cloud.Error) {
	key := w.path + " " + w.name
	if id, known := a.ids.get(key, a.now(), idAge); known {
		return id, nil
	}
	var found []string
	all := pages(ctx, a, op, listing[idName]{
		w.of, w.path, strings.ReplaceAll(w.path, "-", "_"),
		url.Values{"name": {w.name}},
		func(t idName) string { return t.ID },
	})
	for t, err := range all {
		if err != nil {
			return "", about(err)
		}
		if t.Name == w.name {
			found = append(found, t.ID)
		}
	}
	if len(found) != 1 {
		e := cloud.Errorf(cloud.Invalid, op, "NotOne", "there are %d %s named %q", len(found),
			strings.ReplaceAll(w.path, "-", " "), w.name)
		return "", blame(e, w.field, "name exactly one, or give its id")
	}
	a.ids.put(key, found[0], a.now())
	return found[0], nil
}

// imageOf returns the id of the image.
func (a *account) imageOf(ctx context.Context, op string, s *spec) (string, *cloud.Error) {
	if s.ImageID != "" {
		return s.ImageID, nil
	}
	return a.only(ctx, op, reference{glance, "images", s.ImageName, "spec.imageName"})
}

// networks returns what Nova makes ports in.
func (a *account) networks(ctx context.Context, c *config) ([]map[string]string, *cloud.Error) {
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
func (a *account) podNetworks(ctx context.Context, c *config) ([]string, *cloud.Error) {
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

func (a *account) networkOf(ctx context.Context, i int, n network) (string, *cloud.Error) {
	if n.ID != "" {
		return n.ID, nil
	}
	return a.only(ctx, opCreate, reference{neutron, "networks", n.Name, fmt.Sprintf("spec.networks[%d].name", i)})
}

// groups returns the ids of the security groups. One that is given by its id is
// taken as it is.
func (a *account) groups(ctx context.Context, c *config) ([]string, *cloud.Error) {
	var all []string
	for i, name := range c.Spec.SecurityGroups {
		if strings.TrimSpace(name) == "" {
			continue
		}
		if serverID.MatchString(name) {
			all = append(all, name)
			continue
		}
		id, err := a.only(ctx, opCreate,
			reference{neutron, "security-groups", name, fmt.Sprintf("spec.securityGroups[%d]", i)})
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, nil
}
