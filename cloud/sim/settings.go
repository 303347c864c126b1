package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Settings are what can be changed about a Cloud while it runs.
type Settings struct {
	BootTime   Duration `json:"bootTime"`   // from accepted to running
	DeleteTime Duration `json:"deleteTime"` // from deleting to gone
	Settle     Duration `json:"settle"`     // how long reads miss a new resource
	PageSize   int      `json:"pageSize"`   // most resources on a page; 0 is 1000

	// Latency by operation; "*" is for all others. Handler applies it, half
	// before the effect and half after.
	Latency map[string]Duration `json:"latency,omitempty"`

	Zones         []Zone         `json:"zones"`
	InstanceTypes []InstanceType `json:"instanceTypes"`
	Images        []Image        `json:"images"`
	Networks      []Network      `json:"networks"`
	Accounts      []Tenant       `json:"accounts"`
	LoadBalancers []LoadBalancer `json:"loadBalancers,omitempty"`
}

// LoadBalancer sends requests to VMs of a region.
type LoadBalancer struct {
	ID        string   `json:"id"`
	Region    string   `json:"region"`
	DrainTime Duration `json:"drainTime,omitempty"` // from deregistered to without connections
	Members   int      `json:"members,omitempty"`   // most VMs; 0 is no limit
}

// Zone is a failure domain of a region.
type Zone struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	// Capacity is how many VMs of a type fit in; a type that is not listed is
	// without limit.
	Capacity map[string]int `json:"capacity,omitempty"`
}

// InstanceType is what a VM offers, in Kubernetes' notation of quantities.
type InstanceType struct {
	Name             string `json:"name"`
	CPU              string `json:"cpu"`
	Memory           string `json:"memory"`
	GPU              string `json:"gpu,omitempty"`
	Pods             string `json:"pods"`
	EphemeralStorage string `json:"ephemeralStorage"`
	Architecture     string `json:"architecture"`
}

// Image is what a VM boots from.
type Image struct {
	ID          string `json:"id"`
	RootDiskGiB int    `json:"rootDiskGiB"`
}

// Network is what an interface is attached to.
type Network struct {
	ID        string `json:"id"`
	Region    string `json:"region"`
	CIDR      string `json:"cidr"`                // of the interfaces' addresses
	IPv6CIDR  string `json:"ipv6CIDR,omitempty"`  // empty: no IPv6
	Public    bool   `json:"public,omitempty"`    // interfaces get an external address too
	Addresses int    `json:"addresses,omitempty"` // how many interfaces fit in; 0 is no limit
}

// Tenant is an account of the cloud: who may call, and how much.
type Tenant struct {
	ID            string   `json:"id"`
	SecretKeys    []string `json:"secretKeys"`              // all are valid; none revokes the account
	VMQuota       int      `json:"vmQuota,omitempty"`       // 0 is no limit
	RatePerSecond float64  `json:"ratePerSecond,omitempty"` // calls; 0 is no limit
	Burst         int      `json:"burst,omitempty"`         // calls at once; 0 is 1

	// Rates are further limits, of one operation each, e.g. of CreateVM.
	Rates map[string]Rate `json:"rates,omitempty"`
}

// Rate is a token bucket.
type Rate struct {
	PerSecond float64 `json:"perSecond"`       // 0 is no limit
	Burst     int     `json:"burst,omitempty"` // at once; 0 is 1
}

// DefaultSettings are those of a small cloud without limits: one region with
// three zones, account "demo" with the secret key "demo-secret".
func DefaultSettings() Settings {
	return Settings{
		PageSize: 1000,
		Zones: []Zone{
			{Name: "sim-1a", Region: "sim-1"}, {Name: "sim-1b", Region: "sim-1"}, {Name: "sim-1c", Region: "sim-1"},
		},
		InstanceTypes: []InstanceType{
			{Name: "small", CPU: "2", Memory: "4Gi", GPU: "0", Pods: "110", EphemeralStorage: "20Gi", Architecture: "amd64"},
			{Name: "large", CPU: "8", Memory: "32Gi", GPU: "0", Pods: "250", EphemeralStorage: "100Gi", Architecture: "amd64"},
			{Name: "arm", CPU: "4", Memory: "8Gi", GPU: "0", Pods: "110", EphemeralStorage: "20Gi", Architecture: "arm64"},
			{Name: "gpu", CPU: "16", Memory: "64Gi", GPU: "1", Pods: "250", EphemeralStorage: "200Gi", Architecture: "amd64"},
		},
		Images: []Image{{ID: "linux-1", RootDiskGiB: 10}, {ID: "linux-2", RootDiskGiB: 10}},
		Networks: []Network{
			{ID: "default", Region: "sim-1", CIDR: "10.0.0.0/8"},
			{ID: "public", Region: "sim-1", CIDR: "172.16.0.0/12", IPv6CIDR: "fd00:516d::/64", Public: true},
		},
		Accounts:      []Tenant{{ID: "demo", SecretKeys: []string{"demo-secret"}}},
		LoadBalancers: []LoadBalancer{{ID: "apiserver", Region: "sim-1"}, {ID: "ingress", Region: "sim-1"}},
	}
}

// zones returns the zones of a region, in the order of the settings.
func (s *Settings) zones(region string) []Zone {
	var found []Zone
	for _, z := range s.Zones {
		if z.Region == region {
			found = append(found, z)
		}
	}
	return found
}

func (s *Settings) instanceType(name string) (InstanceType, bool) {
	return find(s.InstanceTypes, func(t InstanceType) bool { return t.Name == name })
}

func (s *Settings) image(id string) (Image, bool) {
	return find(s.Images, func(i Image) bool { return i.ID == id })
}

func (s *Settings) tenant(id string) (Tenant, bool) {
	return find(s.Accounts, func(t Tenant) bool { return t.ID == id })
}

// network returns the network of that id in the region; without an id the
// region's first.
func (s *Settings) network(region, id string) (Network, bool) {
	return find(s.Networks, func(n Network) bool { return n.Region == region && (id == "" || n.ID == id) })
}

func (s *Settings) loadBalancer(region, id string) (LoadBalancer, bool) {
	return find(s.LoadBalancers, func(l LoadBalancer) bool { return l.Region == region && l.ID == id })
}

func find[T any](all []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	var none T
	return none, false
}

// Duration is a time.Duration that is written as "1.5s" in JSON.
type Duration time.Duration

// MarshalText writes "1.5s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "1.5s".
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%s is no duration, write it like 1.5s", strconv.Quote(string(text)))
	}
	*d = Duration(parsed)
	return nil
}
