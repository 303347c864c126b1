package openstack_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// cannedAccount returns an account of canned services, and a class.
func cannedAccount(t *testing.T, services *canned, edits spec) (cloud.Account, cloud.Class) {
	t.Helper()
	d := openstack.NewDriver(openstack.Options{Transport: cloudtest.HandlerTransport(services)})
	c := cannedClass(t, d, "c", edits)
	services.region = c.Region
	a, err := d.Open(t.Context(), c, cloud.Credentials{
		"authURL": []byte("http://keystone.invalid/v3"), "domainName": []byte("dom"), "tenantName": []byte("proj"),
		"username": []byte("u"), "password": []byte("p"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

func cannedClass(t *testing.T, d cloud.Driver, name string, edits spec) cloud.Class {
	t.Helper()
	c, problems := d.Parse(class(name, edits))
	if err := cloud.Worst("parse", problems, cloud.BlocksCreate); err != nil {
		t.Fatal(err)
	}
	return c
}

func cannedRequest(c cloud.Class, name string) cloud.CreateRequest {
	return cloud.CreateRequest{
		Ref:   cloud.Ref{Name: name, OwnerID: "owner of " + name, Class: c, Created: time.Now()},
		Token: "token of " + name, Checkpoint: func(context.Context, string) error { return nil },
	}
}

// TestNoHostOfOneClass: an anti-affinity group that is full, and an image whose traits no host has, are no shortage of
// the flavor in the zone: another class gets its VM, while further ones of the same class are not asked for.
func TestNoHostOfOneClass(t *testing.T) {
	t.Parallel()
	const group = "33333333-3333-4333-8333-333333333333"
	for name, tc := range map[string]struct {
		full  spec
		noVMs func(body map[string]any) bool
	}{
		"full group": {
			spec{"serverGroupID": group}, func(body map[string]any) bool { return body["os:scheduler_hints"] != nil },
		},
		"traits of an image": {spec{"imageName": "gardenlinux"}, func(body map[string]any) bool {
			return body["server"].(map[string]any)["imageRef"] == named()["gardenlinux"]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			services := &canned{noHost: tc.noVMs}
			driver, full := cannedAccount(t, services, tc.full)
			a := wrap.Offerings(0, wrap.Clock{})(cloud.AccountInfo{}, driver)
			plain := cannedClass(t, openstack.NewDriver(openstack.Options{}), "plain", nil)

			_, err := a.Create(t.Context(), cannedRequest(full, "m-1"))
			e, ok := errors.AsType[*cloud.Error](err)
			if !ok || e.Code != cloud.Exhausted || e.Reason != "NoValidHost" || e.Remembered {
				t.Fatalf("the first of the full class: %v, want NoValidHost", err)
			}
			if vm, err := a.Create(t.Context(), cannedRequest(plain, "m-2")); err != nil || vm.State != cloud.StateRunning {
				t.Errorf("another class of the flavor in the zone: %+v, %v", vm, err)
			}
			_, err = a.Create(t.Context(), cannedRequest(full, "m-3"))
			if e, ok := errors.AsType[*cloud.Error](err); !ok || !e.Remembered {
				t.Errorf("the second of the full class: %v, want the answer that is remembered", err)
			}
		})
	}
}

// TestRegionalProviderIDs: the cloud controller manager can be told to name the region in Nodes, and the class then is.
func TestRegionalProviderIDs(t *testing.T) {
	t.Parallel()
	for want, edits := range map[string]spec{
		"openstack:///": nil, "openstack://RegionOne/": {"regionalProviderIDs": true},
	} {
		a, c := cannedAccount(t, &canned{}, edits)
		r := cannedRequest(c, "m-1")
		vm, err := a.Create(t.Context(), r)
		if err != nil || vm.NodeProviderID != want+vm.ID || vm.ProviderID != "openstack:///RegionOne/"+vm.ID {
			t.Errorf("got %q and %q, %v, want %s…", vm.NodeProviderID, vm.ProviderID, err, want)
		}
		r.ProviderID = vm.NodeProviderID
		if found, err := a.Get(t.Context(), r.Ref); err != nil || found.ID != vm.ID {
			t.Errorf("by %s: %+v, %v", r.ProviderID, found, err)
		}
	}
}
