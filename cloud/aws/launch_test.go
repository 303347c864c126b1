package aws_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// TestTerminatedSaysWhy: what EC2 ended by itself is gone, and why is known.
func TestTerminatedSaysWhy(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	vm, err := a.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	w.cloud.End(vm.ID, "Client.InternalError", "Client error on launch")
	byID := r.Ref
	byID.ProviderID = vm.ProviderID
	_, err = a.Get(t.Context(), byID)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.NotFound || e.Reason != "Client.InternalError" ||
		!strings.Contains(e.Error(), "Client error on launch") {
		t.Errorf("get: got %v, want NotFound with EC2's reason", err)
	}
	if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.TokenUsed {
		t.Errorf("create again: got %v, want TokenUsed: EC2 makes no other under this token", err)
	}
}

// TestFailedLaunch: an instance that EC2 accepts and then cannot launch is reported as
// if it had been refused.
func TestFailedLaunch(t *testing.T) {
	t.Parallel()
	place := func(zone string) *cloud.Offering {
		return &cloud.Offering{Region: "eu-west-1", Zone: zone, InstanceType: "m5.large", CapacityType: "on-demand"}
	}
	cases := map[string]struct {
		reason string
		code   cloud.Code // Unknown is no error
		of     *cloud.Offering
	}{
		"Server.InsufficientInstanceCapacity": {"the autoscaler has to be told", cloud.Exhausted, place("eu-west-1b")},
		"Server.UnfulfillableCapacity":        {"the autoscaler has to be told", cloud.Exhausted, place("eu-west-1b")},
		"Client.VcpuLimitExceeded":            {"the region has a quota", cloud.Exhausted, place("")},
		"Client.VolumeLimitExceeded":          {"another type has no more volumes", cloud.Exhausted, nil},
		"Client.InvalidSnapshot.NotFound":     {"the class is wrong", cloud.Invalid, nil},
		"Server.InternalError":                {"another VM may do", cloud.Unknown, nil},
		"Client.InternalError":                {"EC2 does not say what is wrong", cloud.Unknown, nil},
		"Client.UserInitiatedShutdown":        {"somebody wanted it", cloud.Unknown, nil},
		"Server.SpotInstanceTermination":      {"it has run", cloud.Unknown, nil},
	}
	for code, tc := range cases {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			a, c := w.open(class("c", zoned()), credentials())
			r := w.request(c, 1)
			r.Zone = "eu-west-1b"
			vm, err := a.Create(t.Context(), r)
			if err != nil || vm.State != cloud.StatePending || vm.RetryAfter <= 0 {
				t.Fatalf("create: %v, again in %v, %v, want pending and to be asked again", vm.State, vm.RetryAfter, err)
			}
			w.cloud.End(vm.ID, code, "said EC2")
			r.ProviderID = vm.ProviderID
			vm, err = a.Create(t.Context(), r)
			if tc.code == cloud.Unknown {
				if err != nil || vm.State != cloud.StateDeleting || vm.Reason != code || vm.RetryAfter > 0 {
					t.Errorf("create again: %+v, %v, want its state and no error: %s", vm, err, tc.reason)
				}
				return
			}
			e, _ := errors.AsType[*cloud.Error](err)
			if e == nil || e.Code != tc.code || e.Reason != code || !strings.Contains(e.Error(), "said EC2") {
				t.Fatalf("create again: %v, want %v for %s: %s", err, tc.code, code, tc.reason)
			}
			if diff := cmp.Diff(tc.of, e.Offering); diff != "" {
				t.Errorf("offering: -want +got: %s: %s", diff, tc.reason)
			}
		})
	}
}

// TestLongAnswers: none is cut off.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.options.Endpoint, w.options.Transport = overHTTP(t, w.cloud)
	a, c := w.open(class("c", nil), credentials())
	const n = 8
	for range n {
		w.cloud.Add(ec2test.Resource{Kind: ec2test.KindInstance, Tags: map[string]string{
			"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1",
		}})
	}
	for i := range 200 {
		found := 0
		for _, err := range a.List(t.Context(), c, cloud.KindVM) {
			if err != nil {
				t.Fatalf("list %d: %v", i, err)
			}
			found++
		}
		if found != n {
			t.Fatalf("list %d: %d VMs, want %d", i, found, n)
		}
	}
}

// TestTagsAreNotCut: a tag of the manager that EC2 does not take is refused before
// anything is made.
func TestTagsAreNotCut(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	r.Tags = map[string]string{cloud.TagPrefix + "cluster-name": strings.Repeat("n", 257)}
	_, err := a.Create(t.Context(), r)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Invalid || len(e.Problems) != 1 ||
		e.Problems[0].Field != "tags["+cloud.TagPrefix+"cluster-name]" {
		t.Errorf("got %v, want a problem with the tag", err)
	}
}

// TestManyTagsAreReplaced: by as many others, which are with them more than EC2 takes.
func TestManyTagsAreReplaced(t *testing.T) {
	t.Parallel()
	const many = 40
	numbered := func(prefix string) spec {
		tags := spec{}
		for i := range many {
			tags[fmt.Sprint(prefix, i)] = "1"
		}
		return tagged(tags)
	}
	w := newEnv(t)
	a, was := w.open(class("c", numbered("old")), credentials())
	r := w.request(was, 1)
	vm, err := a.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	_, is := w.open(class("c", numbered("new")), credentials())
	r.ProviderID, r.Class = vm.ProviderID, is
	obsolete := slices.Collect(maps.Keys(aws.NewDriver(w.options).UserTags(was)))
	for range 2 { // it can be repeated
		if err := a.(cloud.TagSetter).SetTags(t.Context(), r.Ref, obsolete); err != nil {
			t.Fatal(err)
		}
	}
	for _, has := range w.cloud.Ledger() {
		if has.Tags["new0"] == "" || has.Tags["old0"] != "" || has.Tags["kubernetes.io/cluster/c1"] == "" {
			t.Errorf("%s %s has the tags %v", has.Kind, has.ID, has.Tags)
		}
	}
}

// TestUnseenVM: an instance that EC2 accepted and does not show yet is pending.
func TestUnseenVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Change(func(s *ec2test.Settings) { s.Settle = 20 * time.Second })
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	vm, err := a.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.ProviderID, r.UserData = vm.ProviderID, nil
	for range 4 {
		again, err := a.Create(t.Context(), r)
		if err != nil || again.ID != vm.ID || again.State != cloud.StatePending || again.RetryAfter <= 0 {
			t.Fatalf("got %v %v, %v, want %s pending", again.ID, again.State, err, vm.ID)
		}
		w.now.Advance(again.RetryAfter)
	}
	if vm, err = a.Create(t.Context(), r); err != nil || vm.State != cloud.StateRunning || vm.RetryAfter > 0 {
		t.Errorf("got %v, again in %v, %v, want it running", vm.State, vm.RetryAfter, err)
	}
}
