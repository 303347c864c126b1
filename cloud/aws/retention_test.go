package aws_test

import (
	"slices"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// keeping is a class that keeps one of its two volumes and one of its two interfaces.
func keeping() spec {
	kept := spec{"deleteOnTermination": false}
	data, root := disk(kept), disk(nil)
	data["deviceName"], root["deviceName"] = "/dev/sdf", "/root"
	return spec{
		"blockDevices":      []any{root, data},
		"networkInterfaces": []any{nic(nil), nic(edit(kept, spec{"deviceIndex": 1}))},
	}
}

// made creates a VM until nothing is left to do about it, and returns the machine.
func (w *env) made(a cloud.Account, r cloud.CreateRequest) cloud.Ref {
	w.Helper()
	for range 20 {
		vm, err := a.Create(w.Context(), r)
		if err != nil {
			w.Fatal(err)
		}
		if r.ProviderID = vm.ProviderID; vm.RetryAfter == 0 {
			return r.Ref
		}
		w.now.Advance(vm.RetryAfter)
	}
	w.Fatal("the creation does not end")
	return cloud.Ref{}
}

// removed deletes what is of r, to the end.
func (w *env) removed(a cloud.Account, r cloud.Ref) {
	w.Helper()
	for range 20 {
		d, err := a.Delete(w.Context(), r)
		if err != nil {
			w.Fatal(err)
		}
		if d.Done {
			return
		}
		w.now.Advance(d.RetryAfter)
	}
	w.Fatal("the deletion does not end")
}

// undecide takes the decisions off all that is there, as a manager that recorded none left it.
func undecide(c *ec2test.Cloud) {
	for _, r := range c.Ledger() {
		c.Edit(r.ID, func(r *ec2test.Resource) { delete(r.Tags, cloud.OnTerminationTag) })
	}
}

func (w *env) untag() { undecide(w.cloud) }

// TestPromisedToStay: what EC2 was asked to keep stays, whatever any class says afterwards,
// and nothing else does.
func TestPromisedToStay(t *testing.T) {
	t.Parallel()
	both := []string{ec2test.KindInterface, ec2test.KindVolume}
	cases := map[string]struct {
		reason     string
		made, then spec // the class when the VM is made, and when it is deleted
		sibling    bool // a class without the flag collects what the deletion has left
		before     func(w *env)
		want       []string
	}{
		"SameClass": {
			reason: "one volume and one interface of two are kept", made: keeping(), then: keeping(), want: both,
		},
		"SiblingScans": {"a class of the same cluster may collect orphans", keeping(), keeping(), true, nil, both},
		"ClassEdited":  {"the promise was made when the VM was", keeping(), nil, false, nil, both},
		"KeepsLater": {
			reason: "nothing was promised when the VM was made, and its interface and volume go", then: keeping(),
		},
		"OlderVM": {
			"a VM whose volumes have no tag yet is tagged before it goes", keeping(), nil, true, (*env).untag, both,
		},
		"KeptByHand": {
			"who protects a volume in EC2 wants to have it afterwards", nil, nil, true, func(w *env) {
				for _, r := range w.cloud.Ledger() {
					if r.Kind == ec2test.KindVolume {
						w.cloud.Edit(r.ID, func(r *ec2test.Resource) { r.DeleteWith = false })
					}
				}
			}, []string{ec2test.KindVolume},
		},
		"NotAllowedToTag": {
			"without the tags nothing is deleted that EC2 itself keeps, and the machine goes", keeping(), nil, true,
			func(w *env) {
				w.untag()
				w.cloud.Inject(ec2test.Fault{Action: "CreateTags", Code: "UnauthorizedOperation", Status: 403})
			}, both,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			a, c := w.open(class("keeper", tc.made), credentials())
			r := w.made(a, w.request(c, 1))
			if tc.before != nil {
				tc.before(w)
			}
			b, then := w.open(class("keeper", tc.then), credentials())
			r.Class = then
			w.removed(b, r)
			if tc.sibling {
				sibling, other := w.open(class("sibling", nil), credentials())
				w.now.Advance(24 * time.Hour)
				w.removed(sibling, cloud.Ref{Name: r.Name, OwnerID: r.OwnerID, Class: other})
			}
			var left []string
			for _, r := range w.cloud.Ledger() {
				left = append(left, r.Kind)
			}
			slices.Sort(left)
			if !slices.Equal(left, tc.want) {
				t.Errorf("%s: left are %v, want %v", tc.reason, left, tc.want)
			}
		})
	}
}
