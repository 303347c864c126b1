package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// The tags that say what belongs to a cluster. A key counts when it begins with
// the prefix; the rest of it names the cluster and the role.
const (
	clusterTagPrefix = "kubernetes.io/cluster/"
	roleTagPrefix    = "kubernetes.io/role/"
	ownerTag         = "mcm.cluster.x-k8s.io/owner-id"
)

// spec is a decoded provider spec. Nothing modifies it once Parse has returned.
type spec struct {
	APIVersion   json.RawMessage   `json:"apiVersion"` // as all of MCM's have it; it says nothing
	Kind         json.RawMessage   `json:"kind"`
	Endpoint     string            `json:"endpoint"`
	Region       string            `json:"region"`
	Zone         string            `json:"zone"`
	InstanceType string            `json:"instanceType"`
	Image        string            `json:"image"`
	Disks        []diskSpec        `json:"disks"`    // the first is the root disk
	Networks     []networkSpec     `json:"networks"` // the first is made with the VM
	Spot         bool              `json:"spot"`
	Forwarding   bool              `json:"forwarding"`
	Tags         map[string]string `json:"tags"`

	problems lenient.Problems
}

type diskSpec struct {
	SizeGiB int    `json:"sizeGiB"`
	Type    string `json:"type"`
}

type networkSpec struct {
	ID string `json:"id"`
}

// decode decodes a provider spec.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.problems = lenient.Decode(raw, s, lenient.Options{
		Severity: severityOf,
		Hint:     "endpoint, region, instanceType, image and tags",
	}).Problems
	s.APIVersion, s.Kind = nil, nil // classes that mean the same are equal
	return s
}

// severityOf says what it rules out that a field is of a wrong type.
func severityOf(path string) cloud.Severity {
	switch strings.ToLower(path) {
	case "endpoint", "region", "tags":
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// ownership returns the keys of the tags that say what belongs to the class's
// cluster and role, sorted. It is empty unless there is one of either kind: a
// class that does not say what is its own owns nothing.
func (s *spec) ownership() []string {
	var keys []string
	cluster, role := false, false
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		isCluster := len(key) > len(clusterTagPrefix) && strings.HasPrefix(key, clusterTagPrefix)
		isRole := len(key) > len(roleTagPrefix) && strings.HasPrefix(key, roleTagPrefix)
		if isCluster || isRole {
			keys = append(keys, key)
		}
		cluster, role = cluster || isCluster, role || isRole
	}
	if !cluster || !role {
		return nil
	}
	return keys
}

// The entries of the Secret.
const (
	accountKey = "accountID"
	secretKey  = "secretKey"
)

// validate adds what is wrong with the values of a spec that decoded.
func (s *spec) validate() {
	s.validateEndpoint()
	s.require(cloud.BlocksAll, "region", s.Region, "name the cloud's region, e.g. sim-1")
	if s.ownership() == nil {
		s.problems.Add(cloud.BlocksAll, "tags",
			fmt.Sprintf("lacks the ownership tags; add a key %s<cluster> and a key %s<role>", clusterTagPrefix, roleTagPrefix))
	}
	for _, key := range []string{NameTag, ownerTag} {
		if _, set := s.Tags[key]; set {
			s.problems.Add(cloud.Warning, "tags["+key+"]",
				"is given to every resource by the manager and has no effect here; remove it")
		}
	}
	s.require(cloud.BlocksCreate, "instanceType", s.InstanceType, "name one of the cloud's instance types, e.g. small")
	s.require(cloud.BlocksCreate, "image", s.Image, "name one of the cloud's images, e.g. linux-1")
	for i, d := range s.Disks {
		if d.SizeGiB < 1 {
			s.problems.Add(cloud.BlocksCreate, fmt.Sprintf("disks[%d].sizeGiB", i),
				fmt.Sprintf("is %d and has to be at least 1", d.SizeGiB))
		}
	}
	for i, n := range s.Networks {
		s.require(cloud.BlocksCreate, fmt.Sprintf("networks[%d].id", i), n.ID,
			"name one of the region's networks, or leave networks out for its first")
	}
}

// require adds a problem when a field is empty, unless there is one with it.
func (s *spec) require(severity cloud.Severity, path, value, remedy string) {
	known := slices.ContainsFunc(s.problems, func(p cloud.Problem) bool {
		return strings.EqualFold(p.Field, "providerSpec."+path)
	})
	if strings.TrimSpace(value) == "" && !known {
		s.problems.Add(severity, path, "is missing; "+remedy)
	}
}

// validateEndpoint checks that requests can be sent to the endpoint.
func (s *spec) validateEndpoint() {
	before := len(s.problems)
	s.require(cloud.BlocksAll, "endpoint", s.Endpoint, "write the URL of the simulated cloud, e.g. http://127.0.0.1:8484")
	if len(s.problems) > before || s.Endpoint == "" {
		return
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		s.problems.Add(cloud.BlocksAll, "endpoint",
			"is no URL that begins with http:// or https://; write one, e.g. http://127.0.0.1:8484")
		return
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		s.problems.Add(cloud.BlocksAll, "endpoint", "has more than scheme, host and path; credentials belong into the Secret")
	}
}

// login returns the credentials, without the white space that editors and
// encoders leave around them.
func login(creds cloud.Credentials) Login {
	return Login{
		Account: strings.TrimSpace(string(creds[accountKey])),
		Secret:  strings.TrimSpace(string(creds[secretKey])),
	}
}

// checkSecret names the entries that are missing, by field.
func checkSecret(creds cloud.Credentials) []cloud.Problem {
	var problems []cloud.Problem
	who := login(creds)
	for _, entry := range []struct{ key, value, what string }{
		{accountKey, who.Account, "the id of the account"}, {secretKey, who.Secret, "its secret key"},
	} {
		if entry.value == "" {
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksAll, Field: "secret." + entry.key, Message: "is missing; put " + entry.what + " there",
			})
		}
	}
	return problems
}
