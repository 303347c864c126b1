package hetzner

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// resolve returns the request for the server of r, with the ids of what the class names but for its
// placement group.
func (a *account) resolve(ctx context.Context, op string, s *spec, r cloud.CreateRequest) (creation, error) {
	c := creation{
		Name: r.Name, ServerType: s.ServerType, Location: locationOf(s.zoneFor(r)), UserData: sent(r.UserData),
		StartAfterCreate: true,
	}
	if !*s.AssignPublicIPv4 || !*s.AssignPublicIPv6 {
		c.PublicNet = &publicNet{EnableIPv4: *s.AssignPublicIPv4, EnableIPv6: *s.AssignPublicIPv6}
	}
	image, err := a.image(ctx, op, s)
	if err != nil {
		return c, err
	}
	c.Image = image
	if s.SSHFingerprint != "" {
		key, err := a.lookUp(ctx, op, question{
			kind: "ssh_keys", by: "fingerprint", value: s.SSHFingerprint, field: "sshFingerprint",
			remedy: "put the SSH key into the project, or give the fingerprint of one that is there",
		})
		if err != nil {
			return c, err
		}
		c.SSHKeys = []int64{key}
	}
	if c.Networks, err = a.lookUpAll(ctx, op, "networks", s.networks(), s.NetworkName); err != nil {
		return c, err
	}
	firewalls, err := a.lookUpAll(ctx, op, "firewalls", s.Firewalls, "")
	if err != nil {
		return c, err
	}
	for _, id := range firewalls {
		c.Firewalls = append(c.Firewalls, firewallRef{id})
	}
	return c, nil
}

// question is what is looked up: things of a kind by one of their fields.
type question struct {
	kind, by, value string
	more            url.Values
	field, remedy   string // of the provider spec
}

// lookUp returns the id of the only thing that is asked for; of several images, that of the
// newest which is not deprecated.
func (a *account) lookUp(ctx context.Context, op string, q question) (int64, error) {
	key := strings.Join([]string{q.kind, q.value, q.more.Encode()}, " ")
	return a.ids.Get(ctx, op, key, func(ctx context.Context) (int64, error) {
		query := url.Values{q.by: {q.value}}
		maps.Copy(query, q.more)
		answer := map[string][]named{}
		if err := a.things(ctx, op, q.kind, query, answer); err != nil {
			return 0, err
		}
		found := answer[q.kind]
		if len(found) == 0 {
			return 0, driverkit.WithField(cloud.Errorf(cloud.Invalid, op, "NotFound",
				"the project has none of the %s with the %s %q", strings.ReplaceAll(q.kind, "_", " "), q.by, q.value),
				q.field, q.remedy)
		}
		return slices.MaxFunc(found, newer).ID, nil
	})
}

// newer orders images: those that are deprecated first, and then by age.
func newer(a, b named) int {
	switch {
	case a.Deprecated != nil && b.Deprecated == nil:
		return -1
	case a.Deprecated == nil && b.Deprecated != nil:
		return 1
	}
	return a.Created.Compare(b.Created)
}

// things reads the first page of a kind into an answer.
func (a *account) things(ctx context.Context, op, kind string, query url.Values, answer map[string][]named) error {
	var body struct {
		Images          []named `json:"images"`
		SSHKeys         []named `json:"ssh_keys"`
		Networks        []named `json:"networks"`
		Firewalls       []named `json:"firewalls"`
		PlacementGroups []named `json:"placement_groups"`
	}
	if e := a.get(ctx, op, "/"+kind+"?"+query.Encode(), &body); e != nil {
		return driverkit.Restrict(e)
	}
	answer["images"], answer["ssh_keys"], answer["networks"] = body.Images, body.SSHKeys, body.Networks
	answer["firewalls"], answer["placement_groups"] = body.Firewalls, body.PlacementGroups
	return nil
}

// lookUpAll returns the ids of networks or firewalls. A number is an id. MCM's name is in a field
// of its own.
func (a *account) lookUpAll(ctx context.Context, op, kind string, names []string, mcm string) ([]int64, error) {
	var ids []int64
	for _, name := range names {
		field := kind
		if name == mcm {
			field = "networkName"
		}
		id, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			id, err = a.lookUp(ctx, op, question{
				kind: kind, by: "name", value: name, field: field, remedy: "name one that is there, or give its id",
			})
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// image returns the id of the class's image. Images of one name are of one architecture each.
func (a *account) image(ctx context.Context, op string, s *spec) (int64, error) {
	if id, err := strconv.ParseInt(s.ImageName, 10, 64); err == nil {
		return id, nil
	}
	kind, err := a.serverType(ctx, op, s.ServerType)
	if err != nil {
		return 0, err
	}
	return a.lookUp(ctx, op, question{
		kind: "images", by: "name", value: s.ImageName,
		more:  url.Values{"architecture": {kind.Architecture}, "include_deprecated": {"true"}},
		field: "imageName", remedy: "name an image for servers of the architecture " + kind.Architecture,
	})
}

// serverType returns what Hetzner says of a server type.
func (a *account) serverType(ctx context.Context, op, name string) (serverType, error) {
	return a.types.Get(ctx, op, name, func(ctx context.Context) (serverType, error) {
		var answer struct {
			ServerTypes []serverType `json:"server_types"`
		}
		if e := a.get(ctx, op, "/server_types?"+url.Values{"name": {name}}.Encode(), &answer); e != nil {
			return serverType{}, driverkit.Restrict(e)
		}
		if len(answer.ServerTypes) == 0 {
			return serverType{}, driverkit.WithField(cloud.Errorf(cloud.Invalid, op, "UnknownServerType",
				"Hetzner has no server type %q", name), "serverType", "name one that it offers")
		}
		return answer.ServerTypes[0], nil
	})
}
