package azuretest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The credentials of DefaultSettings.
const (
	Subscription = "00000000-0000-0000-0000-000000000001"
	// OtherSubscription has an empty resource group of the same name.
	OtherSubscription = "00000000-0000-0000-0000-000000000009"
	Tenant            = "00000000-0000-0000-0000-000000000002"
	Client            = "00000000-0000-0000-0000-000000000003"
	Secret            = "azuretest~secret-000000000000000001"
	Federated         = "azuretest.federated.token-0000000001"
)

// The types of resources.
const (
	TypeVM   = "Microsoft.Compute/virtualMachines"
	TypeNIC  = "Microsoft.Network/networkInterfaces"
	TypeDisk = "Microsoft.Compute/disks"
)

// Settings are what a Cloud has. Change alters them.
type Settings struct {
	Location string
	Group    string
	Zones    []string
	Subnets  []string          // "<group>/<network>/<subnet>"
	Images   []string          // ids, or publisher:offer:sku:version
	Plans    map[string]string // publishers of the plans of images, by URN
	Sizes    map[string]Size
	Accepted []string // plans whose terms are accepted, as publisher:product:name
	Secrets  []string // of the client

	PageSize int
	Boot     time.Duration // from Creating to Succeeded
	Shutdown time.Duration // from Deleting to gone
	Settle   time.Duration // how long reads miss what is new
	Reserved time.Duration // how long the interface of a VM that found no room stays, reserved for it; 0 is not at all

	DisksHeld bool // disks stay in Creating
	FailDisks int  // how many of the next disks that are made of an image end as Failed

	Capacity map[string]int // VMs by "<zone>/<size>"; no entry is no limit
	Quota    int            // regular VMs; 0 is no limit, less is none

	NoSpot    map[string]bool // sizes of which there are no Spot VMs
	SpotQuota int             // Spot VMs; 0 is no limit, less is none

	// Violation is called with each request that the published model does not allow, and of each
	// answer. It may be nil.
	Violation func(text string)
}

// Size is what a VM has.
type Size struct {
	CPU, GPU     int
	MemoryGB     string
	Architecture string
	Restricted   bool // the subscription may not use it
}

// DefaultSettings are a resource group in a region with three zones.
func DefaultSettings() Settings {
	const urn = "publisher:offer:sku:1.2.3"
	return Settings{
		Location: "westeurope", Group: "Machines", Zones: []string{"1", "2", "3"},
		Subnets: []string{"Machines/net/nodes", "networks/net/nodes"},
		Images:  []string{"/images/linux-1", "/images/data-1", urn, "/CommunityGalleries/g/Images/i/Versions/1.0.0"},
		Plans:   map[string]string{urn: "publisher"},
		Sizes: map[string]Size{
			"Standard_D2s_v5":     {CPU: 2, MemoryGB: "8", Architecture: "x64"},
			"Standard_D2ps_v5":    {CPU: 2, MemoryGB: "8", Architecture: "Arm64"},
			"Standard_NC4as_T4":   {CPU: 4, MemoryGB: "28", GPU: 1, Architecture: "x64"},
			"Standard_Restricted": {CPU: 4, MemoryGB: "28", Architecture: "x64", Restricted: true},
		},
		Secrets: []string{Secret, Federated}, PageSize: 50,
	}
}

// Resource is a VM, a network interface or a disk.
type Resource struct {
	Type, Name string
	Tags       map[string]string
	Zones      []string
	Made       time.Time
	VM         string // that it is part of, in small letters; empty when it is loose
	DeleteWith bool   // it goes with its VM

	// Of a VM.
	Properties  map[string]any // as it was asked for
	Identity    any
	Plan        any
	Deleted     time.Time // when its deletion was requested
	FailedOf    string    // code, also of a disk; empty if it has not failed
	FailureText string
	Power       string // in place of running
	Bootings    int

	// Of a network interface.
	Address       string
	ReservedUntil time.Time

	console string
	serial  int
}

// Cloud is a resource group of a subscription. It is safe for concurrent use.
type Cloud struct {
	now func() time.Time

	mu       sync.Mutex
	settings Settings
	all      map[string]*Resource // by type and name in small letters
	order    []*Resource          // of all, see sorted
	ordered  int                  // the serial number when it was sorted
	serial   int
	session  int
	other    *Cloud // OtherSubscription; nil until it is asked for
}

// New returns an empty Cloud with this clock.
func New(s Settings, now func() time.Time) *Cloud {
	return &Cloud{now: now, settings: s, all: map[string]*Resource{}}
}

// Change alters the settings.
func (c *Cloud) Change(f func(s *Settings)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.settings)
}

// RemoveGroup removes the resource group with all that is in it.
func (c *Cloud) RemoveGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings.Group = ""
	clear(c.all)
}

// Remove takes a resource out of the group, whoever made it.
func (c *Cloud) Remove(kind, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.all, func(_ string, r *Resource) bool { return r.Type == kind && r.Name == name })
}

// Expire ends all sessions.
func (c *Cloud) Expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session++
}

// Edit alters a VM.
func (c *Cloud) Edit(name string, f func(r *Resource)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.find(TypeVM, name); r != nil {
		f(r)
	}
}

// Look returns a copy of a VM.
func (c *Cloud) Look(name string) Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if r := c.find(TypeVM, name); r != nil {
		return *r
	}
	return Resource{}
}

// Print adds to the console of a VM, and returns all of it.
func (c *Cloud) Print(name, text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.find(TypeVM, name)
	if r == nil {
		return ""
	}
	r.console += text
	return r.console
}

// Add puts a resource into the cloud.
func (c *Cloud) Add(r Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(&r)
}

// Ledger returns copies of all that there is, in the order in which it was made.
func (c *Cloud) Ledger() []Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var all []Resource
	for _, r := range c.sorted() {
		all = append(all, *r)
		all[len(all)-1].Tags = maps.Clone(r.Tags)
	}
	return all
}

func key(kind, name string) string { return strings.ToLower(kind + "/" + name) }

func (c *Cloud) find(kind, name string) *Resource { return c.all[key(kind, name)] }

func (c *Cloud) add(r *Resource) {
	c.serial++
	r.serial = c.serial
	c.all[key(r.Type, r.Name)] = r
}

// sorted are all resources in the order in which they were made. It is sorted again when one was added, which has a new
// serial number, or removed.
func (c *Cloud) sorted() []*Resource {
	if c.ordered != c.serial || len(c.order) != len(c.all) {
		c.order = slices.SortedFunc(maps.Values(c.all), func(x, y *Resource) int { return x.serial - y.serial })
		c.ordered = c.serial
	}
	return c.order
}

// settle lets happen what is due: VMs whose deletion was requested go, with what goes with them.
func (c *Cloud) settle() {
	for k, r := range c.all {
		if r.Type != TypeVM || r.Deleted.IsZero() || c.now().Before(r.Deleted.Add(c.settings.Shutdown)) {
			continue
		}
		delete(c.all, k)
		c.release(r)
	}
}

// release deletes or detaches what a VM had.
func (c *Cloud) release(vm *Resource) {
	for k, part := range c.all {
		if part.VM != strings.ToLower(vm.Name) {
			continue
		}
		if part.Type == TypeNIC && vm.FailedOf != "" && c.settings.Reserved > 0 {
			part.VM, part.ReservedUntil = "", c.now().Add(c.settings.Reserved)
			continue
		}
		if part.VM = ""; part.DeleteWith {
			delete(c.all, k)
		}
	}
}

// hidden reports whether reads miss a resource yet.
func (c *Cloud) hidden(r *Resource) bool { return c.now().Before(r.Made.Add(c.settings.Settle)) }

// state is the provisioning state of a VM, and that of its power.
func (c *Cloud) state(r *Resource) (provisioning, power string) {
	switch {
	case !r.Deleted.IsZero():
		return "Deleting", ""
	case r.FailedOf != "" && !c.now().Before(r.Made.Add(c.settings.Boot)):
		return "Failed", ""
	case c.now().Before(r.Made.Add(c.settings.Boot)):
		return "Creating", ""
	case r.Power != "":
		return "Succeeded", r.Power
	}
	return "Succeeded", "running"
}

// failure is an error as Resource Manager answers it.
type failure struct {
	status        int
	code, message string
}

func (f *failure) Error() string { return f.code + ": " + f.message }

func bad(code, message string) *failure { return &failure{http.StatusBadRequest, code, message} }

func notFound(what string) *failure {
	return &failure{http.StatusNotFound, "ResourceNotFound", "The Resource '" + what + "' was not found."}
}
