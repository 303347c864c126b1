package vm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// TestRemoveSecond: what two restores leave behind, a machine that names a VM that is gone and
// has another one with its ID, ends with the machine; a VM that is not proved to be its stays.
func TestRemoveSecond(t *testing.T) {
	t.Parallel()
	const gone, second = "sim:///sim-1/vm-1", "sim:///sim-1/vm-2"
	shows := func(owner, providerID string) func() (cloud.VM, error) {
		return func() (cloud.VM, error) { return cloud.VM{ID: "vm", ProviderID: providerID, OwnerID: owner}, nil }
	}
	fails := func(code cloud.Code) func() (cloud.VM, error) {
		return func() (cloud.VM, error) { return cloud.VM{}, cloud.Errorf(code, "get VM", "Reason", "answer %s", code) }
	}
	cases := map[string]struct {
		reason  string
		get     func() (cloud.VM, error)
		noOwner bool
		steps   []string
		done    bool
		wantErr string
	}{
		"Gone": {reason: "Nothing is left.", get: fails(cloud.NotFound), steps: []string{"delete 1", "get"}, done: true},
		"Second": {
			reason: "Without a Machine it would be an orphan.", get: shows("owner", second),
			steps: []string{"delete 1", "get", "delete 2"},
		},
		"OfAnother": {
			reason: "Another machine has that name.", get: shows("somebody", second),
			steps: []string{"delete 1", "get"}, done: true,
		},
		"WithoutOwner": {
			reason: "Nothing proves whose it is.", get: shows("", second), steps: []string{"delete 1", "get"}, done: true,
		},
		"MachineWithoutOwner": {
			reason: "Nothing proves whose it is.", get: shows("", second), noOwner: true,
			steps: []string{"delete 1", "get"}, done: true,
		},
		"Same": {
			reason: "A list may show for a while what is gone.", get: shows("owner", gone),
			steps: []string{"delete 1", "get"}, done: true,
		},
		"Silent": {
			reason: "The answer may be a VM.", get: fails(cloud.Unavailable), steps: []string{"delete 1", "get"},
			wantErr: "look for a second VM",
		},
		"Several": {
			reason: "Which of them is the machine's is unknown: they are orphans.", get: fails(cloud.Unknown),
			steps: []string{"delete 1", "get"}, done: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			o := env.object
			o.ref.ProviderID, o.ref.State = gone, "checkpoint of the first"
			if tc.noOwner {
				o.ref.OwnerID = ""
			}
			o.class.Account = func(context.Context) (cloud.Account, error) {
				return &account{get: func(r cloud.Ref) (cloud.VM, error) {
					if r.OwnerID == "" && r.Name == "" {
						return notFound(r) // whoever's the first one may be
					}
					o.steps = append(o.steps, "get")
					if r.ProviderID != "" || r.State != "" {
						t.Errorf("looked for %+v, want it found by name", r)
					}
					return tc.get()
				}, del: func(r cloud.Ref) (cloud.Deletion, error) {
					o.steps = append(o.steps, "delete "+strings.TrimPrefix(r.ProviderID, "sim:///sim-1/vm-"))
					return cloud.Deletion{Done: r.ProviderID == gone}, nil
				}}, nil
			}
			env.engine.ObserveProviderID(o.ref.OwnerID, gone)
			env.Advance(24 * env.cloud.Driver().Traits().Settle)
			d, err := env.engine.Remove(t.Context(), o.machine())
			if diff := cmp.Diff(tc.steps, o.steps); diff != "" {
				t.Errorf("steps: %s\n%s", tc.reason, diff)
			}
			if d.Done != tc.done || !d.Done && err == nil && d.RetryAfter <= 0 {
				t.Errorf("%+v, want done %v: %s", d, tc.done, tc.reason)
			}
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q: %s", err, tc.wantErr, tc.reason)
			}
		})
	}
}

// TestRemoveSecondInOtherClasses: the second VM may have come from another class of the pool.
func TestRemoveSecondInOtherClasses(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	made := env.create()
	o := env.object
	o.others = []class.Resolved{o.class}
	o.class = elsewhere(o.class)
	o.ref.ProviderID = "sim:///sim-1/vm-that-is-gone"
	env.Advance(time.Minute)
	if d, err := env.engine.Remove(t.Context(), o.machine()); err != nil || !d.Done || len(env.cloud.VMs()) != 0 {
		t.Errorf("%+v, %v, %d VMs: want VM %s deleted", d, err, len(env.cloud.VMs()), made.ID)
	}
}

// TestNoSecondLook: a deletion that has found its VM costs no further call, whether the cloud
// deletes at once or later.
func TestNoSecondLook(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{0, time.Minute} {
		env := newLifeEnv(t)
		env.cloud.Change(func(s *sim.Settings) { s.DeleteTime = sim.Duration(takes) })
		env.create()
		looked := 0
		env.wrap(func(a cloud.Account) cloud.Account { return counting{a, &looked} })
		for done := false; !done; env.Advance(time.Minute) {
			d, err := env.engine.Remove(t.Context(), env.object.machine())
			env.Must(err)
			done = d.Done
		}
		if looked != 0 {
			t.Errorf("a cloud that takes %s: looked %d times by name for a VM that was found", takes, looked)
		}
	}
}

// TestSecondLookIsRepeatedAlone: while the rate limit refuses the second look, the first deletion is
// not repeated. It would use up what the look waits for.
func TestSecondLookIsRepeatedAlone(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	deletions := 0
	answers := []error{
		cloud.Errorf(cloud.Throttled, "get VM", "Reason", "limit"),
		cloud.Errorf(cloud.NotFound, "get VM", "Reason", "gone"), // whoever's it may be
		cloud.Errorf(cloud.Throttled, "get VM", "Reason", "limit"),
		cloud.Errorf(cloud.NotFound, "get VM", "Reason", "gone"),
	}
	env.object.ref.ProviderID = "sim:///sim-1/vm-that-is-gone"
	env.object.class.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: func(cloud.Ref) (cloud.VM, error) {
			err := answers[0]
			answers = answers[1:]
			return cloud.VM{}, err
		}, del: func(cloud.Ref) (cloud.Deletion, error) {
			deletions++
			return cloud.Deletion{Done: true}, nil
		}}, nil
	}
	env.engine.ObserveProviderID(env.object.ref.OwnerID, env.object.ref.ProviderID)
	env.Advance(time.Hour)
	for len(answers) > 0 {
		left := len(answers)
		if d, err := env.engine.Remove(t.Context(), env.object.machine()); d.Done != (left == 1) || (err == nil) != d.Done {
			t.Fatalf("with %d answers left: got %+v, %v", left, d, err)
		}
	}
	if deletions != 1 {
		t.Errorf("asked %d times for the deletion of a VM that was gone, want once", deletions)
	}
}

// elsewhere returns a class whose place is another and shows nothing.
func elsewhere(with class.Resolved) class.Resolved {
	with.Object = with.Object.DeepCopy()
	with.Object.Name, with.Class.Region = "elsewhere", "sim-2"
	with.Account = func(context.Context) (cloud.Account, error) {
		return &account{get: notFound, del: func(cloud.Ref) (cloud.Deletion, error) {
			return cloud.Deletion{Done: true}, nil
		}}, nil
	}
	return with
}

// counting counts calls of Get.
type counting struct {
	cloud.Account
	gets *int
}

func (c counting) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	*c.gets++
	return c.Account.Get(ctx, r)
}
