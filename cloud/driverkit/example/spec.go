package example

import (
	"encoding/json"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// The labels that say what belongs to whom begin like this.
const (
	clusterLabel = "cluster-"
	roleLabel    = "role-"
)

// spec is a decoded provider spec. Parse alone modifies it.
type spec struct {
	URL     string            `json:"url"`
	Zone    string            `json:"zone"`
	Type    string            `json:"type"`
	Image   string            `json:"image"`
	DiskGiB *int32            `json:"diskGiB"` // 20 if it is left out
	Labels  map[string]string `json:"labels"`

	ownership []string // keys of Labels that name the cluster and the role

	driverkit.Checks
}

// decode decodes a provider spec.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(raw, s, lenient.Options{Severity: severity, Hint: "url, type, image and labels"})
	return s
}

// severity is which calls a field of a wrong type rules out: all of them need the address
// and the labels.
func severity(path string) cloud.Severity {
	if top, _, _ := strings.Cut(path, "."); strings.EqualFold(top, "url") || strings.EqualFold(top, "labels") {
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}
