package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The operations, as they appear in faults, latencies and counters.
const (
	OpCreateVM        = "CreateVM"
	OpGetVM           = "GetVM"
	OpDeleteVM        = "DeleteVM"
	OpRebootVM        = "RebootVM"
	OpSetForwarding   = "SetForwarding"
	OpSetTags         = "SetTags"
	OpRegisterVM      = "RegisterVM"
	OpDeregisterVM    = "DeregisterVM"
	OpGetConsole      = "GetConsole"
	OpCreateDisk      = "CreateDisk"
	OpAttachDisk      = "AttachDisk"
	OpDetachDisk      = "DetachDisk"
	OpDeleteDisk      = "DeleteDisk"
	OpCreateNIC       = "CreateNIC"
	OpDeleteNIC       = "DeleteNIC"
	OpList            = "List"
	OpGetInstanceType = "GetInstanceType"
)

// Clock tells the time.
type Clock interface{ Now() time.Time }

// Options are what a Cloud is made from.
type Options struct {
	Clock    Clock    // required
	Seed     uint64   // of ids and of the faults' probabilities
	Settings Settings // see DefaultSettings

	// OnChange is told of every resource after it has changed, in order. It is
	// called with the Cloud's lock held, so it must neither block nor call back.
	OnChange func(Resource)
	// OnRecord gets one line for everything that has to be remembered; see
	// Replay. It is called as OnChange is.
	OnRecord func(line []byte)
}

// Cloud is a cloud with memory. It is safe for concurrent use, starts no
// goroutines and never blocks.
type Cloud struct {
	clock    Clock
	seed     uint64
	onChange func(Resource)
	onRecord func([]byte)

	mu       sync.Mutex
	settings Settings
	rng      *rand.Rand
	seq      uint64

	all      map[string]*Resource   // every resource ever made
	ledger   []*Resource            // the same, by Seq
	live     []*Resource            // those that are not gone, by Seq
	byName   map[string][]*Resource // live ones by name tag
	tokens   map[tokenKey]*Resource // what a token has made
	going    goneHeap               // live ones whose end is known, the next first
	places   map[place]int          // VMs that take up capacity
	counts   map[string]int         // VMs by account, NICs by network
	rates    map[rateKey]*bucket
	calls    map[callKey]*Count       //
	log      []Call                   // the latest calls
	lines    map[string][]ConsoleLine // consoles by VM
	ips      map[string]uint32        // addresses given out by network
	faults   []*Fault
	faultSeq int
}

type tokenKey struct{ account, kind, token string }

// place is what VMs compete for.
type place struct{ zone, instanceType string }

// New returns a Cloud without resources.
func New(o Options) *Cloud {
	const stream = 0x73696d // any constant: the seed alone makes streams differ
	return &Cloud{
		clock: o.Clock, seed: o.Seed, settings: o.Settings, onChange: o.OnChange, onRecord: o.OnRecord,
		rng: rand.New(rand.NewPCG(o.Seed, stream)), // runs have to be repeatable
		all: map[string]*Resource{}, byName: map[string][]*Resource{}, tokens: map[tokenKey]*Resource{},
		places: map[place]int{}, counts: map[string]int{}, rates: map[rateKey]*bucket{}, calls: map[callKey]*Count{},
		lines: map[string][]ConsoleLine{}, ips: map[string]uint32{},
	}
}

// Settings returns a copy of the current settings.
func (c *Cloud) Settings() Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings.clone()
}

// Change changes the settings; VMs that exist keep the times they were given.
func (c *Cloud) Change(edit func(*Settings)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.settings.clone()
	edit(&changed)
	c.settings = changed
	c.recordSettings()
}

// SetCapacity limits how many VMs of a type fit into a zone from now on; a
// negative number is no limit.
func (c *Cloud) SetCapacity(zone, instanceType string, vms int) {
	c.Change(func(s *Settings) {
		for i := range s.Zones {
			if s.Zones[i].Name != zone {
				continue
			}
			delete(s.Zones[i].Capacity, instanceType)
			if vms >= 0 {
				if s.Zones[i].Capacity == nil {
					s.Zones[i].Capacity = map[string]int{}
				}
				s.Zones[i].Capacity[instanceType] = vms
			}
		}
	})
}

// id returns the id of the seq-th resource. Another seed gives other ids, so
// that clouds that follow each other do not mix up theirs.
func (c *Cloud) id(kind string, seq uint64) string {
	const length = 17
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%d", c.seed, kind, seq))
	return kind + "-" + hex.EncodeToString(sum[:])[:length]
}

// add makes r exist.
func (c *Cloud) add(r *Resource, now time.Time) *Resource {
	c.seq++
	r.Seq, r.ID, r.Made = c.seq, c.id(r.Kind, c.seq), now
	c.index(r)
	return r
}

// index enters a live resource everywhere that it is looked up.
func (c *Cloud) index(r *Resource) {
	c.all[r.ID] = r
	c.ledger = append(c.ledger, r)
	c.live = append(c.live, r)
	c.byName[r.Name()] = append(c.byName[r.Name()], r)
	if r.token != "" {
		c.tokens[tokenKey{r.Account, r.Kind, r.token}] = r
	}
	if r.VM != nil {
		c.places[place{r.Zone, r.VM.InstanceType}]++
		c.counts[r.Account]++
	}
	if r.NIC != nil {
		c.counts[r.NIC.Network]++
	}
}

// sweep takes out what is gone by now.
func (c *Cloud) sweep(now time.Time) {
	for len(c.going) > 0 && c.going[0].goneAt(now) {
		r := c.going.pop()
		i, found := slices.BinarySearchFunc(c.live, r.Seq, func(l *Resource, seq uint64) int {
			return cmp.Compare(l.Seq, seq)
		})
		if !found {
			continue
		}
		c.live = slices.Delete(c.live, i, i+1)
		c.unname(r)
		if r.VM != nil {
			c.places[place{r.Zone, r.VM.InstanceType}]--
			c.counts[r.Account]--
			c.parts(r)
		}
		if r.NIC != nil {
			c.counts[r.NIC.Network]--
		}
		r.userData = nil
		c.changed(r, now)
	}
}

// parts takes leave of the disks that outlive r.
func (c *Cloud) parts(r *Resource) {
	for _, id := range r.VM.Disks {
		if disk := c.all[id]; disk.Disk.VM == r.ID && disk.Gone.IsZero() {
			disk.Disk.VM = ""
			c.changed(disk, r.Gone)
		}
	}
}

// unname takes r out of the index of names.
func (c *Cloud) unname(r *Resource) {
	name := r.Name()
	c.byName[name] = slices.DeleteFunc(c.byName[name], func(o *Resource) bool { return o == r })
	if len(c.byName[name]) == 0 {
		delete(c.byName, name)
	}
}

// changed tells the outside world of r as it is now.
func (c *Cloud) changed(r *Resource, now time.Time) {
	if c.onChange != nil {
		c.onChange(c.view(r, now))
	}
	c.record(r)
}

// view returns r as the API shows it now.
func (c *Cloud) view(r *Resource, now time.Time) Resource {
	out := r.clone()
	if out.VM == nil {
		return out
	}
	out.VM.State = r.stateAt(now)
	out.VM.Memberships = slices.DeleteFunc(out.VM.Memberships, func(m Membership) bool { return m.drainedAt(now) })
	out.VM.Networks, out.VM.Addresses = nil, nil
	for _, id := range r.VM.NICs {
		nic := c.all[id].NIC
		out.VM.Networks = append(out.VM.Networks, nic.Network)
		out.VM.Addresses = append(out.VM.Addresses, nic.Addresses...)
	}
	return out
}

// end makes r go, and with it what was made to go with it.
func (c *Cloud) end(r *Resource, by string, now time.Time, after time.Duration) {
	if !r.Deleting.IsZero() {
		return
	}
	r.Deleting, r.Gone, r.GoneBy = now, now.Add(after), by
	c.going.push(r)
	c.changed(r, now)
	if r.VM == nil {
		return
	}
	for _, id := range slices.Concat(r.VM.Disks, r.VM.NICs) {
		part := c.all[id]
		if part.Disk != nil && !part.Disk.DeleteWithVM {
			continue
		}
		c.end(part, by, now, after)
	}
}

// lookup returns the live resource of that kind and id in a region that the
// account may see.
func (c *Cloud) lookup(a Tenant, kind, region, id string) (*Resource, *APIError) {
	r := c.all[id]
	if r == nil || r.Kind != kind || r.Account != a.ID || r.Region != region || r.goneAt(c.clock.Now()) {
		return nil, refuse(CodeNotFound, "there is no %s %s in region %s", kind, id, region)
	}
	return r, nil
}

// settled reports whether reads show r already.
func (c *Cloud) settled(r *Resource, now time.Time) bool {
	return !now.Before(r.Made.Add(time.Duration(c.settings.Settle)))
}
