package vsphere

import (
	"encoding/json"
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
	Network                      string            `json:"network"`
	SwitchUUID                   string            `json:"switchUuid"`
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

	driverkit.Checks
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
