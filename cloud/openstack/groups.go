package openstack

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opGroup = "create security group"

	// groupMark is the description of a security group that the driver made.
	groupMark = "cluster-api-provider-mcm: the nodes of this group reach each other"
)

// securityGroup is one of Neutron's.
type securityGroup struct {
	ID          string      `json:"id"`
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Created     time.Time   `json:"created_at"`
	Rules       []groupRule `json:"security_group_rules"`
}

type groupRule struct {
	GroupID   string `json:"security_group_id"`
	Direction string `json:"direction"`
	EtherType string `json:"ethertype"`
	RemoteID  string `json:"remote_group_id"`
}

// defaultGroup returns the id of the security group of that name, which it makes where
// there is none: what leaves a node is allowed, and what comes from another node of the
// group. It belongs to no machine, so it stays.
//
// Several managers may make one at the same time. The oldest counts for all of them.
func (a *account) defaultGroup(ctx context.Context, name string) (string, error) {
	key := "default security group " + name
	done, err := a.turns.Take(ctx, opGroup, key)
	if err != nil {
		return "", err
	}
	defer done()
	if id, known := a.ids.Known(key); known {
		return id, nil
	}
	found, err := a.groupsNamed(ctx, name)
	if err == nil && len(found) == 0 {
		found, err = a.makeGroup(ctx, name)
	}
	if err != nil {
		return "", err
	}
	if err := a.addRules(ctx, found[0]); err != nil {
		return "", err
	}
	a.ids.Put(key, found[0].ID)
	return found[0].ID, nil
}

// groupsNamed returns the security groups of that name, the oldest first.
func (a *account) groupsNamed(ctx context.Context, name string) ([]securityGroup, error) {
	var found []securityGroup
	for g, err := range pages(ctx, a, opGroup, listing[securityGroup]{
		neutron, "security-groups", "security_groups",
		url.Values{"name": {name}},
		func(g securityGroup) string { return g.ID },
	}) {
		if err != nil {
			return nil, driverkit.Restrict(err)
		}
		if g.Name == name {
			found = append(found, g)
		}
	}
	slices.SortFunc(found, func(x, y securityGroup) int {
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.ID, y.ID))
	})
	return found, nil
}

// makeGroup makes a security group, and returns all of that name as they are then.
func (a *account) makeGroup(ctx context.Context, name string) ([]securityGroup, error) {
	err := a.ask(ctx, opGroup, call{
		method: http.MethodPost, of: neutron, path: "security-groups",
		body: map[string]any{"security_group": map[string]string{"name": name, "description": groupMark}},
	})
	if err != nil {
		return nil, wrong(err, "spec.defaultSecurityGroup", "give a name that Neutron takes")
	}
	found, err := a.groupsNamed(ctx, name)
	if err == nil && len(found) == 0 {
		err = cloud.Errorf(cloud.Unavailable, opGroup, "GroupMissing", "Neutron does not show security group %q yet", name)
	}
	return found, err
}

// addRules adds the rules that a security group of the driver's lacks. Neutron itself
// adds those for what leaves a node.
func (a *account) addRules(ctx context.Context, g securityGroup) error {
	if g.Description != groupMark {
		return nil
	}
	for _, etherType := range []string{"IPv4", "IPv6"} {
		rule := groupRule{GroupID: g.ID, Direction: "ingress", EtherType: etherType, RemoteID: g.ID}
		if slices.Contains(g.Rules, rule) {
			continue
		}
		err := a.ask(ctx, opGroup, call{
			method: http.MethodPost, of: neutron, path: "security-group-rules",
			body: map[string]any{"security_group_rule": rule},
		})
		if err != nil && reasonOf(err) != "SecurityGroupRuleExists" {
			return err
		}
	}
	return nil
}
