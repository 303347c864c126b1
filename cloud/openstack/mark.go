package openstack

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// birthmark is what the description of a port or a floating IP tells of its owner.
// It is there from the beginning, while Neutron takes tags only afterwards.
type birthmark struct {
	class   string // digest of the ownership keys
	owner   string // id
	cluster string // id; of a port only
	machine string // name; of a floating IP only, which has no name
}

// String returns the description.
func (b birthmark) String() string {
	text := "cluster-api-provider-mcm class=" + b.class + " owner=" + b.owner
	if b.cluster != "" {
		text += " cluster=" + b.cluster
	}
	if b.machine != "" {
		text += " machine=" + b.machine
	}
	return text
}

// readBirthmark decodes a description. It returns the zero value for the description
// of a resource that this driver did not make.
func readBirthmark(description string) (b birthmark) {
	rest, ours := strings.CutPrefix(description, "cluster-api-provider-mcm class=")
	if !ours {
		return b
	}
	rest, b.machine, _ = strings.Cut(rest, " machine=")
	rest, b.cluster, _ = strings.Cut(rest, " cluster=")
	b.class, b.owner, _ = strings.Cut(rest, " owner=")
	return b
}

// portMark is the birthmark of a port of r.
func (c *config) portMark(r cloud.CreateRequest) birthmark {
	return birthmark{class: digest(c.ownership), owner: r.OwnerID, cluster: r.Tags[cloud.ClusterIDTag]}
}

// addressMark is the birthmark of a floating IP of r. It depends on nothing but r,
// because Neutron finds a floating IP by its whole description only.
func (c *config) addressMark(r cloud.Ref) birthmark {
	return birthmark{class: digest(c.ownership), owner: r.OwnerID, machine: r.Name}
}

// marked is the query for the floating IPs of r. Without an owner id, which matches any,
// it does not filter.
func (c *config) marked(r cloud.Ref) url.Values {
	if r.OwnerID == "" {
		return url.Values{}
	}
	ours, unowned := c.addressMark(r), c.addressMark(r)
	unowned.owner = ""
	return url.Values{"description": {ours.String(), unowned.String()}}
}

// digest is equal for equal keys, and short.
func digest(keys []string) string {
	const length = 16
	sum := sha256.Sum256([]byte(strings.Join(keys, "\n")))
	return hex.EncodeToString(sum[:length])
}
