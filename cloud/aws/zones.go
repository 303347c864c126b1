package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// subnetSpec is the subnet for VMs in one zone.
type subnetSpec struct {
	Zone     string `json:"zone"`
	SubnetID string `json:"subnetID"`
}

// validateSubnets checks the subnet of each zone. A VM has all its interfaces in one
// of them, because EC2 does not let an instance span zones.
func (s *spec) validateSubnets() {
	var zones []string
	for i, n := range s.Subnets {
		zones = append(zones, n.Zone)
		at := fmt.Sprintf("subnets[%d]", i)
		if s.Wrong(at) && n == (subnetSpec{}) {
			continue // it is no object at all
		}
		s.Require(cloud.BlocksCreate, at+".zone", n.Zone, "name the zone of the subnet, e.g. eu-west-1a")
		s.Require(cloud.BlocksCreate, at+".subnetID", n.SubnetID, "name the subnet, e.g. subnet-0123456789abcdef0")
	}
	s.Distinct("subnets", "zone", zones, "name one subnet for each zone")
	if len(s.Subnets) == 0 {
		return
	}
	home := s.homeSubnet()
	for i, n := range s.NetworkInterfaces {
		at := fmt.Sprintf("networkInterfaces[%d].subnetID", i)
		s.BlockIf(n.SubnetID != "" && n.SubnetID != home, at, "is %q, but where the class has subnets, all interfaces of a "+
			"VM are in the same one; name %s, or leave it out", n.SubnetID, home)
		s.BlockIf(n.SubnetID != "" && n.SubnetID == home && s.home() == "", at,
			"is %q, which is not in subnets; add it there with its zone, or leave it out", n.SubnetID)
	}
}

// homeSubnet returns the subnet of VMs whose machines ask for no zone.
func (s *spec) homeSubnet() string {
	for _, n := range s.NetworkInterfaces[:min(1, len(s.NetworkInterfaces))] {
		if n.SubnetID != "" {
			return n.SubnetID
		}
	}
	for _, n := range s.Subnets {
		return n.SubnetID
	}
	return ""
}

// home returns the zone of VMs whose machines ask for none, empty if the class
// does not name it.
func (s *spec) home() string {
	return s.subnet(func(n subnetSpec) bool { return n.SubnetID == s.homeSubnet() }).Zone
}

// subnetIn returns the class's subnet in a zone, empty if it names none.
func (s *spec) subnetIn(zone string) string {
	return s.subnet(func(n subnetSpec) bool { return n.Zone == zone }).SubnetID
}

func (s *spec) subnet(is func(subnetSpec) bool) subnetSpec {
	if i := slices.IndexFunc(s.Subnets, is); i >= 0 {
		return s.Subnets[i]
	}
	return subnetSpec{}
}

// otherZones returns the zones of the class beside its home, sorted.
func (s *spec) otherZones() []string {
	var all []string
	for _, n := range s.Subnets {
		if n.Zone != s.home() {
			all = append(all, n.Zone)
		}
	}
	slices.Sort(all)
	return all
}

// wantedZone returns the zone that a machine asks for and the field in which it does,
// or else the home of the class and no field. In a class with subnets the machine's
// annotation goes first: the zone of the request may only be the least used one.
func (s *spec) wantedZone(r cloud.CreateRequest) (zone, field string) {
	m, _ := s.placementOf(r.Annotations)
	if m != nil && awssdk.ToString(m.AvailabilityZone) != "" && (r.Zone == "" || len(s.Subnets) > 0) {
		return *m.AvailabilityZone, placementField
	}
	if r.Zone != "" {
		return r.Zone, "spec.failureDomain"
	}
	return s.home(), ""
}

// checkZone refuses a zone in which the class has no subnet, before anything is made.
// Where the class does not name the zones of its subnets it asks EC2, once for each.
func (a *account) checkZone(ctx context.Context, s *spec, r cloud.CreateRequest) error {
	zone, field := s.wantedZone(r)
	if field == "" || s.subnetIn(zone) != "" {
		return nil
	}
	if len(s.Subnets) > 0 {
		return wrongZone(field, zone, strings.Join(append([]string{s.home()}, s.otherZones()...), ", "))
	}
	subnet := s.NetworkInterfaces[0].SubnetID
	there, err := a.zoneOf(ctx, subnet)
	e, _ := errors.AsType[*cloud.Error](err)
	switch {
	case e != nil && e.Code == cloud.Denied:
		return nil // who may not look at subnets leaves the comparison to RunInstances
	case e != nil:
		return driverkit.WithField(e, "networkInterfaces[0].subnetID", "name a subnet of this region")
	case there != zone:
		return wrongZone(field, zone, there)
	}
	return nil
}

// wrongZone is the error about a zone in which a class has no subnet.
func wrongZone(field, zone, known string) error {
	return cloud.Worst(opCreate, []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: field,
		Message: fmt.Sprintf("is %q, but the class has subnets only in %s; name one of these zones, or add a subnet to "+
			"providerSpec.subnets", zone, known),
	}}, cloud.BlocksCreate)
}
