package gcptest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"time"
)

// Thing is an instance or a disk as the owner of the project sees it.
type Thing struct {
	ID      string // <zone>/<name>
	Disk    bool
	Machine string // of its label, or without one the name of an instance
	Owner   string // of its label
	VM      string // that a disk is attached to
	Created time.Time
	Type    string            // of an instance
	Status  string            // of an instance
	IP      string            // of an instance, its first one
	Labels  map[string]string // as the cloud has them
}

// Things returns all instances and disks.
func (c *Cloud) Things() []Thing {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var all []Thing
	for at, v := range c.vms {
		t := thing(at, v.labels, v.made)
		if t.Machine == "" {
			t.Machine = path.Base(at)
		}
		t.Status, t.Type = c.statusOf(v), path.Base(fmt.Sprint(v.body["machineType"]))
		for _, n := range list(v.body["networkInterfaces"])[:1] {
			t.IP = fmt.Sprint(object(n)["networkIP"])
		}
		all = append(all, t)
	}
	for at, d := range c.disks {
		t := thing(at, d.labels, d.made)
		t.Disk, t.VM = true, d.vm
		all = append(all, t)
	}
	return all
}

// Prefix begins the labels of the manager.
const Prefix = "mcm_2ecluster_2ex-k8s_2eio_2f"

func thing(at string, labels map[string]any, made time.Time) Thing {
	t := Thing{ID: at, Created: made, Labels: map[string]string{}}
	for key, value := range labels {
		t.Labels[key] = fmt.Sprint(value)
	}
	t.Machine, t.Owner = decode(t.Labels[Prefix+"machine"]), decode(t.Labels[Prefix+"owner-id"])
	return t
}

var escaped = regexp.MustCompile(`_[0-9a-f]{2}`)

// decode returns the text that a label stands for.
func decode(label string) string {
	return escaped.ReplaceAllStringFunc(label, func(code string) string {
		text, _ := hex.DecodeString(code[1:])
		return string(text)
	})
}

// SeedVM is an instance that somebody made.
type SeedVM struct {
	Zone, Name string // an empty name is one that is free
	Tags       []string
	Labels     map[string]string
	Age        time.Duration
}

// AddVM puts a running instance into the project and returns its place.
func (c *Cloud) AddVM(s SeedVM) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	if s.Name == "" || c.vms[s.Zone+"/"+s.Name] != nil {
		s.Name = fmt.Sprintf("instance-%06d", c.serial)
	}
	const running = time.Hour
	v := &vm{at: s.Zone + "/" + s.Name, labels: anyOf(s.Labels), made: c.options.Now().Add(-max(s.Age, running))}
	v.body = map[string]any{
		"machineType":       "zones/" + s.Zone + "/machineTypes/n2-standard-2",
		"tags":              map[string]any{"items": append([]string{}, s.Tags...)},
		"networkInterfaces": []any{map[string]any{"network": root + "/global/networks/default"}},
	}
	c.number(v)
	c.vms[v.at] = v
	return v.at
}

// AddDisk puts a disk into the project and returns its place. It is attached to the instance at vm,
// if that is named, and outlives it.
func (c *Cloud) AddDisk(zone, vm string, labels map[string]string, age time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	d := &disk{
		at: fmt.Sprintf("%s/disk-%06d", zone, c.serial), labels: anyOf(labels), made: c.options.Now().Add(-age), vm: vm,
		body: map[string]any{"sizeGb": "10", "status": "READY"},
	}
	c.disks[d.at] = d
	return d.at
}

// Unlabel takes a label off all disks.
func (c *Cloud) Unlabel(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.disks {
		d.labels = maps.Clone(d.labels)
		delete(d.labels, key)
	}
}

func anyOf(labels map[string]string) map[string]any {
	all := map[string]any{}
	for key, value := range labels {
		all[key] = value
	}
	return all
}

// SetStatus gives an instance a status; DELETED takes it out of the project.
func (c *Cloud) SetStatus(at, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch v := c.vms[at]; {
	case v == nil:
	case status == "DELETED":
		c.drop(v, false)
	default:
		v.status = status
	}
}

// UserData returns what the guest of an instance gets as its user data.
func (c *Cloud) UserData(at string) []byte {
	items := c.Metadata(at)
	if items["user-data-encoding"] == "base64" {
		data, _ := base64.StdEncoding.DecodeString(items["user-data"])
		return data
	}
	return []byte(items["user-data"] + items["startup-script"])
}

// Metadata returns what the guest of an instance finds at its metadata server.
func (c *Cloud) Metadata(at string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	if v := c.vms[at]; v != nil {
		meta := object(v.body["metadata"])
		for _, one := range list(meta["items"]) {
			i := object(one)
			all[fmt.Sprint(i["key"])] = fmt.Sprint(i["value"])
		}
	}
	return all
}

// Boots returns how often an instance was started or reset.
func (c *Cloud) Boots(at string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.vms[at]; v != nil {
		return v.boots
	}
	return 0
}

// Write lets the guest of an instance write to its console, and returns all that is there.
func (c *Cloud) Write(at, text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.vms[at]; v != nil {
		v.console += text
		return v.console
	}
	return ""
}

// Hide keeps instances out of all looks and listings for some time after they were made.
func (c *Cloud) Hide(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = d
}

// FailNext lets the operation of the next instance end with an error.
func (c *Cloud) FailNext(code, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, failure{code, message})
}

// SoldOut is what a zone has none of.
type SoldOut struct {
	// Of reports whether a request for an instance in a zone is one for it.
	Of func(zone string, body map[string]any) bool
}

// SellOut lets the operations of instances end for lack of capacity until restore is called.
func (c *Cloud) SellOut(s SoldOut) (restore func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := &s
	c.soldOut = append(c.soldOut, mine)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.soldOut = slices.DeleteFunc(c.soldOut, func(x *SoldOut) bool { return x == mine })
	}
}

// Remove takes an instance or a disk out of the project, whoever made it.
func (c *Cloud) Remove(at string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.vms, at)
	delete(c.disks, at)
}

// AddNamedDisk puts a loose disk of that place, <zone>/<name>, into the project, which somebody else made.
func (c *Cloud) AddNamedDisk(at string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disks[at] = &disk{at: at, made: c.options.Now(), body: map[string]any{"sizeGb": "10", "status": "READY"}}
}

// SetPageSize changes how many things a page of a listing holds at most.
func (c *Cloud) SetPageSize(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options.PageSize = n
}

// LeaveDisks lets instances that cannot be made leave their disks behind. It is invented: no report shows it, and
// Google's documentation does not rule it out.
func (c *Cloud) LeaveDisks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaves = true
}

// Warn lets listings of all zones end with a warning instead of what is in the zones.
func (c *Cloud) Warn(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warning = code
}

// Unreachable lets listings of all zones lack a zone, which they name as one that was not reached.
func (c *Cloud) Unreachable(zone string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreachable = zone
}

// Expire ends all tokens.
func (c *Cloud) Expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session++
}

// Revoke ends all tokens and lets no caller log in.
func (c *Cloud) Revoke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session++
	c.revoked = true
}

// Names returns the names of the metadata items of an instance, sorted.
func (c *Cloud) Names(at string) []string { return slices.Sorted(maps.Keys(c.Metadata(at))) }
