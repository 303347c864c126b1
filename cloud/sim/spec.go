package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
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
	Zones        []string          `json:"zones"` // machines are spread over these and Zone
	InstanceType string            `json:"instanceType"`
	Image        string            `json:"image"`
	Disks        []diskSpec        `json:"disks"`    // the first is the root disk
	Networks     []networkSpec     `json:"networks"` // the first is made with the VM
	Spot         bool              `json:"spot"`
	Forwarding   bool              `json:"forwarding"`
	Tags         map[string]string `json:"tags"`

	LoadBalancers []balancerSpec `json:"loadBalancers"` // that send requests to the VMs

	ownership []string // keys of Tags that name the cluster and the role, sorted

	driverkit.Checks
}

type diskSpec struct {
	SizeGiB int    `json:"sizeGiB"`
	Type    string `json:"type"`
	Keep    bool   `json:"keep"` // it outlives the VM
}

// retentionTags are the tags of a disk that says what becomes of it; none where the class keeps
// no disk.
func (s *spec) retentionTags(d diskSpec) map[string]string {
	switch {
	case d.Keep:
		return map[string]string{cloud.OnTerminationTag: string(cloud.RetentionKeep)}
	case slices.ContainsFunc(s.Disks, func(d diskSpec) bool { return d.Keep }):
		return map[string]string{cloud.OnTerminationTag: string(cloud.RetentionDelete)}
	}
	return nil
}

// retentionOf returns what becomes of a disk. One without a tag goes with its VM: its class kept none. One
// that never was part of a VM is what a failed creation has left, and has no data.
func retentionOf(item Resource) cloud.Retention {
	tag, tagged := item.Tags[cloud.OnTerminationTag]
	switch {
	case item.Disk == nil || !tagged:
		return ""
	case tag == string(cloud.RetentionKeep) && item.Disk.VM == "" && item.Disk.Keep && !item.Disk.Used:
		return cloud.RetentionDelete
	}
	return cloud.RetentionOf(tag)
}

type networkSpec struct {
	ID string `json:"id"`
}

type balancerSpec struct {
	ID   string `json:"id"`
	Port int32  `json:"port"` // of the VM
}

// decode decodes a provider spec.
func decode(raw json.RawMessage) *spec {
	s := &spec{}
	s.Checks = driverkit.Decode(raw, s, lenient.Options{
		Severity: severityOf,
		Hint:     "endpoint, region, instanceType, image and tags",
	})
	s.APIVersion, s.Kind = nil, nil // classes that mean the same are equal
	s.ownership = driverkit.Ownership(s.Tags, driverkit.Begins(clusterTagPrefix), driverkit.Begins(roleTagPrefix))
	return s
}

// severityOf returns which calls a field of a wrong type rules out.
func severityOf(path string) cloud.Severity {
	switch strings.ToLower(path) {
	case "endpoint", "region", "tags":
		return cloud.BlocksAll
	}
	return cloud.BlocksCreate
}

// The entries of the Secret.
const (
	accountKey = "accountID"
	secretKey  = "secretKey"
)

// validate adds what is wrong with the values of a spec that decoded.
func (s *spec) validate() {
	s.validateEndpoint()
	s.Require(cloud.BlocksAll, "region", s.Region, "name the cloud's region, e.g. sim-1")
	if s.ownership == nil {
		s.Problems.Add(cloud.BlocksAll, "tags",
			fmt.Sprintf("lacks the ownership tags; add a key %s<cluster> and a key %s<role>", clusterTagPrefix, roleTagPrefix))
	}
	for _, key := range []string{NameTag, ownerTag, cloud.OnTerminationTag} {
		if _, set := s.Tags[key]; set {
			s.Problems.Add(cloud.Warning, "tags["+key+"]",
				"is set by the manager on every resource and has no effect here; remove it")
		}
	}
	s.Require(cloud.BlocksCreate, "instanceType", s.InstanceType, "name one of the cloud's instance types, e.g. small")
	s.Require(cloud.BlocksCreate, "image", s.Image, "name one of the cloud's images, e.g. linux-1")
	for i, d := range s.Disks {
		if d.SizeGiB < 1 {
			s.Problems.Add(cloud.BlocksCreate, fmt.Sprintf("disks[%d].sizeGiB", i),
				fmt.Sprintf("is %d and has to be at least 1", d.SizeGiB))
		}
	}
	for i, n := range s.Networks {
		s.Require(cloud.BlocksCreate, fmt.Sprintf("networks[%d].id", i), n.ID,
			"name one of the region's networks, or leave networks out for its first")
	}
	for i, b := range s.LoadBalancers {
		at := fmt.Sprintf("loadBalancers[%d].", i)
		s.Require(cloud.BlocksCreate, at+"id", b.ID, "name one of the region's load balancers")
		s.BlockIf(strings.Contains(b.ID, "/"), at+"id", "contains a slash; name one of the region's load balancers")
		s.Between(at+"port", &b.Port, 1, math.MaxUint16)
	}
}

// validateEndpoint checks that requests can be sent to the endpoint.
func (s *spec) validateEndpoint() {
	before := len(s.Problems)
	s.Require(cloud.BlocksAll, "endpoint", s.Endpoint, "write the URL of the simulated cloud, e.g. http://127.0.0.1:8484")
	if len(s.Problems) > before || s.Endpoint == "" {
		return
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		s.Problems.Add(cloud.BlocksAll, "endpoint",
			"is no URL that begins with http:// or https://; write one, e.g. http://127.0.0.1:8484")
		return
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		s.Problems.Add(cloud.BlocksAll, "endpoint", "has more than scheme, host and path; credentials belong into the Secret")
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
