package ec2test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Kinds of resources.
const (
	KindInstance  = "instance"
	KindVolume    = "volume"
	KindInterface = "network-interface"

	KindSpotRequest = "spot-instances-request" // a persistent one
)

// The credentials of DefaultSettings.
const (
	KeyID     = "EC2TESTKEYID00000001"
	SecretKey = "ec2test/secret+access/keyb7Xq2Lm9Rt4Zw1"
)

// Settings are what a Cloud has. Change alters them.
type Settings struct {
	Region    string
	AccountID string
	Accounts  map[string]string       // secret access keys by id; a key that is taken away is revoked
	Subnets   map[string]Subnet       // by id
	Images    map[string]string       // root device by id
	Types     map[string]InstanceType // by name
	Groups    []string                // security groups
	Keys      []string                // key pairs
	Profiles  []string                // names or ARNs of instance profiles

	TargetGroups map[string]TargetGroup // of Elastic Load Balancing, by ARN

	PageSize   int           // resources an answer holds
	EmptyPages bool          // the first page of a listing is empty, and has a token
	Boot       time.Duration // from pending to running
	Shutdown   time.Duration // from shutting-down to terminated
	Remembered time.Duration // how long a terminated instance is shown
	Settle     time.Duration // how long reads miss a new resource

	ConsolePost time.Duration // from the launch until a console is posted, see GetConsoleOutput

	Capacity map[string]int    // instances by "<zone>/<type>"; no entry is no limit
	Quota    int               // instances; 0 is no limit
	Buckets  map[string]Bucket // tokens by action, see DocumentedBuckets; an action without has no limit
}

// Subnet is a part of a zone.
type Subnet struct {
	Zone string
	VPC  string
	Free int // addresses; negative is no limit
}

// InstanceType is what an instance has.
type InstanceType struct {
	CPU, MemoryMiB, GPU int
	Architecture        string
	Xen                 bool // it is none on Nitro
}

// DefaultSettings are a region with two subnets in two zones.
func DefaultSettings() Settings {
	return Settings{
		Region: "eu-west-1", AccountID: "123456789012",
		Accounts: map[string]string{KeyID: SecretKey},
		Subnets:  map[string]Subnet{"subnet-a1": {Zone: "eu-west-1a", Free: -1}, "subnet-b1": {Zone: "eu-west-1b", Free: -1}},
		Images:   map[string]string{"ami-1": "/dev/xvda", "ami-2": "/dev/sda1"},
		Types: map[string]InstanceType{
			"m5.large":   {CPU: 2, MemoryMiB: 8192, Architecture: "x86_64"},
			"m6g.large":  {CPU: 2, MemoryMiB: 8192, Architecture: "arm64"},
			"p3.2xlarge": {CPU: 8, MemoryMiB: 62464, GPU: 1, Architecture: "x86_64", Xen: true},
		},
		Groups: []string{"sg-1", "sg-2"}, Keys: []string{"a-key"},
		Profiles:     []string{"nodes", "arn:aws:iam::123456789012:instance-profile/nodes"},
		TargetGroups: map[string]TargetGroup{GroupAPIServer: {}, GroupIngress: {}, GroupElsewhere: {VPC: "vpc-2"}},
		PageSize:     1000,
		Remembered:   time.Hour,
		ConsolePost:  4 * time.Minute,
	}
}

// Resource is an instance, a volume or an interface.
type Resource struct {
	Kind, ID string
	Tags     map[string]string
	Made     time.Time
	Instance string // that it is part of; empty when it is loose

	// Of an instance.
	Input       url.Values // as RunInstances got it
	Type, Zone  string
	Subnet      string
	IP          string
	UserData    []byte
	Terminated  time.Time // when its deletion was requested
	Code, Why   string    // state reason
	Stopped     bool
	Boots       int // after the first
	NoDNS       bool
	SpotRequest string // persistent, that has launched it

	// Of a volume or an interface.
	Device          string
	Index, Card     int
	DeleteWith      bool // goes with its instance
	InterfaceType   string
	SourceDestCheck bool
	IPv6, Prefixes  []string
	PublicIP        string

	console []printed
	serial  int
}

// Call is one request that was understood.
type Call struct {
	Action string
	Form   url.Values
	Code   string // of the error; empty on success
}

// Cloud is EC2 in one region. It is safe for concurrent use.
type Cloud struct {
	now func() time.Time

	mu       sync.Mutex
	settings Settings
	other    *Cloud // another account; nil until it calls
	all      map[string]*Resource
	tokens   map[tokenKey]token
	serial   int
	calls    []Call
	faults   []*Fault
	levels   map[string]level    // of the buckets
	targets  map[string][]Target // by target group
}

// tokenKey is a ClientToken in a zone.
type tokenKey struct{ token, zone string }

// token is what was made under a ClientToken.
type token struct {
	asked    string // parameters
	instance string
}

// New returns an empty Cloud; now nil is time.Now.
func New(s Settings, now func() time.Time) *Cloud {
	if now == nil {
		now = time.Now
	}
	return &Cloud{
		now: now, settings: s, all: map[string]*Resource{}, tokens: map[tokenKey]token{},
		levels: map[string]level{}, targets: map[string][]Target{},
	}
}

// Change alters the settings.
func (c *Cloud) Change(f func(s *Settings)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.settings)
}

// Fault is an error that calls meet.
type Fault struct {
	Action        string // empty is any
	Code, Message string
	Status        int  // 0 is 400
	After         bool // it happens all the same
	Times         int  // calls that fail; 0 is all
	Every         int  // fails only each n-th call; 0 is each

	seen, hit int
}

// Inject puts a fault to work.
func (c *Cloud) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// Calls returns what was asked for since the last Forget.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Forget empties the record of calls.
func (c *Cloud) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// Ledger returns all that is there, in the order of making; terminated
// instances are left out.
func (c *Cloud) Ledger() []Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	var all []Resource
	for _, r := range c.sorted() {
		if r.Kind != KindInstance || c.state(r) != stateTerminated {
			all = append(all, copyOf(r))
		}
	}
	return all
}

// Look returns a resource, also when it is terminated.
func (c *Cloud) Look(id string) (Resource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.all[id]
	if r == nil {
		return Resource{}, false
	}
	return copyOf(r), true
}

// Edit alters a resource behind everybody's back.
func (c *Cloud) Edit(id string, f func(r *Resource)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.all[id]; r != nil {
		f(r)
	}
}

// End terminates an instance as EC2 does by itself, e.g. for a spot
// interruption: at once.
func (c *Cloud) End(id, code, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.all[id]; r != nil {
		c.terminate(r, code, why)
		r.Terminated = r.Terminated.Add(-c.settings.Shutdown)
		c.sweep()
	}
}

// Add puts a resource into the cloud and returns its id. An instance gets a
// volume and an interface with the same tags.
func (c *Cloud) Add(r Resource) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := r.Made
	if made.IsZero() {
		made = c.now()
	}
	r.Tags = maps.Clone(r.Tags)
	p := c.put(&r)
	p.Made = made
	if p.Kind != KindInstance {
		return p.ID
	}
	p.Zone = c.settings.Subnets[p.Subnet].Zone
	c.put(&Resource{
		Kind: KindVolume, Tags: r.Tags, Instance: p.ID, Device: "/dev/xvda", DeleteWith: true,
		Zone: p.Zone,
	}).Made = made
	nic := c.put(&Resource{
		Kind: KindInterface, Tags: r.Tags, Instance: p.ID, DeleteWith: true, SourceDestCheck: true,
		Subnet: p.Subnet, IP: c.address(),
	})
	nic.Made, p.IP = made, nic.IP
	return p.ID
}

// put gives a resource its id and remembers it.
func (c *Cloud) put(r *Resource) *Resource {
	c.serial++
	prefix := map[string]string{KindInstance: "i", KindVolume: "vol", KindInterface: "eni", KindSpotRequest: "sir"}[r.Kind]
	r.serial, r.ID, r.Made = c.serial, fmt.Sprintf("%s-%017x", prefix, c.serial), c.now()
	c.all[r.ID] = r
	return r
}

// address returns an address that is free.
func (c *Cloud) address() string {
	const octet = 256
	return fmt.Sprintf("10.%d.%d.%d", c.serial/octet/octet%octet, c.serial/octet%octet, c.serial%octet)
}

// sorted returns everything in the order of making.
func (c *Cloud) sorted() []*Resource {
	return slices.SortedFunc(maps.Values(c.all), func(a, b *Resource) int { return a.serial - b.serial })
}

// The states of an instance.
const (
	statePending      = "pending"
	stateRunning      = "running"
	stateShuttingDown = "shutting-down"
	stateTerminated   = "terminated"
	stateStopped      = "stopped"
)

func (c *Cloud) state(r *Resource) string {
	now := c.now()
	switch {
	case !r.Terminated.IsZero() && now.Sub(r.Terminated) >= c.settings.Shutdown:
		return stateTerminated
	case !r.Terminated.IsZero():
		return stateShuttingDown
	case r.Stopped:
		return stateStopped
	case now.Sub(r.Made) < c.settings.Boot:
		return statePending
	}
	return stateRunning
}

// terminate tells an instance to go. It does nothing to one that goes already.
func (c *Cloud) terminate(r *Resource, code, why string) {
	if r.Terminated.IsZero() {
		r.Terminated, r.Code, r.Why = c.now(), code, why
	}
}

// sweep lets go what is gone by now.
func (c *Cloud) sweep() {
	for _, r := range c.all {
		of := c.all[r.Instance]
		if r.Kind != KindInstance && r.Instance != "" && (of == nil || c.state(of) == stateTerminated) {
			r.Instance = ""
			if r.DeleteWith {
				delete(c.all, r.ID)
			}
		}
	}
	for id, r := range c.all {
		if r.Kind == KindInstance && c.state(r) == stateTerminated &&
			c.now().Sub(r.Terminated) > c.settings.Shutdown+c.settings.Remembered {
			delete(c.all, id)
		}
	}
}

func copyOf(r *Resource) Resource {
	out := *r
	out.Tags, out.UserData = maps.Clone(r.Tags), slices.Clone(r.UserData)
	out.IPv6, out.Prefixes = slices.Clone(r.IPv6), slices.Clone(r.Prefixes)
	return out
}
