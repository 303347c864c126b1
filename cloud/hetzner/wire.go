package hetzner

import (
	"net/url"
	"strconv"
	"time"
)

// server is a server as Hetzner shows it.
type server struct {
	ID         int64             `json:"id"`
	Name       string            `json:"name"`
	Status     string            `json:"status"`
	Created    time.Time         `json:"created"`
	Labels     map[string]string `json:"labels"`
	ServerType struct {
		Name string `json:"name"`
	} `json:"server_type"`
	Location struct {
		Name string `json:"name"`
	} `json:"location"`
	PublicNet struct {
		IPv4        *publicIP `json:"ipv4"`
		IPv6        *publicIP `json:"ipv6"`
		FloatingIPs []int64   `json:"floating_ips"`
	} `json:"public_net"`
	PrivateNet []privateNet `json:"private_net"` // those that it is in by now
}

// privateNet is a network that a server is in.
type privateNet struct {
	Network int64  `json:"network"`
	IP      string `json:"ip"`
}

type publicIP struct {
	IP string `json:"ip"` // of IPv6 a network, as 2001:db8::/64
}

// path is that of the server's own calls.
func (t server) path() string { return "/servers/" + strconv.FormatInt(t.ID, 10) }

type serverAnswer struct {
	Server server `json:"server"`
}

type serverList struct {
	page

	Servers []server `json:"servers"`
}

// servers is how servers are listed.
func servers() listed[serverList, server] {
	return listed[serverList, server]{
		path:  "servers",
		items: func(a *serverList) ([]server, page) { return a.Servers, a.page },
		id:    func(t server) int64 { return t.ID },
	}
}

// creation is the request for a server.
type creation struct {
	Name             string            `json:"name"`
	ServerType       string            `json:"server_type"`
	Image            int64             `json:"image"`
	Location         string            `json:"location"`
	UserData         string            `json:"user_data,omitempty"`
	StartAfterCreate bool              `json:"start_after_create"`
	Labels           map[string]string `json:"labels"`
	SSHKeys          []int64           `json:"ssh_keys,omitempty"`
	Networks         []int64           `json:"networks,omitempty"`
	Firewalls        []firewallRef     `json:"firewalls,omitempty"`
	PlacementGroup   int64             `json:"placement_group,omitempty"`
	PublicNet        *publicNet        `json:"public_net,omitempty"` // nil for addresses of both families
}

type firewallRef struct {
	Firewall int64 `json:"firewall"`
}

type publicNet struct {
	EnableIPv4 bool `json:"enable_ipv4"`
	EnableIPv6 bool `json:"enable_ipv6"`
}

// floatingIP is a floating IP as Hetzner shows it.
type floatingIP struct {
	ID      int64             `json:"id"`
	Name    string            `json:"name"`
	IP      string            `json:"ip"`
	Server  *int64            `json:"server"`
	Created time.Time         `json:"created"`
	Labels  map[string]string `json:"labels"`
}

func (t floatingIP) path() string { return "/floating_ips/" + strconv.FormatInt(t.ID, 10) }

type floatingList struct {
	page

	FloatingIPs []floatingIP `json:"floating_ips"`
}

// floatingIPs is how floating IPs are listed.
func floatingIPs() listed[floatingList, floatingIP] {
	return listed[floatingList, floatingIP]{
		path:  "floating_ips",
		items: func(a *floatingList) ([]floatingIP, page) { return a.FloatingIPs, a.page },
		id:    func(t floatingIP) int64 { return t.ID },
	}
}

// serverType is what Hetzner says of a server type.
type serverType struct {
	Name         string  `json:"name"`
	Cores        int     `json:"cores"`
	Memory       float64 `json:"memory"` // GiB
	Disk         int     `json:"disk"`   // GB
	Architecture string  `json:"architecture"`

	Locations []struct { // where it is offered
		Name        string `json:"name"`
		Deprecation *struct {
			UnavailableAfter time.Time `json:"unavailable_after"`
		} `json:"deprecation"`
	} `json:"locations"`
}

// named is what has an id and a name.
type named struct {
	ID         int64      `json:"id"`
	Name       string     `json:"name"`
	Created    time.Time  `json:"created"`
	Deprecated *time.Time `json:"deprecated"` // of images
	Servers    []int64    `json:"servers"`    // of placement groups
}

// selecting is the query for what a label selector selects.
func selecting(selector string) url.Values { return url.Values{"label_selector": {selector}} }
