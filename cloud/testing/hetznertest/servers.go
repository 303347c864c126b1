package hetznertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// The forms that Hetzner documents: host names, and labels as Kubernetes has them.
var (
	hostName = regexp.MustCompile(
		`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	labelKey = regexp.MustCompile(
		`^([a-z0-9A-Z]([-_.a-z0-9A-Z]{0,253}[a-z0-9A-Z])?/)?[a-z0-9A-Z]([-_.a-z0-9A-Z]{0,61}[a-z0-9A-Z])?$`)
	labelValue = regexp.MustCompile(`^([a-z0-9A-Z]([-_.a-z0-9A-Z]{0,61}[a-z0-9A-Z])?)?$`)
)

func checkLabels(labels map[string]string) error {
	for key, value := range labels {
		if !labelKey.MatchString(key) || !labelValue.MatchString(value) {
			return invalid("label %q: %q is not correctly formatted", key, value)
		}
	}
	return nil
}

// wanted is a request for a server.
type wanted struct {
	Name       string            `json:"name"`
	ServerType any               `json:"server_type"`
	Image      any               `json:"image"`
	Location   string            `json:"location"`
	UserData   string            `json:"user_data"`
	Start      *bool             `json:"start_after_create"`
	Labels     map[string]string `json:"labels"`
	SSHKeys    []int64           `json:"ssh_keys"`
	Networks   []int64           `json:"networks"`
	Firewalls  []struct {
		Firewall int64 `json:"firewall"`
	} `json:"firewalls"`
	PlacementGroup int64 `json:"placement_group"`
	PublicNet      *struct {
		EnableIPv4 bool `json:"enable_ipv4"`
		EnableIPv6 bool `json:"enable_ipv6"`
	} `json:"public_net"`
}

// public reports whether a server gets a public address of a version of IP. It does unless the
// request says no.
func (w wanted) public(version int) bool {
	return w.PublicNet == nil || version == 4 && w.PublicNet.EnableIPv4 || version == 6 && w.PublicNet.EnableIPv6
}

func (c *Cloud) createServer(to call) (map[string]any, error) {
	var want wanted
	if err := json.Unmarshal(to.body, &want); err != nil {
		return nil, invalid("%v", err)
	}
	image, err := c.checkServer(want)
	if err != nil {
		return nil, err
	}
	if err := c.checkRoom(want); err != nil {
		return nil, err
	}
	s := &server{
		id: c.next(), name: want.Name, kind: fmt.Sprint(want.ServerType), location: want.Location, image: image,
		created: c.clock(), labels: maps.Clone(want.Labels), userData: want.UserData, networks: want.Networks,
		group: want.PlacementGroup,
	}
	if want.public(4) {
		s.ipv4 = c.next()
	}
	if want.public(6) {
		s.ipv6 = c.next()
	}
	if (want.Start == nil || *want.Start) && !c.settings.Off {
		s.started, s.boots = s.created.Add(c.settings.Create), 1
	}
	c.join(s, s.created.Add(c.settings.Create), want.Networks...)
	if len(s.joined) == 0 && s.ipv4+s.ipv6 == 0 {
		s.started, s.boots = time.Time{}, 0 // Hetzner does not start what nothing could reach
	}
	c.servers[s.id] = s
	return map[string]any{
		"server": c.showServer(s), "action": c.action("create_server", s.id), "next_actions": []any{}, "root_password": nil,
	}, nil
}

// checkServer returns what of a request is wrong in itself, and the id of the image.
func (c *Cloud) checkServer(want wanted) (int64, error) {
	kind, known := c.settings.Types[fmt.Sprint(want.ServerType)]
	image, there := c.imageOf(want.Image, kind)
	switch {
	case !hostName.MatchString(want.Name):
		return 0, invalid("invalid input in field 'name'")
	case !known:
		return 0, missing("server type")
	case !there:
		return 0, missing("image")
	case image.Architecture != kind.Architecture:
		return 0, invalid("image and server type have different architectures")
	}
	return image.ID, errors.Join(c.checkPlace(want), c.checkRefs(want), checkLabels(want.Labels))
}

// join lets a server get into networks, or fails at it after it has accepted them.
func (c *Cloud) join(s *server, from time.Time, networks ...int64) {
	for _, network := range networks {
		if c.settings.AttachFails > 0 {
			c.settings.AttachFails--
			continue
		}
		if s.joined == nil {
			s.joined = map[int64]time.Time{}
		}
		s.joined[network] = from.Add(c.settings.Attach)
	}
}

// attachServer puts a server into a network.
func (c *Cloud) attachServer(to call) (map[string]any, error) {
	var want struct {
		Network int64 `json:"network"`
	}
	if err := json.Unmarshal(to.body, &want); err != nil {
		return nil, invalid("%v", err)
	}
	s, err := c.reached(to)
	_, joined := s.inNetwork(want.Network)
	switch {
	case err != nil:
		return nil, err
	case !has(c.settings.Networks, want.Network):
		return nil, missing("network")
	case c.settings.FullNetworks:
		return nil, refuse(http.StatusConflict, "no_subnet_available", "no subnet or IP is available in the network")
	case joined:
		return nil, refuse(http.StatusUnprocessableEntity, "server_already_attached", "server is already attached")
	}
	if !slices.Contains(s.networks, want.Network) {
		s.networks = append(s.networks, want.Network)
	}
	c.join(s, c.clock(), want.Network)
	return map[string]any{"action": c.action("attach_to_network", s.id)}, nil
}

// inNetwork returns from when on a server is in a network, if it is to be.
func (s *server) inNetwork(id int64) (from time.Time, joined bool) {
	if s == nil {
		return from, false
	}
	from, joined = s.joined[id]
	return from, joined
}

// checkPlace returns what is wrong with where a server is to be, and what it boots with.
func (c *Cloud) checkPlace(want wanted) error {
	const userDataMax = 32 << 10
	switch {
	case !slices.Contains(c.settings.Locations, want.Location):
		return invalid("invalid input in field 'location'")
	case !c.offers(fmt.Sprint(want.ServerType), want.Location):
		return invalid("unsupported location for server type")
	case len(want.UserData) > userDataMax:
		return invalid("invalid input in field 'user_data': more than %d bytes", userDataMax)
	case len(want.Networks) == 0 && !want.public(4) && !want.public(6):
		return invalid("a server needs a network")
	}
	return nil
}

// offers reports whether a server of that type can be had in a location.
func (c *Cloud) offers(kind, location string) bool {
	of := c.settings.Types[kind]
	return (of.Locations == nil || slices.Contains(of.Locations, location)) && !slices.Contains(of.Refused, location)
}

// checkRefs returns which thing of a request the project does not have.
func (c *Cloud) checkRefs(want wanted) error {
	if want.PlacementGroup != 0 && !has(c.settings.Groups, want.PlacementGroup) {
		return missing("placement group")
	}
	for _, f := range want.Firewalls {
		if !has(c.settings.Firewalls, f.Firewall) {
			return missing("firewall")
		}
	}
	for _, of := range []struct {
		what  string
		known map[string]int64
		ids   []int64
	}{{"SSH key", c.settings.Keys, want.SSHKeys}, {"network", c.settings.Networks, want.Networks}} {
		for _, id := range of.ids {
			if !has(of.known, id) {
				return missing(of.what)
			}
		}
	}
	return nil
}

// checkRoom returns why a server cannot be made here and now.
func (c *Cloud) checkRoom(want wanted) error {
	inGroup := 0
	for _, s := range c.servers {
		if s.name == want.Name {
			return refuse(http.StatusConflict, "uniqueness_error", "server name is already used")
		}
		if s.group == want.PlacementGroup {
			inGroup++
		}
	}
	const groupMax = 10
	switch {
	case want.PlacementGroup != 0 && inGroup+c.settings.Lingering[want.PlacementGroup] >= groupMax:
		return refuse(http.StatusUnprocessableEntity, "placement_group_member_limit_reached",
			"placement group with ID %d contains already %d servers", want.PlacementGroup, groupMax)
	case want.PlacementGroup != 0 && c.settings.NoSpread:
		return refuse(http.StatusPreconditionFailed, "resource_unavailable", "error during placement")
	case c.settings.Quota > 0 && len(c.servers) >= c.settings.Quota:
		return refuse(http.StatusForbidden, "resource_limit_exceeded", "server limit reached")
	}
	return nil
}

func has(known map[string]int64, id int64) bool {
	return slices.Contains(slices.Collect(maps.Values(known)), id)
}

// imageOf returns the image with an id or a name. A name is that of an image for each
// architecture.
func (c *Cloud) imageOf(want any, kind Type) (Image, bool) {
	for _, image := range c.settings.Images {
		number, isNumber := want.(float64)
		named := want == image.Name && image.Architecture == kind.Architecture
		if isNumber && int64(number) == image.ID || !isNumber && named {
			return image, true
		}
	}
	return Image{}, false
}

// reached returns the server of a call that wants to change it.
func (c *Cloud) reached(to call) (*server, error) {
	s, there := c.servers[to.id]
	if !there {
		return nil, missing("server")
	}
	if c.locked(s) || !s.deleted.IsZero() {
		return nil, refuse(http.StatusLocked, "locked", "server is locked")
	}
	return s, nil
}

func (c *Cloud) getServer(to call) (map[string]any, error) {
	s, there := c.servers[to.id]
	if !there || !c.shown(s.created) {
		return nil, missing("server")
	}
	return map[string]any{"server": c.showServer(s)}, nil
}

func (c *Cloud) updateServer(to call) (map[string]any, error) {
	var want struct {
		Labels *map[string]string `json:"labels"`
	}
	s, there := c.servers[to.id]
	switch err := json.Unmarshal(to.body, &want); {
	case err != nil:
		return nil, invalid("%v", err)
	case !there:
		return nil, missing("server")
	case want.Labels != nil:
		if err := checkLabels(*want.Labels); err != nil {
			return nil, err
		}
		s.labels = *want.Labels
	}
	return map[string]any{"server": c.showServer(s)}, nil
}

func (c *Cloud) deleteServer(to call) (map[string]any, error) {
	s, err := c.reached(to)
	if err != nil {
		return nil, err
	}
	s.deleted = c.clock()
	return map[string]any{"action": c.action("delete_server", s.id)}, nil
}

// startServer powers a server on that is off, or resets one that runs. Others stay as they are.
func (c *Cloud) startServer(to call) (map[string]any, error) {
	s, err := c.reached(to)
	if err != nil {
		return nil, err
	}
	off := c.status(s) == "off"
	command := "start_server"
	if to.path == "/servers/{id}/actions/reset" {
		command, off = "reset_server", !off
	}
	if off && s.ipv4+s.ipv6+int64(len(s.joined)) == 0 {
		return map[string]any{"action": c.action(command, s.id)}, nil // which fails, and the server stays off
	}
	if off {
		s.started, s.forced = c.clock(), ""
		s.boots++
	}
	return map[string]any{"action": c.action(command, s.id)}, nil
}

// action is what Hetzner says of something that it has begun.
func (c *Cloud) action(command string, id int64) map[string]any {
	return map[string]any{
		"id": c.next(), "status": "running", "command": command, "progress": 0, "started": c.clock(), "finished": nil,
		"error": nil, "resources": []any{map[string]any{"id": id, "type": "server"}},
	}
}

// addressOf returns an address that belongs to an id alone.
func addressOf(first netip.Addr, id int64) string {
	address := first
	for range id % (1 << 12) {
		address = address.Next()
	}
	return address.String()
}

// privateIP is the address of a server in its first network, or the second.
func privateIP(network int, id int64) string {
	return addressOf(netip.AddrFrom4([4]byte{10, byte(network + 1), 0, 2}), id) //nolint:gosec // a server has few networks
}

func (c *Cloud) showServer(s *server) map[string]any {
	kind := c.settings.Types[s.kind]
	kind.Cores = max(kind.Cores, 1)
	floats, private, volumes := []int64{}, []any{}, []int64{}
	for _, id := range ids(c.floats) {
		if c.floats[id].server == s.id {
			floats = append(floats, id)
		}
	}
	for _, id := range ids(c.volumes) {
		if c.volumes[id].server == s.id {
			volumes = append(volumes, id)
		}
	}
	for i, network := range s.networks {
		if from, joined := s.inNetwork(network); !joined || c.clock().Before(from) {
			continue
		}
		private = append(private, map[string]any{
			"network": network, "ip": privateIP(i, s.id),
			"alias_ips": []string{}, "mac_address": fmt.Sprintf("86:00:00:%02x:00:01", i),
		})
	}
	return map[string]any{
		"id": s.id, "name": s.name, "status": c.status(s), "created": s.created, "labels": s.labels, "locked": c.locked(s),
		"location": c.showLocation(s.location), "server_type": c.showType(s.kind, kind), "volumes": volumes,
		"private_net": private, "public_net": s.publicNet(floats), "primary_disk_size": kind.Disk,
		"load_balancers": []int64{},
		"protection":     map[string]any{"delete": false, "rebuild": false}, "rescue_enabled": false, "included_traffic": 0,
	}
}

// publicNet is what Hetzner shows of the public addresses of a server; null for what it lacks.
func (s *server) publicNet(floats []int64) map[string]any {
	shown := map[string]any{"floating_ips": floats, "firewalls": []any{}, "ipv4": nil, "ipv6": nil}
	if s.ipv4 != 0 {
		shown["ipv4"] = map[string]any{
			"id": s.ipv4, "blocked": false, "dns_ptr": "", "ip": addressOf(netip.AddrFrom4([4]byte{192, 0, 2, 1}), s.id),
		}
	}
	if s.ipv6 != 0 {
		shown["ipv6"] = map[string]any{
			"id": s.ipv6, "blocked": false, "dns_ptr": []any{},
			"ip": "2001:db8:" + strconv.FormatInt(s.id%(1<<12), 16) + "::/64",
		}
	}
	return shown
}

func (c *Cloud) showLocation(name string) map[string]any {
	return map[string]any{"id": slices.Index(c.settings.Locations, name) + 1, "name": name, "network_zone": "eu-central"}
}

func (c *Cloud) showType(name string, t Type) map[string]any {
	locations := []any{}
	for i, location := range c.settings.Locations {
		if t.Locations == nil || slices.Contains(t.Locations, location) {
			locations = append(locations, map[string]any{
				"id": i + 1, "name": location, "available": true, "recommended": false,
			})
		}
	}
	return map[string]any{
		"locations": locations,
		"name":      name, "cores": t.Cores, "memory": t.Memory, "disk": t.Disk, "architecture": t.Architecture,
		"cpu_type": "shared", "storage_type": "local",
	}
}
