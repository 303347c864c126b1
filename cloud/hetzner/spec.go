package hetzner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// spec is a decoded provider spec. Parse alone modifies it.
type spec struct {
	Cluster          string `json:"cluster"`
	Zone             string `json:"zone"` // a location, or a data center as hel1-dc2, whose location counts
	ServerType       string `json:"serverType"`
	ImageName        string `json:"imageName"` // or the id of an image, e.g. of a snapshot
	SSHFingerprint   string `json:"sshFingerprint"`
	PlacementGroupID string `json:"placementGroupID"`
	FloatingPoolName string `json:"floatingPoolName"`
	NetworkName      string `json:"networkName"`

	// Ours, with the names that Kubermatic's machine-controller gives them.
	Networks             []string          `json:"networks"`  // names or ids
	Firewalls            []string          `json:"firewalls"` // names or ids
	Labels               map[string]string `json:"labels"`
	AssignPublicIPv4     *bool             `json:"assignPublicIPv4"` // true if it is left out, as the next
	AssignPublicIPv6     *bool             `json:"assignPublicIPv6"`
	PlacementGroupPrefix string            `json:"placementGroupPrefix"`

	WithoutSSHKey bool `json:"withoutSSHKey"` // ours

	driverkit.Checks
}

// severity is that of a value of a wrong type: without the cluster nothing is owned.
func severity(path string) cloud.Severity {
	if strings.EqualFold(path, "cluster") {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// decode decodes a provider spec.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(raw, s, lenient.Options{
		Severity: severity, Hint: "cluster, zone, serverType, imageName and sshFingerprint",
	})
	return s
}

// networks are the names or ids of all networks of the class.
func (s *spec) networks() []string {
	if s.NetworkName == "" {
		return s.Networks
	}
	return append([]string{s.NetworkName}, s.Networks...)
}

// locationOf returns the location of a zone: Hetzner no longer takes the names of data centers.
func locationOf(zone string) string {
	location, _, _ := strings.Cut(zone, "-")
	return location
}

// Stock returns the location of a zone: the data centers of a location, and those who name the location
// itself, have one stock.
func (s *spec) Stock(zone string) string { return locationOf(zone) }

// zoneFor returns the zone of the server of r.
func (s *spec) zoneFor(r cloud.CreateRequest) string { return cmp.Or(r.Zone, s.Zone) }

// owner is what tells the class's resources from those of others.
func (s *spec) owner() string { return clusterLabel + "=" + s.Cluster }

// selector returns the expression for the labels of what is the class's and has these too.
func (s *spec) selector(more ...string) string {
	return strings.Join(append([]string{s.owner()}, more...), ",")
}

// equals is a part of a selector.
func equals(key, value string) string { return fmt.Sprintf("%s=%s", key, value) }
