package hetznertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"slices"
)

func (c *Cloud) createFloating(to call) (map[string]any, error) {
	var want struct {
		Type     string            `json:"type"`
		Name     string            `json:"name"`
		Server   *int64            `json:"server"`
		Labels   map[string]string `json:"labels"`
		Location string            `json:"home_location"`
	}
	if err := json.Unmarshal(to.body, &want); err != nil {
		return nil, invalid("%v", err)
	}
	if want.Server == nil && want.Location == "" {
		return nil, invalid("a floating IP needs a server or a location")
	}
	if err := c.checkFloating(want.Type, want.Name, want.Labels); err != nil {
		return nil, err
	}
	f := &floating{name: want.Name, created: c.clock(), labels: maps.Clone(want.Labels), location: want.Location}
	if want.Server != nil {
		s, err := c.reached(call{id: *want.Server})
		if err != nil {
			return nil, err
		}
		f.server, f.location = s.id, s.location
	}
	c.addFloating(f)
	return map[string]any{"floating_ip": c.showFloating(f), "action": c.action("create_floating_ip", f.id)}, nil
}

func (c *Cloud) checkFloating(family, name string, labels map[string]string) error {
	if !slices.Contains([]string{"ipv4", "ipv6"}, family) {
		return invalid("invalid input in field 'type'")
	}
	for _, f := range c.floats {
		if f.name == name && name != "" {
			return refuse(http.StatusConflict, "uniqueness_error", "floating IP name is already used")
		}
	}
	return checkLabels(labels)
}

func (c *Cloud) addFloating(f *floating) {
	f.id = c.next()
	f.ip = addressOf(netip.AddrFrom4([4]byte{198, 51, 100, 1}), f.id)
	c.floats[f.id] = f
}

func (c *Cloud) deleteFloating(to call) (map[string]any, error) {
	f, there := c.floats[to.id]
	switch {
	case !there:
		return nil, missing("floating IP")
	case f.server != 0:
		return nil, refuse(http.StatusUnprocessableEntity, "must_be_unassigned", "floating IP is assigned")
	}
	delete(c.floats, to.id)
	return nil, nil //nolint:nilnil // Hetzner answers without a body
}

func (c *Cloud) unassignFloating(to call) (map[string]any, error) {
	f, there := c.floats[to.id]
	if !there {
		return nil, missing("floating IP")
	}
	f.server = 0
	return map[string]any{"action": c.action("unassign_floating_ip", f.id)}, nil
}

func (c *Cloud) assignFloating(to call) (map[string]any, error) {
	var want struct {
		Server int64 `json:"server"`
	}
	if err := json.Unmarshal(to.body, &want); err != nil {
		return nil, invalid("%v", err)
	}
	f, there := c.floats[to.id]
	if !there {
		return nil, missing("floating IP")
	}
	s, err := c.reached(call{id: want.Server})
	if err != nil {
		return nil, err
	}
	f.server = s.id
	return map[string]any{"action": c.action("assign_floating_ip", s.id)}, nil
}

func (c *Cloud) showFloating(f *floating) map[string]any {
	shown := map[string]any{
		"id": f.id, "name": f.name, "ip": f.ip, "type": "ipv4", "server": nil, "created": f.created, "labels": f.labels,
		"blocked": false, "dns_ptr": []any{}, "protection": map[string]any{"delete": false},
		"home_location": c.showLocation(f.location),
	}
	if f.server != 0 {
		shown["server"] = f.server
	}
	return shown
}
