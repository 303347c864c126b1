package gcp

import (
	"path"
	"time"
)

// instance is a VM as the API shows it.
type instance struct {
	Name               string            `json:"name"`
	Zone               string            `json:"zone"`        // a URL
	MachineType        string            `json:"machineType"` // a URL
	Status             string            `json:"status"`
	StatusMessage      string            `json:"statusMessage"`
	Created            time.Time         `json:"creationTimestamp"`
	Labels             map[string]string `json:"labels"`
	LabelFingerprint   string            `json:"labelFingerprint"`
	Tags               networkTags       `json:"tags"`
	Metadata           metadata          `json:"metadata"`
	NetworkInterfaces  []nic             `json:"networkInterfaces"`
	DeletionProtection bool              `json:"deletionProtection"`
	Disks              []attached        `json:"disks"` // listings leave them out
}

// attached is a disk as an instance shows it.
type attached struct {
	Source     string `json:"source"` // a URL; empty for a scratch disk
	AutoDelete bool   `json:"autoDelete"`
}

func (i instance) place() place { return place{zone: path.Base(i.Zone), name: i.Name} }

// disk is a persistent disk as the API shows it.
type disk struct {
	Name    string            `json:"name"`
	Zone    string            `json:"zone"` // a URL; empty for a disk of a region
	Created time.Time         `json:"creationTimestamp"`
	Labels  map[string]string `json:"labels"`
	Users   []string          `json:"users"` // URLs of the instances that it is attached to

	LabelFingerprint string `json:"labelFingerprint"`
}

func (d disk) place() place { return place{zone: path.Base(d.Zone), name: d.Name} }

// operation is what a request for a change starts.
type operation struct {
	Name   string `json:"name"`
	Status string `json:"status"` // PENDING, RUNNING or DONE
	Error  struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	} `json:"error"`
}

const operationDone = "DONE"

// request is a VM as it is asked for. What the class leaves out is left out, but for switches that
// MCM always sends.
type request struct {
	Name               string            `json:"name"`
	MachineType        string            `json:"machineType"`
	Description        string            `json:"description,omitempty"`
	CanIPForward       bool              `json:"canIpForward,omitempty"`
	DeletionProtection bool              `json:"deletionProtection,omitempty"`
	MinCPUPlatform     string            `json:"minCpuPlatform,omitempty"`
	Labels             map[string]string `json:"labels,omitempty"`
	Tags               networkTags       `json:"tags"`
	Metadata           metadata          `json:"metadata"`
	Disks              []diskRequest     `json:"disks"`
	NetworkInterfaces  []nic             `json:"networkInterfaces"`
	Accelerators       []accelerator     `json:"guestAccelerators,omitempty"`
	Scheduling         scheduling        `json:"scheduling"`
	ServiceAccounts    []guestAccount    `json:"serviceAccounts,omitempty"`
	Shielded           *shielded         `json:"shieldedInstanceConfig,omitempty"`
	Advanced           *advanced         `json:"advancedMachineFeatures,omitempty"`
}

type networkTags struct {
	Items []string `json:"items,omitempty"`
}

type metadata struct {
	Items []item `json:"items,omitempty"`
}

type item struct {
	Key   string `json:"key"`
	Value string `json:"value"` // also if it is empty: the API requires it
}

type diskRequest struct {
	AutoDelete bool        `json:"autoDelete"`
	Boot       bool        `json:"boot"`
	Type       string      `json:"type"`
	Interface  string      `json:"interface,omitempty"`
	Params     diskParams  `json:"initializeParams"`
	Encryption *encryption `json:"diskEncryptionKey,omitempty"`
}

type diskParams struct {
	Name        string            `json:"diskName,omitempty"`
	SizeGB      int64             `json:"diskSizeGb,omitempty,string"`
	Type        string            `json:"diskType,omitempty"`
	Image       string            `json:"sourceImage,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	IOPS        int64             `json:"provisionedIops,omitempty,string"`
	Throughput  int64             `json:"provisionedThroughput,omitempty,string"`
	StoragePool string            `json:"storagePool,omitempty"`
}

type encryption struct {
	KeyName    string `json:"kmsKeyName"`
	KeyAccount string `json:"kmsKeyServiceAccount,omitempty"`
}

type nic struct {
	Network    string         `json:"network,omitempty"`
	Subnetwork string         `json:"subnetwork,omitempty"`
	StackType  string         `json:"stackType,omitempty"`
	Aliases    []alias        `json:"aliasIpRanges,omitempty"`
	Access     []accessConfig `json:"accessConfigs,omitempty"`
	IPv6Access []accessConfig `json:"ipv6AccessConfigs,omitempty"`
	IP         string         `json:"networkIP,omitempty"`
	IPv6       string         `json:"ipv6Address,omitempty"`
}

type alias struct {
	Range string `json:"ipCidrRange,omitempty"`
	Name  string `json:"subnetworkRangeName,omitempty"`
}

type accessConfig struct {
	Type string `json:"type,omitempty"`
	Name string `json:"name,omitempty"`
	Tier string `json:"networkTier,omitempty"`
	IP   string `json:"natIP,omitempty"`
	IPv6 string `json:"externalIpv6,omitempty"`
}

type accelerator struct {
	Type  string `json:"acceleratorType"`
	Count int64  `json:"acceleratorCount"`
}

type scheduling struct {
	AutomaticRestart  bool   `json:"automaticRestart"`
	OnHostMaintenance string `json:"onHostMaintenance"`
	Preemptible       bool   `json:"preemptible"`
	ProvisioningModel string `json:"provisioningModel,omitempty"`
}

type guestAccount struct {
	Email  string   `json:"email,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
}

// shielded has nil for what is not sent.
type shielded struct {
	Integrity  *bool `json:"enableIntegrityMonitoring,omitempty"`
	SecureBoot *bool `json:"enableSecureBoot,omitempty"`
	VTPM       *bool `json:"enableVtpm,omitempty"`
}

type advanced struct {
	Nested bool `json:"enableNestedVirtualization"`
}
