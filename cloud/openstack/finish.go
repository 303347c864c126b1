package openstack

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const opFinish = "configure server"

// finish does what cannot be asked for when a server is made. A positive wait
// means that it is not finished.
func (a *account) finish(ctx context.Context, c *config, r cloud.CreateRequest, s *server) (time.Duration,
	error,
) {
	switch {
	case s.going():
		return 0, nil // whoever looks at its state decides
	case s.unexplained(a.now()):
		return waitForHost, nil
	case s.Status == statusError:
		return 0, a.takeBack(ctx, c, r, *s)
	case s.Status == statusBuild:
		return a.buildWait(*s), nil
	}
	if err := a.connect(ctx, c, r, s); err != nil {
		return 0, err
	}
	return 0, a.markVolumes(ctx, c, r, *s)
}

// explained returns a server with the fault that it failed of. Nova's lists leave out
// the faults of servers in another cell, such as those that never found a host.
func (a *account) explained(ctx context.Context, s server) (server, error) {
	if s.Status != statusError || s.Fault.Message != "" {
		return s, nil
	}
	fresh, found, err := a.byID(ctx, opCreate, s.ID)
	if !found {
		return s, err
	}
	return fresh, nil
}

// takeBack says why a server of this attempt could not be made: it never was a
// VM. It is deleted, so that the attempt can be repeated, unless it has been
// written down already; then it goes with its machine. One that has run and
// failed later stays, to be looked at.
func (a *account) takeBack(ctx context.Context, c *config, r cloud.CreateRequest, s server) error {
	if s.Launched != "" || s.Metadata[attemptKey] != r.Token || r.Token == "" {
		return nil
	}
	if r.ProviderID == "" {
		if err := a.end(ctx, opCreate, s); err != nil {
			return err
		}
	}
	why, fault := reactions.Row(driverkit.Answer{Message: s.Fault.Message}), driverkit.Brief(s.Fault.Message)
	const text = "server %s could not be built: %s"
	if why.Means != cloud.Exhausted {
		return cloud.Errorf(cloud.Unknown, opCreate, "BuildFailed", text, s.ID, fault)
	}
	e := cloud.Errorf(cloud.Exhausted, opCreate, cmp.Or(why.Reason, reasonNoQuota), text, s.ID, fault)
	return c.exhaust(r, e, why.Scope)
}

// buildWait is when it is worth looking again at a server that is being built. Nova
// mostly finds a host within seconds, or none; one that takes longer has much to do.
func (a *account) buildWait(s server) time.Duration {
	const quick = 10 * time.Second
	if s.unplaced() && a.now().Sub(s.Created) < quick {
		return waitForHost
	}
	return waitForBuild
}

// connect sets what Nova does not: which addresses pass the ports of the server, and
// its floating IP.
func (a *account) connect(ctx context.Context, c *config, r cloud.CreateRequest, s *server) error {
	if len(c.Spec.PodNetworkCIDRs) == 0 && !c.Spec.DisablePortSecurity && c.Spec.FloatingIPPool == "" {
		return nil
	}
	var ports []port
	for p, err := range a.ports(ctx, opFinish, url.Values{"device_id": {s.ID}}) {
		if err != nil {
			return driverkit.Restrict(err)
		}
		ports = append(ports, *p.port)
	}
	if err := a.openPorts(ctx, c, r, ports); err != nil || c.Spec.FloatingIPPool == "" {
		return err
	}
	return a.ensureAddress(ctx, c, r, s, ports)
}

// openPorts lets the addresses of pods pass the ports that are in the networks of pods,
// or all addresses pass all ports. What others allowed there stays.
func (a *account) openPorts(ctx context.Context, c *config, r cloud.CreateRequest, ports []port) error {
	networks, err := a.podNetworks(ctx, c)
	if err != nil {
		return err
	}
	for _, p := range ports {
		switch {
		case p.PortSecurity != nil && !*p.PortSecurity:
		case c.Spec.DisablePortSecurity:
			err = a.changePort(ctx, c, r, p, noPortSecurity())
		case slices.Contains(networks, p.NetworkID):
			err = a.openPort(ctx, c, r, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noPortSecurity are the properties of a port that passes every address. Neutron asks for
// empty lists.
func noPortSecurity() map[string]any {
	return map[string]any{
		"port_security_enabled": false, "security_groups": []string{}, "allowed_address_pairs": []pair{},
	}
}

// openPort adds the addresses that a port lacks.
func (a *account) openPort(ctx context.Context, c *config, r cloud.CreateRequest, p port) error {
	pairs := slices.Clone(p.Pairs)
	for _, cidr := range c.Spec.PodNetworkCIDRs {
		if !slices.ContainsFunc(pairs, func(x pair) bool { return x.IP == cidr }) {
			pairs = append(pairs, pair{IP: cidr})
		}
	}
	if len(pairs) == len(p.Pairs) {
		return nil
	}
	return a.changePort(ctx, c, r, p, map[string]any{"allowed_address_pairs": pairs})
}

// changePort changes a port. One that Nova made is also marked, so that it is found
// should Nova leave it behind.
func (a *account) changePort(ctx context.Context, c *config, r cloud.CreateRequest, p port,
	change map[string]any,
) error {
	if p.Name == "" && p.Description == "" {
		change["name"], change["description"] = r.Name, c.portMark(r).String()
	}
	err := a.ask(ctx, opFinish, call{
		method: http.MethodPut, of: neutron, path: "ports/" + p.ID,
		body: map[string]any{"port": change},
	})
	if err == nil || isGone(err) {
		return nil // a port that has gone needs nothing
	}
	return c.invalid(err)
}

// markVolumes gives the boot volume that Nova made for a server the machine's name and
// metadata, so that List shows it and Delete removes it should Nova leave it behind.
// Where that is not permitted, it stays as it is.
func (a *account) markVolumes(ctx context.Context, c *config, r cloud.CreateRequest, s server) error {
	_, marked := a.marked.Known(s.ID)
	if c.Spec.RootDiskSize <= 0 || c.Spec.ownVolume() || marked || !a.has(ctx, cinder) {
		return nil
	}
	volumes, err := a.volumesWith(ctx, s)
	if err != nil {
		return err
	}
	for _, id := range volumes {
		if err := a.markVolume(ctx, c, r, id); err != nil {
			return c.invalid(err)
		}
	}
	if len(volumes) > 0 {
		a.marked.Put(s.ID, true)
	}
	return nil
}

// volumesWith returns the ids of the volumes that Nova deletes with a server.
func (a *account) volumesWith(ctx context.Context, s server) ([]string, error) {
	var out struct {
		Server struct {
			Volumes []struct {
				ID      string `json:"id"`
				GoesToo bool   `json:"delete_on_termination"`
			} `json:"os-extended-volumes:volumes_attached"`
		} `json:"server"`
	}
	err := a.ask(ctx, opFinish, call{
		method: http.MethodGet, of: nova, path: "servers/" + s.ID, out: &out,
		header: map[string]string{"X-OpenStack-Nova-API-Version": "2.3"}, // since then it shows delete_on_termination
	})
	if err != nil {
		return nil, driverkit.Restrict(err)
	}
	var ids []string
	for _, v := range out.Server.Volumes {
		if v.GoesToo {
			ids = append(ids, v.ID)
		}
	}
	return ids, nil
}

// markVolume marks a volume, unless somebody has named it, or it has gone.
func (a *account) markVolume(ctx context.Context, c *config, r cloud.CreateRequest, id string) error {
	var out struct {
		Volume volume `json:"volume"`
	}
	err := a.ask(ctx, opFinish, call{method: http.MethodGet, of: cinder, path: "volumes/" + id, out: &out})
	if err == nil && out.Volume.Name == "" {
		metadata := map[string]string{}
		maps.Copy(metadata, out.Volume.Metadata)
		maps.Copy(metadata, c.metadata(r))
		err = a.ask(ctx, opFinish, call{
			method: http.MethodPut, of: cinder, path: "volumes/" + id,
			body: map[string]any{"volume": map[string]any{"name": r.Name, "metadata": metadata}},
		})
	}
	if isGone(err) || err != nil && cloud.CodeOf(err) == cloud.Denied {
		return nil
	}
	return err
}

const opTags = "set metadata"

// UserTags returns the tags of class that SetTags sets.
func (d *Driver) UserTags(class cloud.Class) map[string]string {
	c, ok := class.Spec.(*config)
	if !ok {
		return map[string]string{}
	}
	return tagCodec.UserTags(c.Spec.Tags, c.ownership...)
}

// SetTags changes the metadata of the server of r, and of its root volume that carries the
// ownership keys. Ports and floating IPs have ownership tags only, which stay.
func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	c, err := driverkit.SpecOf[*config](opTags, r.Class)
	if err != nil {
		return err
	}
	s, err := a.stayingServer(ctx, opTags, c, r)
	if err != nil {
		return err
	}
	change := retag{
		want: tagCodec.UserTags(c.Spec.Tags, c.ownership...),
		gone: tagCodec.Obsolete(obsolete, c.Spec.Tags, c.ownership...),
	}
	if err := a.retag(ctx, nova, "servers/"+s.ID, change.from(s.Metadata)); err != nil || c.Spec.RootDiskSize <= 0 {
		return err
	}
	volumes, err := a.volumesOf(ctx, opTags, c, r)
	if err != nil {
		return err
	}
	for _, v := range volumes {
		if v.attachedTo != s.ID {
			continue
		}
		err := a.retag(ctx, cinder, "volumes/"+v.id, change.from(v.tags))
		if err != nil && cloud.CodeOf(err) != cloud.NotFound { // a volume that has gone has no tags
			return err
		}
	}
	return nil
}

// stayingServer returns the one server of r that is not being deleted.
func (a *account) stayingServer(ctx context.Context, op string, c *config, r cloud.Ref) (server, error) {
	found, err := a.find(ctx, op, c, r)
	if err != nil {
		return server{}, err
	}
	found = slices.DeleteFunc(found, server.going)
	switch len(found) {
	case 0:
		return server{}, cloud.Errorf(cloud.NotFound, op, reasonServerMissing, "Nova shows no server of machine %q",
			r.Name)
	case 1:
		return found[0], nil
	}
	return server{}, several(op, r, found)
}

// retag is a change of metadata: what it is to have, and the keys that are to go.
type retag struct {
	want map[string]string
	gone []string
}

// from is what is left of the change where there is this metadata already.
func (c retag) from(has map[string]string) retag {
	left := retag{want: maps.Clone(c.want)}
	maps.DeleteFunc(left.want, func(key, value string) bool { now, there := has[key]; return there && now == value })
	for _, key := range c.gone {
		if _, there := has[key]; there && isSegment(key) {
			left.gone = append(left.gone, key)
		}
	}
	return left
}

// isSegment reports whether a key of metadata can be a segment of a path, where requests that
// delete it name it. A proxy that resolves "." and ".." would make of the deletion of such a key
// that of the server.
func isSegment(key string) bool { return metadataKey.MatchString(key) && key != "." && key != ".." }

// retag changes the metadata of a server or a volume. Both services merge what is sent, and
// delete keys one by one. Those that go do so first: with what replaces them, there may be more
// than the quota of metadata.
func (a *account) retag(ctx context.Context, of service, path string, change retag) error {
	for _, key := range change.gone {
		err := a.ask(ctx, opTags, call{method: http.MethodDelete, of: of, path: path + "/metadata/" + url.PathEscape(key)})
		if err != nil && !isGone(err) {
			return driverkit.Restrict(err, cloud.Invalid)
		}
	}
	if len(change.want) == 0 {
		return nil
	}
	err := a.ask(ctx, opTags, call{
		method: http.MethodPost, of: of, path: path + "/metadata", body: map[string]any{"metadata": change.want},
	})
	return driverkit.Restrict(err, cloud.NotFound, cloud.Invalid)
}
