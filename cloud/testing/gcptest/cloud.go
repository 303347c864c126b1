package gcptest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Project is the project of the double, OtherProject another one, in which nothing is, and Region the one
// region.
const (
	Project      = "my-project"
	OtherProject = "other-project"
	Region       = "europe-west1"
)

// How long the double takes. An instance is placed on a host, then started; one that is deleted
// stops first.
const (
	placing  = 2 * time.Second
	starting = 4 * time.Second
	stopping = 5 * time.Second
)

// Options are those of a Cloud. Now is required.
type Options struct {
	Now      func() time.Time
	PageSize int                            // of listings; 0 is 500, as with the cloud
	TokenURL string                         // that keys name; empty is the usual one
	Hurry    int                            // how many times faster than usual instances come and go; 0 is 1
	Report   func(what string, body []byte) // of requests that the API does not know, and of such answers
}

// Cloud is a double.
type Cloud struct {
	options Options
	schema  schema
	other   *Cloud // OtherProject; nil until it is asked for

	mu       sync.Mutex
	serial   int
	session  int // which tokens count
	revoked  bool
	hidden   time.Duration // for how long no look shows an instance
	vms      map[string]*vm
	disks    map[string]*disk
	ops      map[string]*operation
	moving   map[string]*vm        // those whose state the clock changes
	members  map[string]membership // of the instance groups, by <zone>/<name>
	failures []failure
	soldOut  []*SoldOut
	leaves   bool // the disks of instances that cannot be made
	warning  string

	unreachable string // zone
}

// failure is one that an operation for an instance ends with.
type failure struct{ code, message string }

// vm is an instance.
type vm struct {
	at      string // <zone>/<name>
	body    map[string]any
	labels  map[string]any
	made    time.Time
	deleted time.Time // zero if it is not being deleted
	status  string    // that the owner gave it; empty follows from the clock
	boots   int
	console string
	insert  *operation
	fails   *failure
}

// disk is a persistent disk.
type disk struct {
	at         string
	body       map[string]any
	labels     map[string]any
	made       time.Time
	vm         string // that it is attached to
	autoDelete bool
}

// operation is a change that goes on.
type operation struct {
	name, zone, kind, target string
	begins, ends             time.Time
	fails                    *failure
}

// New returns a Cloud without instances.
func New(o Options) *Cloud {
	const most = 500
	if o.PageSize == 0 {
		o.PageSize = most
	}
	if o.TokenURL == "" {
		o.TokenURL = "https://" + tokenHost + "/token"
	}
	o.Hurry = max(o.Hurry, 1)
	if o.Report == nil {
		o.Report = func(string, []byte) {}
	}
	return &Cloud{
		options: o, schema: loadSchema(), session: 1, vms: map[string]*vm{}, disks: map[string]*disk{},
		ops: map[string]*operation{}, moving: map[string]*vm{}, members: map[string]membership{},
	}
}

// takes is how long something takes that usually takes d.
func (c *Cloud) takes(d time.Duration) time.Duration { return d / time.Duration(c.options.Hurry) }

// settle does what is due. The lock is held.
func (c *Cloud) settle() {
	now := c.options.Now()
	for _, at := range slices.Sorted(maps.Keys(c.moving)) {
		v := c.moving[at]
		switch {
		case v.fails != nil && !now.Before(v.made.Add(c.takes(placing))):
			v.insert.fails, v.insert.ends = v.fails, v.made.Add(c.takes(placing))
			c.drop(v, true)
		case !v.deleted.IsZero() && !now.Before(v.deleted.Add(c.takes(stopping))):
			c.drop(v, false)
		case v.deleted.IsZero() && v.fails == nil && !now.Before(v.made.Add(c.takes(starting))):
			delete(c.moving, at)
		}
	}
}

// drop takes an instance out of the cloud, and those of its disks that go with it. Of an instance
// that was never placed, all that its request made goes.
func (c *Cloud) drop(v *vm, all bool) {
	delete(c.moving, v.at)
	delete(c.vms, v.at)
	delete(c.members, v.at)
	for at, d := range c.disks {
		switch {
		case d.vm != v.at:
		case all && c.leaves:
			d.vm = ""
		case d.autoDelete || all && d.made.Equal(v.made):
			delete(c.disks, at)
		default:
			d.vm = ""
		}
	}
}

// statusOf is the word of the API for how far an instance is.
func (c *Cloud) statusOf(v *vm) string {
	now := c.options.Now()
	switch {
	case !v.deleted.IsZero():
		return "STOPPING"
	case v.status != "":
		return v.status
	case now.Before(v.made.Add(c.takes(placing))):
		return "PROVISIONING"
	case now.Before(v.made.Add(c.takes(starting))):
		return "STAGING"
	}
	return "RUNNING"
}

// shown is an instance that is not hidden any more, or nil.
func (c *Cloud) shown(at string) *vm {
	v := c.vms[at]
	if v == nil || c.options.Now().Before(v.made.Add(c.hidden)) {
		return nil
	}
	return v
}

// begin starts an operation that takes some time.
func (c *Cloud) begin(kind, zone, target string, takes time.Duration) *operation {
	c.serial++
	now := c.options.Now()
	o := &operation{
		name: fmt.Sprintf("operation-%d-%s", c.serial, kind), zone: zone, kind: kind, target: target, begins: now,
		ends: now.Add(c.takes(takes)),
	}
	c.ops[o.name] = o
	return o
}

// show returns an operation as the API does.
func (c *Cloud) show(o *operation) map[string]any {
	status, progress := "RUNNING", 0.0
	if !c.options.Now().Before(o.ends) {
		const whole = 100
		status, progress = "DONE", whole
	}
	out := map[string]any{
		"kind": "compute#operation", "name": o.name, "id": id(o.name), "operationType": o.kind, "status": status,
		"progress": progress, "zone": zoneURL(o.zone), "targetLink": o.target, "insertTime": stamp(o.begins),
		"selfLink": zoneURL(o.zone) + "/operations/" + o.name,
	}
	if status == "DONE" && o.fails != nil {
		const refused = 400.0
		out["error"] = map[string]any{"errors": []any{map[string]any{"code": o.fails.code, "message": o.fails.message}}}
		out["httpErrorStatusCode"], out["httpErrorMessage"] = refused, "BAD REQUEST"
	}
	return out
}

// stamp is a time as the API writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000-07:00") }

const root = "https://www.googleapis.com/compute/v1/projects/" + Project

func zoneURL(zone string) string { return root + "/zones/" + zone }

// urlOf is the URL of an instance or a disk.
func urlOf(kind, at string) string {
	zone, name, _ := strings.Cut(at, "/")
	return zoneURL(zone) + "/" + kind + "/" + name
}

// id is the number of something that has a name.
func id(name string) string {
	sum := uint64(14695981039346656037) // FNV
	for _, b := range []byte(name) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return fmt.Sprint(sum >> 1)
}

// fingerprint is what an author of a change has to have seen.
func fingerprint(v map[string]any) string {
	return encode(fmt.Sprint(v)) // printed in the order of the keys
}
