package openstack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// cinder is block storage with memory. It speaks what Nova and a driver speak
// with Cinder's version 3, microversion 3.44 and later for attachments. Tests,
// which may be in another process, see and fill it at backdoorPath.
type cinder struct {
	projectOf func(ctx context.Context, token string) (string, bool)

	mu          sync.Mutex
	number      int
	volumes     map[string]*Volume
	attachments map[string]*attachment
	tokens      map[string]known
}

// Volume is one of Cinder's.
type Volume struct {
	ID, Project, Name, Status string
	Size                      int
	Type, Zone, ImageID       string
	Metadata                  map[string]string
	Created                   time.Time
	Moving                    bool // it is on its way to another state

	ready time.Time // when it gets there
}

// attachment ties a volume to a server.
type attachment struct {
	id, volume, server string
	connector          bool
	done               bool
}

// known is a token that Keystone has vouched for.
type known struct {
	project string
	until   time.Time
}

// How long a volume takes to come and to go.
const volumeTime = 300 * time.Millisecond

func newCinder(projectOf func(ctx context.Context, token string) (string, bool)) *cinder {
	return &cinder{
		projectOf: projectOf, volumes: map[string]*Volume{}, attachments: map[string]*attachment{},
		tokens: map[string]known{},
	}
}

// id has the form of a UUID. The lock is held.
func (c *cinder) id(kind int) string {
	c.number++
	return fmt.Sprintf("c1d3e000-000%d-4000-8000-%012x", kind, c.number)
}

// add puts a volume into a project and returns its id.
func (c *cinder) add(v Volume) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.ID = c.id(1)
	if v.Created.IsZero() {
		v.Created = time.Now()
	}
	v.Metadata = maps.Clone(v.Metadata)
	c.volumes[v.ID] = &v
	return v.ID
}

// list returns the volumes of a project, sorted by id.
func (c *cinder) list(project string) []Volume {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age()
	var all []Volume
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		if v := c.volumes[id]; v.Project == project {
			one := *v
			one.Moving = !v.ready.IsZero()
			all = append(all, one)
		}
	}
	return all
}

// age lets volumes become what they are becoming. The lock is held.
func (c *cinder) age() {
	now := time.Now()
	for id, v := range c.volumes {
		switch {
		case v.ready.IsZero() || now.Before(v.ready):
		case v.Status == "creating":
			v.Status, v.ready = "available", time.Time{}
		case v.Status == "deleting":
			delete(c.volumes, id)
		}
	}
}

// attached returns the attachments of a volume, sorted. The lock is held.
func (c *cinder) attached(volume string) []*attachment {
	var all []*attachment
	for _, id := range slices.Sorted(maps.Keys(c.attachments)) {
		if a := c.attachments[id]; a.volume == volume {
			all = append(all, a)
		}
	}
	return all
}
