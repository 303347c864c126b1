package vm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// answers is an account whose Get and Delete answer as they are told, and write down that
// they were called.
type answers struct {
	cloud.Account
	steps  *[]string
	get    func() (cloud.VM, error)
	delete func() (cloud.Deletion, error)
}

func (a answers) Get(_ context.Context, r cloud.Ref) (cloud.VM, error) {
	step := "get"
	if r.OwnerID == "" {
		step = "ask" // whoever's it is
	}
	*a.steps = append(*a.steps, step)
	return a.get()
}

func (a answers) Delete(context.Context, cloud.Ref) (cloud.Deletion, error) {
	*a.steps = append(*a.steps, "delete")
	return a.delete()
}

func TestRemoveAbandoned(t *testing.T) {
	t.Parallel()
	shows := func(owner, providerID string) func() (cloud.VM, error) {
		return func() (cloud.VM, error) {
			return cloud.VM{ID: "vm-1", ProviderID: providerID, OwnerID: owner}, nil
		}
	}
	gone := func() (cloud.VM, error) {
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, "get VM", "NotFound", "no VM")
	}
	const id = "sim:///sim-1/vm-1"
	cases := map[string]struct {
		reason   string
		get      func() (cloud.VM, error)
		recorded bool
		moved    bool   // the recorded class is used for another place since
		refuses  string // the step that cannot be recorded
		noOwner  bool
		steps    []string
		done     bool
		wantErr  string
		passes   bool // the error is not the cause
	}{
		"Proved": {
			reason: "What proves that the VM is ours is recorded, and then deletes it. It has to be gone for Get, too.",
			get:    shows("owner", id), steps: []string{"get", "substitute c", "delete", "get"},
		},
		"Recorded": {
			reason: "It is proved once: then what the cloud does not show is gone.", recorded: true,
			get: gone, steps: []string{"delete", "get", "ask"}, done: true,
		},
		"RecordedAndStillThere": {
			reason: "A driver that does not find what Get shows has deleted nothing.", recorded: true,
			get: shows("owner", id), steps: []string{"delete", "get"},
		},
		"RecordedAndUnknown": {
			reason: "An answer that was lost says nothing.", recorded: true,
			get:   func() (cloud.VM, error) { return cloud.VM{}, errRefused },
			steps: []string{"delete", "get"}, wantErr: "refused",
		},
		"RecordedElsewhere": {
			reason: "The class looks in another place now: that it finds nothing proves nothing.", moved: true,
			get: gone, steps: []string{"get", "ask"}, wantErr: `with "c": get VM: no VM`,
		},
		"OfAnother": {
			reason: "It is another machine's.", get: shows("somebody", id), steps: []string{"get"},
			wantErr: "belongs to another machine",
		},
		"OfNobody": {
			reason: "Machine Controller Manager made it: nothing proves whose it is.", get: shows("", id),
			steps: []string{"get"}, wantErr: "no owner id",
		},
		"AnotherVM": {
			reason: "The owner has another VM; only the one of the providerID is deleted.",
			get:    shows("owner", "sim:///sim-1/vm-2"), steps: []string{"get"}, wantErr: "another VM, sim:///sim-1/vm-2",
		},
		"NotThere": {
			reason: "Elsewhere it may be there.", get: gone, steps: []string{"get", "ask"}, wantErr: `with "c": get VM: no VM`,
		},
		"Silent": {
			reason: "That passes: no person has to act.",
			get: func() (cloud.VM, error) {
				return cloud.VM{}, cloud.Errorf(cloud.Unavailable, "get VM", "Timeout", "no answer")
			},
			steps: []string{"get"}, wantErr: "no answer", passes: true,
		},
		"NotRecorded": {
			reason: "Nothing is deleted with what could not be recorded.", get: shows("owner", id),
			refuses: "substitute c", steps: []string{"get", "substitute c"}, wantErr: "refused",
		},
		"WithoutOwnerID": {reason: "Nothing can be proved.", noOwner: true, wantErr: "gone"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			o := env.object
			o.ref.ProviderID, o.refuses = id, tc.refuses
			if tc.noOwner {
				o.ref.OwnerID = ""
			}
			with := o.class
			with.Account = func(context.Context) (cloud.Account, error) {
				return answers{steps: &o.steps, get: tc.get, delete: func() (cloud.Deletion, error) {
					return cloud.Deletion{Done: true}, nil
				}}, nil
			}
			o.candidates, o.class = []class.Resolved{with}, class.Resolved{}
			if tc.moved {
				o.substitute = with.Object.Name + "/elsewhere"
			}
			if tc.recorded {
				o.substitute = "of the same place, and gone/" + with.Place()
			}
			env.engine.ObserveProviderID("owner", id)
			env.Advance(24 * env.cloud.Driver().Traits().Settle)
			cause := &cloud.Error{
				Code: cloud.Invalid, Op: "use class", Reason: machinev1.ReasonClassNotFound, Err: errors.New("gone"),
			}
			d, err := env.engine.removeAbandoned(t.Context(), o.machine(), cause)
			if diff := cmp.Diff(tc.steps, o.steps); diff != "" {
				t.Errorf("steps: %s\n%s", tc.reason, diff)
			}
			if d.Done != tc.done {
				t.Errorf("%+v: %s", d, tc.reason)
			}
			switch {
			case tc.wantErr == "" && err != nil, tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("error %v, want %q", err, tc.wantErr)
			case tc.wantErr != "" && tc.refuses == "" && !tc.recorded:
				e, ok := errors.AsType[*cloud.Error](err)
				if !ok || (e.Reason == machinev1.ReasonClassNotFound) == tc.passes {
					t.Errorf("error %v, passes %v", err, tc.passes)
				}
			}
		})
	}
}

// TestFewOfManyClassesAreNamed: a namespace may have hundreds of classes, and the remedy
// must not be lost behind them.
func TestFewOfManyClassesAreNamed(t *testing.T) {
	t.Parallel()
	cause := &cloud.Error{Code: cloud.Invalid, Op: "use class", Err: errors.New("gone")}
	got := withoutSubstitute(cause, "sim:///sim-1/vm-1", []string{"a", "b", "c", "d", "e"}).Error()
	if !strings.HasSuffix(got, "(a; b; c; and 2 others)") {
		t.Errorf("%s", got)
	}
}
