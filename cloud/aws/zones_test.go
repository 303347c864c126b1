package aws_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// TestZones: a machine's zone chooses the subnet, and a zone without one is refused
// before anything is made.
func TestZones(t *testing.T) {
	t.Parallel()
	elsewhere := spec{"networkInterfaces": []any{nic(spec{"subnetID": "subnet-b1"})}}
	cases := map[string]struct {
		reason     string
		class      spec
		zone       string
		annotation string
		subnet     string // of the VM; empty if the zone is refused
		field      string // that the refusal names
	}{
		"Home":       {"MCM's field is the default", zoned(), "", "", "subnet-a1", ""},
		"Other":      {"each zone has its subnet", zoned(), "eu-west-1b", "", "subnet-b1", ""},
		"Annotation": {"it names a zone too", zoned(), "", "eu-west-1b", "subnet-b1", ""},
		"AnnotationFirst": {
			"the zone of the request may be the least used one", zoned(), "eu-west-1a", "eu-west-1b", "subnet-b1", "",
		},
		"Without": {"no subnet is there", zoned(), "eu-west-1c", "", "", "spec.failureDomain"},
		"Default": {
			"the first subnet is the default of a class with no other",
			edit(zoned(), spec{"networkInterfaces": []any{nic(spec{"subnetID": nil}), nic(spec{"subnetID": nil})}}),
			"", "", "subnet-b1", "",
		},
		"OnlyInterfaces": {"EC2 knows where the subnet is", elsewhere, "eu-west-1b", "", "subnet-b1", ""},
		"NotTheSubnets":  {"EC2 knows where the subnet is", elsewhere, "eu-west-1a", "", "", "spec.failureDomain"},
		"NotTheAnnotations": {
			"EC2 knows where the subnet is", elsewhere, "", "eu-west-1a", "",
			"spec.nodeTemplate.metadata.annotations[machine.sapcloud.io/awsPlacement]",
		},
		"NoSuchSubnet": {
			"it is not the zone that is wrong",
			spec{"networkInterfaces": []any{nic(spec{"subnetID": "subnet-x"})}},
			"eu-west-1a", "", "", "providerSpec.networkInterfaces[0].subnetID",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			a, c := w.open(class("c", tc.class), credentials())
			r := w.request(c, 1)
			r.Zone = tc.zone
			if tc.annotation != "" {
				placement := `{"AvailabilityZone":"` + tc.annotation + `"}`
				r.Annotations = map[string]string{"machine.sapcloud.io/awsPlacement": placement}
			}
			vm, err := a.Create(t.Context(), r)
			if tc.field != "" {
				e, _ := errors.AsType[*cloud.Error](err)
				if e == nil || e.Code != cloud.Invalid || len(e.Problems) != 1 || e.Problems[0].Field != tc.field ||
					len(w.cloud.Ledger()) > 0 || w.asked("RunInstances") > 0 {
					t.Fatalf("got %v, want Invalid about %s and nothing made: %s", err, tc.field, tc.reason)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, tc.reason)
			}
			if again, err := a.Create(t.Context(), r); err != nil || again.ID != vm.ID {
				t.Errorf("the same request again: %s, %v, want %s", again.ID, err, vm.ID)
			}
			for _, part := range w.cloud.Ledger() {
				if part.Subnet != "" && part.Subnet != tc.subnet {
					t.Errorf("%s %s is in %s, want %s: %s", part.Kind, part.ID, part.Subnet, tc.subnet, tc.reason)
				}
			}
		})
	}
}

// TestZoneChangesMidway: the zone of an attempt whose answer was lost is not changed,
// because EC2 keeps the tokens of each zone apart. A throttled or denied call in between
// shows nothing about the launch.
func TestZoneChangesMidway(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", zoned()), credentials())
	r := w.request(c, 1)
	w.proxy.Inject(cloudtest.Fault{Kind: cloudtest.DropResponse, Match: cloudtest.Op("RunInstances")})
	if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.Unavailable {
		t.Fatalf("got %v, want Unavailable", err)
	}
	for code, want := range map[string]cloud.Code{
		"RequestLimitExceeded": cloud.Throttled, "UnauthorizedOperation": cloud.Denied,
	} {
		w.proxy.Inject(cloudtest.Fault{
			Kind: cloudtest.Answer, Match: cloudtest.Op("RunInstances"), Reply: cloudtest.Reply{
				Status: http.StatusForbidden,
				Body:   "<Response><Errors><Error><Code>" + code + "</Code><Message>no</Message></Error></Errors></Response>",
			},
		})
		if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != want {
			t.Fatalf("%s: got %v, want %v", code, err, want)
		}
	}
	r.Zone = "eu-west-1b"
	if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.TokenUsed {
		t.Errorf("in another zone: got %v, want TokenUsed", err)
	}
	r.Zone = ""
	vm, err := a.Create(t.Context(), r)
	if err != nil || vm.Zone != "eu-west-1a" || w.asked("RunInstances") != 2 {
		t.Errorf("in the first zone again: %s, %v, %d launches; want the VM", vm.Zone, err, w.asked("RunInstances"))
	}
}

// asked returns how often an action was asked for.
func (w *env) asked(action string) int {
	n := 0
	for _, call := range w.cloud.Calls() {
		if call.Action == action {
			n++
		}
	}
	return n
}

// TestSubnetIsAskedForOnce: a subnet does not change its zone.
func TestSubnetIsAskedForOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	for i := range 3 {
		r := w.request(c, i)
		r.Zone = "eu-west-1b"
		if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.Invalid ||
			!strings.Contains(err.Error(), "eu-west-1a") {
			t.Errorf("got %v, want Invalid that names the zone of the subnet", err)
		}
	}
	if n := w.asked("DescribeSubnets"); n != 1 {
		t.Errorf("EC2 was asked %d times for a subnet, want once", n)
	}
}

// TestZonesOfClass: a class offers the zones that it names, and no others.
func TestZonesOfClass(t *testing.T) {
	t.Parallel()
	d := aws.NewDriver(aws.Options{})
	many := edit(zoned(), spec{"subnets": append(zoned()["subnets"].([]any), spec{
		"zone": "eu-west-1c", "subnetID": "subnet-c1",
	})})
	c, _ := d.Parse(class("c", many))
	if diff := cmp.Diff([]string{"eu-west-1b", "eu-west-1c"}, c.Zones); diff != "" || c.Zone != "eu-west-1a" || c.AnyZone {
		t.Errorf("zone %s, any %v, others: -want +got: %s", c.Zone, c.AnyZone, diff)
	}
	if c, _ = d.Parse(class("c", nil)); c.Zone != "" || c.Zones != nil || !c.AnyZone {
		t.Errorf("without subnets: zone %q, zones %v, any %v, want only any", c.Zone, c.Zones, c.AnyZone)
	}
}
