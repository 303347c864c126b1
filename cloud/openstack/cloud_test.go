package openstack_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	rig "github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

// open opens an account and parses a class of the way with edits.
func open(t *testing.T, creds cloud.Credentials, edits spec) (cloud.Account, cloud.Class, error) {
	t.Helper()
	d := openstack.NewDriver(openstack.Options{})
	c, problems := d.Parse(class("c", edits))
	for _, p := range problems {
		if p.Severity > cloud.Warning {
			t.Fatal(p)
		}
	}
	a, err := d.Open(t.Context(), c, creds)
	return a, c, err
}

// request is for a machine.
func request(c cloud.Class) cloud.CreateRequest {
	return cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m", OwnerID: "owner-of-m", Class: c}, Token: "5eed", UserData: []byte("#cloud-config"),
		Checkpoint: func(context.Context, string) error { return nil },
	}
}

// finished calls Create until it is finished or fails for good.
func finished(t *testing.T, a cloud.Account, r cloud.CreateRequest) (vm cloud.VM, err error) {
	t.Helper()
	rig.Until(t, "creation is finished", func() bool {
		vm, err = a.Create(t.Context(), r)
		return err == nil && vm.RetryAfter == 0 || err != nil && cloud.CodeOf(err) != cloud.Unavailable
	})
	return vm, err
}

// gone deletes until it is done.
func gone(t *testing.T, a cloud.Account, r cloud.Ref) {
	t.Helper()
	rig.Until(t, "deletion is done", func() bool {
		d, err := a.Delete(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return d.Done
	})
}

// TestExhausted: what real Nova says when it has no room, at once and later.
func TestExhausted(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t)
	cases := map[string]struct {
		edits  spec
		before func()
		reason string
		want   cloud.Offering
	}{
		"1 no host": {
			edits: spec{"flavorName": rig.FlavorHuge}, reason: "NoValidHost",
			want: cloud.Offering{
				Region: rig.Region, Zone: rig.Zone, InstanceType: rig.FlavorHuge, CapacityType: "image " + rig.Image,
			},
		},
		"2 flavor": {
			edits: spec{"flavorName": "m1.none"}, reason: "FlavorNotFound",
			want: cloud.Offering{Region: rig.Region, Zone: rig.Zone, InstanceType: "m1.none"},
		},
		"3 quota": {
			before: func() { p.Limit(t, "nova", map[string]int{"cores": 0}) }, reason: "OverQuota",
			want: cloud.Offering{Region: rig.Region, InstanceType: rig.FlavorSmall},
		},
	}
	for _, name := range []string{"1 no host", "2 flavor", "3 quota"} {
		c := cases[name]
		if c.before != nil {
			c.before()
		}
		a, parsed, err := open(t, credentials(p), edit(novaPort.of(p), c.edits))
		if err != nil {
			t.Fatal(err)
		}
		r := request(parsed)
		_, err = finished(t, a, r)
		e, ok := errors.AsType[*cloud.Error](err)
		if !ok || e.Code != cloud.Exhausted || e.Reason != c.reason || e.Offering == nil || *e.Offering != c.want {
			t.Errorf("%s: got %+v, want Exhausted, %s, %+v", name, e, c.reason, c.want)
		}
		gone(t, a, r.Ref)
	}
	if left := (backend{p}).ledger(t); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// TestBuildFails: a server that could not be built for another reason is taken
// back, with all that was made for it.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t)
	a, c, err := open(t, credentials(p), edit(ownPort.of(p), spec{"availabilityZone": rig.ZoneBroken}))
	if err != nil {
		t.Fatal(err)
	}
	r := request(c)
	_, err = finished(t, a, r)
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Code != cloud.Unknown || e.Reason != "BuildFailed" || !strings.Contains(e.Error(), "aborted") {
		t.Errorf("got %+v, want Unknown, BuildFailed, and Nova's explanation", err)
	}
	gone(t, a, r.Ref)
	if left := (backend{p}).ledger(t); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// TestUnknownReferences: what a class names and the cloud does not have is
// reported with its field, and nothing is left.
func TestUnknownReferences(t *testing.T) {
	t.Parallel()
	const id = "00000000-0000-4000-8000-00000000dead"
	p := rig.ForTest(t).NewProject(t).More(t)
	cases := map[string]struct {
		way   way
		edits spec
		field string
	}{
		"image by name": {novaPort, spec{"imageName": "none"}, "imageName"},
		"image by id":   {novaPort, spec{"imageID": id}, "imageID"},
		"network":       {novaPort, spec{"networkID": id}, "networkID"},
		"network by name": {
			novaPort,
			spec{"networkID": nil, "networks": []any{spec{"name": "none"}}},
			"networks[0].name",
		},
		"network of port":      {ownPort, spec{"networkID": id}, "networkID"},
		"subnet":               {ownPort, spec{"subnetIDs": []string{id}}, "subnetIDs"},
		"group":                {novaPort, spec{"securityGroups": []string{"none"}}, "securityGroups"},
		"group of port":        {ownPort, spec{"securityGroups": []string{"none"}}, "securityGroups[0]"},
		"key":                  {novaPort, spec{"keyName": "none"}, "keyName"},
		"zone":                 {novaPort, spec{"availabilityZone": "none"}, "availabilityZone"},
		"server group":         {novaPort, spec{"serverGroupID": id}, "serverGroupID"},
		"server group by name": {novaPort, spec{"serverGroup": "none"}, "serverGroup"},
		"subnet by name":       {novaPort, spec{"subnets": []string{"none"}}, "subnets[0]"},
		"pool":                 {novaPort, spec{"floatingIPPool": "none"}, "floatingIPPool"},
		"pool that is none":    {novaPort, spec{"floatingIPPool": rig.NetworkName}, "floatingIPPool"},
		"pool out of reach": {
			novaPort,
			spec{"networkID": nil, "networks": []any{spec{"id": p.Network2}}, "floatingIPPool": rig.PoolName},
			"floatingIPPool",
		},
		"volume type":         {ownPort, spec{"rootDiskType": "no-such-type"}, "rootDiskType"},
		"metadata with slash": {novaPort, spec{"tags": spec{clusterKey: "1", roleKey: "1", "a/b": "1"}}, "tags"},
		"pod network":         {ownPort, spec{"podNetworkCIDRs": []string{"x"}}, "podNetworkCIDRs"},
	}
	for name, c := range cases {
		a, parsed, err := open(t, credentials(p), func() spec {
			all := c.way.of(p)
			maps.Copy(all, c.edits)
			return all
		}())
		if err != nil {
			t.Fatal(err)
		}
		r := request(parsed)
		_, err = finished(t, a, r)
		e, ok := errors.AsType[*cloud.Error](err)
		if !ok || e.Code != cloud.Invalid || len(e.Problems) != 1 || e.Problems[0].Field != "providerSpec.spec."+c.field {
			t.Errorf("%s: got %v, %+v, want Invalid and a problem with %s", name, err, e, c.field)
		}
		gone(t, a, r.Ref)
	}
	if left := (backend{p}).ledger(t); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
	_, _, err := open(t, credentials(p), edit(novaPort.of(p), spec{"region": "none"}))
	if e, ok := errors.AsType[*cloud.Error](err); !ok || e.Code != cloud.Invalid ||
		e.Problems[0].Field != "providerSpec.spec.region" {
		t.Errorf("unknown region: got %v", err)
	}
}

// TestApplicationCredential: by id and by name; one that was deleted is denied,
// of which Keystone says that it does not exist.
func TestApplicationCredential(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t)
	id, name, secret := p.ApplicationCredential(t)
	for how, creds := range map[string]cloud.Credentials{
		"by id": {
			"authURL": []byte(p.AuthURL()), "applicationCredentialID": []byte(id),
			"applicationCredentialSecret": []byte(secret),
		},
		"by name": {
			"authURL": []byte(p.AuthURL()), "applicationCredentialName": []byte(name),
			"applicationCredentialSecret": []byte(secret),
			"username":                    []byte(p.User), "domainName": []byte("Default"), "tenantName": []byte(p.Name),
		},
		"clouds.yaml": {"clouds.yaml": []byte(strings.Join([]string{
			"clouds:", "  a:", "    auth_type: v3applicationcredential", "    auth:", "      auth_url: " + p.AuthURL(),
			"      application_credential_id: " + id, "      application_credential_secret: " + secret,
		}, "\n"))},
	} {
		a, c, err := open(t, creds, novaPort.of(p))
		if err != nil {
			t.Errorf("%s: %v", how, err)
			continue
		}
		if _, err := a.Capacity(t.Context(), c); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	p.DeleteApplicationCredential(t, id)
	proxy := cloudtest.NewProxy(nil, classify)
	d := openstack.NewDriver(openstack.Options{Transport: proxy})
	c, _ := d.Parse(class("c", novaPort.of(p)))
	creds := cloud.Credentials{
		"authURL": []byte(p.AuthURL()), "applicationCredentialID": []byte(id),
		"applicationCredentialSecret": []byte(secret),
	}
	for range 5 {
		if _, err := d.Open(t.Context(), c, creds); cloud.CodeOf(err) != cloud.Denied {
			t.Errorf("a deleted application credential: got %v, want Denied", err)
		}
	}
	if n := len(proxy.Calls()); n != 1 {
		t.Errorf("credentials that were refused are tried %d times, want once", n)
	}
}

// TestPodNetworks: the addresses of pods pass the ports in their networks, and no
// others.
func TestPodNetworks(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t).More(t)
	a, c, err := open(t, credentials(p), spec{
		"networkID": nil, "networks": []any{spec{"name": rig.NetworkName, "podNetwork": true}, spec{"id": p.Network2}},
		"podNetworkCIDRs": []string{"100.64.0.0/11", "100.96.0.0/11"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(c)
	vm, err := finished(t, a, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range p.PortsOf(t, vm.ID) {
		want := 0
		if port.Network == p.Network {
			want = 2
		}
		if len(port.Pairs) != want {
			t.Errorf("port %+v: want %d address pairs", port, want)
		}
	}
	gone(t, a, r.Ref)
}

// TestBootVolumeIsMarked: a volume that Nova makes of the image is listed as the
// machine's, and goes with it.
func TestBootVolumeIsMarked(t *testing.T) {
	t.Parallel()
	p := rig.ForTest(t).NewProject(t)
	a, c, err := open(t, credentials(p), edit(novaPort.of(p), spec{"rootDiskSize": 20}))
	if err != nil {
		t.Fatal(err)
	}
	r := request(c)
	if _, err := finished(t, a, r); err != nil {
		t.Fatal(err)
	}
	var found []cloud.Resource
	for disk, err := range a.List(t.Context(), c, cloud.KindDisk) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, disk)
	}
	if len(found) != 1 || found[0].MachineName != r.Name || found[0].OwnerID != r.OwnerID || !found[0].Attached {
		t.Errorf("got the disks %+v, want one of machine %q", found, r.Name)
	}
	gone(t, a, r.Ref)
	if left := (backend{p}).ledger(t); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}
