package vsphere

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// spec is a decoded provider spec. Nothing modifies it once Parse has returned.
type spec struct {
	APIVersion                   json.RawMessage   `json:"apiVersion"` // as all of MCM's have it; it says nothing
	Kind                         json.RawMessage   `json:"kind"`
	Region                       string            `json:"region"`
	Datacenter                   string            `json:"datacenter"`
	Datastore                    string            `json:"datastore"`
	DatastoreCluster             string            `json:"datastoreCluster"`
	ComputeCluster               string            `json:"computeCluster"`
	ResourcePool                 string            `json:"resourcePool"`
	HostSystem                   string            `json:"hostSystem"`
	Folder                       string            `json:"folder"`
	TemplateVM                   string            `json:"templateVM"`
	LibraryItem                  *libraryItem      `json:"libraryItem"`   // ours, in place of TemplateVM
	LinkedClone                  bool              `json:"linkedClone"`   // ours
	Snapshot                     string            `json:"snapshot"`      // ours; empty is the current one
	StoragePolicy                string            `json:"storagePolicy"` // ours; name or id
	Network                      string            `json:"network"`
	SwitchUUID                   string            `json:"switchUuid"`
	AdditionalNetworks           []nic             `json:"additionalNetworks"` // ours; of the second interface and further
	NumCPUs                      int32             `json:"numCpus"`
	MemoryMB                     int64             `json:"memory"`
	MemoryReservationLockedToMax *bool             `json:"memoryReservationLockedToMax"`
	SystemDisk                   *systemDisk       `json:"systemDisk"`
	ExtraConfig                  map[string]string `json:"extraConfig"`
	GuestID                      string            `json:"guestId"`
	VApp                         *vApp             `json:"vapp"`
	Customization                string            `json:"customization"`
	Force                        bool              `json:"force"`
	WaitForIP                    bool              `json:"waitForIP"`
	SSHKeys                      []string          `json:"sshKeys"`
	Tags                         map[string]string `json:"tags"`
	VSphereTags                  []tag             `json:"vsphereTags"`       // ours
	AntiAffinityGroup            string            `json:"antiAffinityGroup"` // ours
	VMGroup                      string            `json:"vmGroup"`           // ours; a group of the compute cluster

	// Zone is the name of the place that the fields above describe, from Datastore to
	// AdditionalNetworks; Zones are further ones. Without Zone that place is not used where there
	// are others, and lends them what they leave empty.
	Zone  string `json:"zone"`
	Zones []zone `json:"zones"`

	driverkit.Checks
}

// libraryItem is a VM template in a content library, by names or ids.
type libraryItem struct {
	Library string `json:"library"`
	Item    string `json:"item"`
}

// nic is the network of an interface.
type nic struct {
	Network    string `json:"network"`
	SwitchUUID string `json:"switchUuid"`
}

// tag is a tag of vSphere: its id, or its name and the name or id of its category.
type tag struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Name     string `json:"name"`
}

type systemDisk struct {
	SizeGB int64 `json:"size"`
}

type vApp struct {
	Properties map[string]string `json:"properties"`
}

// decode decodes a provider spec as MCM's driver does.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(raw, s, lenient.Options{
		Severity: severityOf,
		Hint:     "templateVM, network, a place to run, a datastore and tags",
	})
	s.APIVersion, s.Kind = nil, nil // classes that mean the same are equal
	for i, key := range s.SSHKeys {
		s.SSHKeys[i] = strings.TrimSpace(key)
	}
	return s
}

// severityOf returns which calls a field of a wrong type rules out.
func severityOf(path string) cloud.Severity {
	switch strings.ToLower(path) {
	case "region", "datacenter", "folder", "tags":
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// zone is a place that a class's VMs may go to. What it leaves empty is the class's.
type zone struct {
	Name             string `json:"name"`
	ComputeCluster   string `json:"computeCluster"`
	ResourcePool     string `json:"resourcePool"`
	HostSystem       string `json:"hostSystem"`
	Datastore        string `json:"datastore"`
	DatastoreCluster string `json:"datastoreCluster"`
	Network          string `json:"network"`
	SwitchUUID       string `json:"switchUuid"`

	AdditionalNetworks []nic `json:"additionalNetworks"`
}

// within returns the spec of VMs in this zone. Fields that exclude each other are
// replaced together: a zone that names a pool does not have the class's cluster.
func (z zone) within(s *spec) *spec {
	at := *s
	at.Zone = z.Name
	if z.ComputeCluster+z.ResourcePool+z.HostSystem != "" {
		at.ComputeCluster, at.ResourcePool, at.HostSystem = z.ComputeCluster, z.ResourcePool, z.HostSystem
	}
	if z.Datastore+z.DatastoreCluster != "" {
		at.Datastore, at.DatastoreCluster = z.Datastore, z.DatastoreCluster
	}
	if z.Network+z.SwitchUUID != "" {
		at.Network, at.SwitchUUID = cmp.Or(z.Network, s.Network), z.SwitchUUID
	}
	if len(z.AdditionalNetworks) > 0 {
		at.AdditionalNetworks = z.AdditionalNetworks
	}
	return &at
}

// nics are the networks of the interfaces, in order.
func (s *spec) nics() []nic {
	return append([]nic{{s.Network, s.SwitchUUID}}, s.AdditionalNetworks...)
}

// nicField is the field that names the network of the i-th interface.
func nicField(i int, field string) string {
	if i == 0 {
		return field
	}
	return fmt.Sprintf("additionalNetworks[%d].%s", i-1, field)
}

// source is what the class clones, as it is written.
func (s *spec) source() string {
	if s.LibraryItem != nil {
		return s.LibraryItem.Library + "/" + s.LibraryItem.Item
	}
	return s.TemplateVM
}

// zoneNames are the zones that the class lists, sorted.
func (s *spec) zoneNames() []string {
	var names []string
	for _, z := range s.Zones {
		names = append(names, z.Name)
	}
	slices.Sort(names)
	return names
}

// in returns the spec of VMs in the zone of that name; "" is the class's own place,
// of a class that lists no zones.
func (s *spec) in(name string) (*spec, error) {
	if name == s.Zone && (name != "" || len(s.Zones) == 0) || name == "" && len(s.Zones) == 0 {
		return s, nil
	}
	for _, z := range s.Zones {
		if z.Name == name {
			return z.within(s), nil
		}
	}
	return nil, s.unknownZone(name)
}

// zoneFor returns the zone of a new VM: the one that is asked for, else the class's,
// else the one of several that the token draws. It is empty if the class has none.
func (s *spec) zoneFor(r cloud.CreateRequest) string {
	if r.Zone != "" || s.Zone != "" || len(s.Zones) == 0 {
		return cmp.Or(r.Zone, s.Zone)
	}
	names := s.zoneNames()
	return names[draw(r.Token, len(names))]
}

// orIn is in, and the class itself if it does not have the zone.
func (s *spec) orIn(name string) *spec {
	if at, err := s.in(name); err == nil {
		return at
	}
	return s
}

func (s *spec) unknownZone(name string) error {
	has := "names no zone; leave the failure domain empty, or add the zone to providerSpec.zones"
	names := s.zoneNames()
	if s.Zone != "" {
		names = append(names, s.Zone)
	}
	if len(names) > 0 {
		slices.Sort(names)
		has = "has " + strings.Join(names, ", ") + "; choose one of them, or add the zone to providerSpec.zones"
	}
	return cloud.Errorf(cloud.Invalid, opCreate, "UnknownZone", "zone %q cannot be chosen: the class %s", name, has)
}
