package hetznertest

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Token is the API token of DefaultSettings.
const Token = "hetznertest0token+of/the=project0000000000000000000000000000000" //nolint:gosec // of the double

// OtherToken is the API token of another project, where nothing is.
const OtherToken = "hetznertest0other+project=00000000000000000000000000000000000000" //nolint:gosec // of the double

// Settings are what a project has. Change alters them.
type Settings struct {
	Tokens    []string
	Locations []string
	Types     map[string]Type  // by name
	Images    []Image          // several may have one name
	Keys      map[string]int64 // ids of SSH keys by fingerprint
	Networks  map[string]int64 // ids by name, as the next
	Firewalls map[string]int64
	Groups    map[string]int64 // placement groups

	Create  time.Duration // until a server is made, and locked
	Boot    time.Duration // from then until it runs
	Remove  time.Duration // from the deletion until it has gone
	Hide    time.Duration // how long reads miss what is new
	Off     bool          // servers stay off when they are made, as Hetzner leaves some
	PageMax int           // the most things on a page

	Attach       time.Duration // until a server is in its networks, from when it is made
	AttachFails  int           // this many of the next networks are accepted for a server that never gets into them
	FullNetworks bool          // networks have no address left
	GroupLag     time.Duration // how long a placement group does not show a new member
	Lingering    map[int64]int // members that a placement group counts and does not show, by its id
	NoSpread     bool          // no host is left that a spread placement group allows

	Quota  int // servers; 0 is no limit
	Hourly int // calls an hour, which come back one by one; 0 is no limit
}

// Type is a server type.
type Type struct {
	Cores        int
	Memory       float64 // GiB
	Disk         int     // GB
	Architecture string  // x86 or arm

	Locations []string // where it is offered; nil is everywhere
	Refused   []string // locations that list it and refuse it
}

// Image is what a server is made from.
type Image struct {
	ID                 int64
	Name, Architecture string
	Deprecated         bool
}

// The ids of DefaultSettings.
const (
	imageX86, imageARM, imageOld, snapshot = 101, 102, 100, 103
	sshKey                                 = 201
	networkA, networkB                     = 301, 302
	firewallA, firewallB                   = 401, 402
	groupA, groupB                         = 501, 502
)

// Fingerprint is that of the SSH key of DefaultSettings.
const Fingerprint = "b7:2f:30:a0:2f:6c:58:6c:21:04:58:61:ba:06:3b:2f"

// DefaultSettings are a project with some of everything.
func DefaultSettings() Settings {
	const pageMax = 50
	return Settings{
		Tokens: []string{Token}, Locations: []string{"fsn1", "hel1", "nbg1"},
		Types: map[string]Type{
			"cx23":  {Cores: 2, Memory: 4, Disk: 40, Architecture: "x86"},
			"cx33":  {Cores: 4, Memory: 8, Disk: 80, Architecture: "x86"},
			"cax11": {Cores: 2, Memory: 4, Disk: 40, Architecture: "arm"},
		},
		Images: []Image{
			{ID: imageOld, Name: "ubuntu-24.04", Architecture: "x86", Deprecated: true},
			{ID: imageX86, Name: "ubuntu-24.04", Architecture: "x86"},
			{ID: imageARM, Name: "ubuntu-24.04", Architecture: "arm"},
			{ID: snapshot, Architecture: "x86"},
		},
		Keys: map[string]int64{Fingerprint: sshKey}, Networks: map[string]int64{"nodes": networkA, "storage": networkB},
		Firewalls: map[string]int64{"workers": firewallA, "all": firewallB},
		Groups:    map[string]int64{"spread-1": groupA, "spread-2": groupB},
		Attach:    time.Second,
		Create:    2 * time.Second, Boot: 3 * time.Second, Remove: 2 * time.Second, PageMax: pageMax,
	}
}

// Cloud is a project at Hetzner. It is an http.Handler and safe for concurrent use.
type Cloud struct {
	mu       sync.Mutex
	settings Settings
	now      func() time.Time
	odd      func(request string)
	other    *Cloud // the project of OtherToken; nil until it is asked for
	serial   int64
	shift    time.Duration
	spent    float64 // calls of the bucket
	asked    time.Time

	servers map[int64]*server
	floats  map[int64]*floating
	volumes map[int64]*volume
}

// server is a virtual machine.
type server struct {
	id       int64
	name     string
	kind     string
	location string
	image    int64
	created  time.Time
	started  time.Time // of the last boot, which takes its time; zero while it is off
	deleted  time.Time // zero until somebody deletes it
	forced   string    // a status that a test sets
	labels   map[string]string
	userData string
	networks []int64             // that it was asked to be in
	joined   map[int64]time.Time // those that it gets into, and from when on
	group    int64
	ipv4     int64 // id of its primary IP; 0 is none
	ipv6     int64
	boots    int
}

type floating struct {
	id       int64
	name, ip string
	server   int64 // 0 is none
	created  time.Time
	labels   map[string]string
	location string
}

type volume struct {
	id      int64
	server  int64
	created time.Time
	labels  map[string]string
}

// firstID is that of the first thing which is made; Hetzner's ids have eight digits or more.
const firstID = 40_000_000

// New returns a Cloud. Odd is called with each request that no client of Hetzner's would send, and
// that the Cloud refuses for it; a test fails then. Now is the clock, nil is time.Now.
func New(settings Settings, now func() time.Time, odd func(request string)) *Cloud {
	if now == nil {
		now = time.Now
	}
	return &Cloud{
		settings: settings, now: now, odd: odd, serial: firstID,
		servers: map[int64]*server{}, floats: map[int64]*floating{}, volumes: map[int64]*volume{},
	}
}

// Change alters the settings.
func (c *Cloud) Change(f func(*Settings)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.settings)
}

// Advance lets time pass.
func (c *Cloud) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}

// Now is the Cloud's time.
func (c *Cloud) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock()
}

// Left is how many calls the project may make now, where there is a limit.
func (c *Cloud) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refill()
	return int(float64(c.settings.Hourly) - c.spent)
}

// clock is the Cloud's time. The lock is held, as in all that follows.
func (c *Cloud) clock() time.Time { return c.now().Add(c.shift).UTC() }

func (c *Cloud) next() int64 {
	c.serial++
	return c.serial
}

// status is a server's state.
func (c *Cloud) status(s *server) string {
	now := c.clock()
	switch {
	case !s.deleted.IsZero():
		return "deleting"
	case c.locked(s):
		return "initializing"
	case s.forced != "":
		return s.forced
	case s.started.IsZero():
		return "off"
	case now.Before(s.started.Add(c.settings.Boot)):
		return "starting"
	}
	return "running"
}

// locked reports whether a server is still being made.
func (c *Cloud) locked(s *server) bool { return c.clock().Before(s.created.Add(c.settings.Create)) }

// sweep takes away what has gone by now, with the addresses that go with it. Volumes and
// floating IPs stay.
func (c *Cloud) sweep() {
	now := c.clock()
	for id, s := range c.servers {
		if s.deleted.IsZero() || now.Before(s.deleted.Add(c.settings.Remove)) {
			continue
		}
		delete(c.servers, id)
		for _, f := range c.floats {
			if f.server == id {
				f.server = 0
			}
		}
		for _, v := range c.volumes {
			if v.server == id {
				v.server = 0
			}
		}
	}
}

// shown reports whether reads show what was made at that time.
func (c *Cloud) shown(created time.Time) bool { return !c.clock().Before(created.Add(c.settings.Hide)) }

// ids are the keys of things, in order.
func ids[T any](things map[int64]T) []int64 { return slices.Sorted(maps.Keys(things)) }
