package vm

import (
	"strings"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// TestAnOwnerIDThatDoesNotMatchIsAskedAbout: the cloud shows no VM with the object's owner id, and that
// is not believed to mean that there is none.
func TestAnOwnerIDThatDoesNotMatchIsAskedAbout(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*object)
		back   bool // the owner id is read back from the VM, and the VM goes
		says   string
	}{
		"Lost": {
			reason: "The tags name the machine, and nobody else has the id.",
			change: func(*object) {},
			back:   true,
		},
		"LostWithProviderID": {
			reason: "Without a providerID the VM is found by its name.",
			change: func(o *object) { o.ref.ProviderID = "" },
			back:   true,
		},
		"OnRecord": {
			reason: "An id that is on record was not lost.",
			change: func(o *object) { o.lost = false },
			says:   "an owner id of its own",
		},
		"Claimed": {
			reason: "Another object has the id: the VM is that one's.",
			change: func(o *object) { o.claimant = "Machine n/other" },
			says:   "is claimed by Machine n/other",
		},
		"AnotherName": {
			reason: "The VM was made for another machine, and the providerID is wrong.",
			change: func(o *object) { o.ref.Name = "another" },
			says:   `machine "m"`,
		},
		"AnotherCluster": {
			reason: "A machine of that name is in another Cluster.",
			change: func(o *object) { o.cluster = "another" },
			says:   `a Cluster with id "cluster"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			env.object.tags = map[string]string{machinev1.ClusterIDTag: "cluster"}
			env.create()
			env.Advance(env.object.class.Driver.Traits().Settle)
			env.engine = New(env.Clock, noFormerLeader, nil)
			env.object.ref.OwnerID, env.object.lost = "stands in", true
			tc.change(env.object)
			d, err := cloud.Deletion{}, error(nil)
			for range 20 {
				if d, err = env.engine.Remove(env.Context(), env.object.machine()); d.Done || err != nil {
					break
				}
				env.Advance(d.RetryAfter)
			}
			if !tc.back {
				if outcome.Reason(err) != machinev1.ReasonVMOfAnotherOwner || cloud.CodeOf(err) != cloud.Denied ||
					!strings.Contains(err.Error(), tc.says) || len(env.cloud.VMs()) != 1 {
					t.Errorf("got %+v, %v, want what says %q, and the VM: %s", d, err, tc.says, tc.reason)
				}
				return
			}
			env.Must(err)
			if left := env.cloud.Live(); len(left) > 0 || env.object.ref.OwnerID != "owner" {
				t.Errorf("owner id %q, left behind: %+v: %s", env.object.ref.OwnerID, left, tc.reason)
			}
		})
	}
}

// TestALostAttemptIsNotRepeated: its VM may be there, made under a later token.
func TestALostAttemptIsNotRepeated(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.object.attempt = 3
	env.create()
	env.object.attempt, env.object.ref.ProviderID = 1, ""
	for range 20 {
		if made, err := env.engine.Ensure(env.Context(), env.object.machine()); err == nil && made.ProviderID != "" {
			break
		}
		env.Advance(env.object.class.Driver.Traits().Settle)
	}
	if made := len(env.cloud.VMs()); made != 1 {
		t.Errorf("%d VMs, want one", made)
	}
}
