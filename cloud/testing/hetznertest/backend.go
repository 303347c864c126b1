package hetznertest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// The labels that tell whose a resource is, as the driver writes them.
const (
	machineLabel = cloud.TagPrefix + "machine"
	ownerLabel   = cloud.TagPrefix + "owner-id"
)

// Ledger returns all that is in the project. The addresses that servers get by themselves have no
// labels; they are their server's.
func (c *Cloud) Ledger() []cloud.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	var all []cloud.Resource
	add := func(kind cloud.Kind, id int64, labels map[string]string, name string, attached bool, created time.Time) {
		if labels[machineLabel] != "" {
			name = labels[machineLabel]
		}
		all = append(all, cloud.Resource{
			Kind: kind, ID: strconv.FormatInt(id, 10), MachineName: name, OwnerID: labels[ownerLabel], Attached: attached,
			Created: created,
		})
	}
	for id, s := range c.servers {
		add(cloud.KindVM, id, s.labels, s.name, false, s.created)
		for _, address := range []int64{s.ipv4, s.ipv6} {
			if address != 0 {
				add(cloud.KindAddress, address, s.labels, "", true, s.created)
			}
		}
	}
	for id, f := range c.floats {
		add(cloud.KindAddress, id, f.labels, "", f.server != 0, f.created)
	}
	for id, v := range c.volumes {
		add(cloud.KindDisk, id, v.labels, "", v.server != 0, v.created)
	}
	return all
}

// Seed is a resource that somebody else has put into the project.
type Seed struct {
	Kind     cloud.Kind
	Name     string // of a server, or of a floating IP; empty gives it one that nothing else has
	Labels   map[string]string
	Location string
	Type     string
	Server   string // id of the server that it is attached to
	Networks []int64
	Age      time.Duration
}

// Put puts a resource into the project and returns its id. A name that is taken is left out.
func (c *Cloud) Put(seed Seed) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	created := c.clock().Add(-seed.Age)
	server64, _ := strconv.ParseInt(seed.Server, 10, 64) // empty is none
	switch seed.Kind {
	case cloud.KindAddress:
		f := &floating{
			name: seed.Name, created: created, labels: maps.Clone(seed.Labels), server: server64, location: seed.Location,
		}
		c.addFloating(f)
		return strconv.FormatInt(f.id, 10)
	case cloud.KindDisk:
		v := &volume{id: c.next(), server: server64, created: created, labels: maps.Clone(seed.Labels)}
		c.volumes[v.id] = v
		return strconv.FormatInt(v.id, 10)
	case cloud.KindVM, cloud.KindInterface, cloud.KindKey:
	}
	s := &server{
		id: c.next(), name: seed.Name, kind: seed.Type, location: seed.Location, created: created, started: created,
		labels: maps.Clone(seed.Labels), boots: 1,
	}
	for _, other := range c.servers {
		if other.name == s.name {
			s.name = ""
		}
	}
	if s.name == "" {
		s.name = "seed-" + strconv.FormatInt(s.id, 10)
	}
	s.networks, s.ipv4 = seed.Networks, c.next()
	c.join(s, created.Add(-c.settings.Attach), seed.Networks...)
	c.servers[s.id] = s
	return strconv.FormatInt(s.id, 10)
}

// with lets f have a server.
func (c *Cloud) with(id string, f func(*server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	number, _ := strconv.ParseInt(id, 10, 64) // what is no number is no server
	if s, there := c.servers[number]; there {
		f(s)
	}
}

// SetStatus brings a server into a state.
func (c *Cloud) SetStatus(id, status string) {
	c.with(id, func(s *server) {
		switch s.forced = status; status {
		case "deleting":
			s.deleted = c.clock()
		case "gone":
			s.deleted = c.clock().Add(-c.settings.Remove)
		}
	})
}

// Boots tells how often a server was started or reset.
func (c *Cloud) Boots(id string) (text string) {
	c.with(id, func(s *server) { text = fmt.Sprint(s.boots) })
	return text
}

// UserData returns what a server boots with, as cloud-init reads it: it decodes what is base64.
func (c *Cloud) UserData(id string) (data []byte) {
	c.with(id, func(s *server) {
		data = []byte(s.userData)
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s.userData)); err == nil {
			data = decoded
		}
	})
	return data
}

// Labels returns the labels of a server.
func (c *Cloud) Labels(id string) (labels map[string]string) {
	c.with(id, func(s *server) { labels = maps.Clone(s.labels) })
	return labels
}

// Server is a server that runs.
type Server struct{ ID, Name, Type, Address string }

// Running returns the servers that run, by id.
func (c *Cloud) Running() []Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	var all []Server
	for _, id := range ids(c.servers) {
		s := c.servers[id]
		if c.status(s) == "running" {
			all = append(all, Server{ID: strconv.FormatInt(id, 10), Name: s.name, Type: s.kind, Address: privateIP(0, id)})
		}
	}
	return all
}
