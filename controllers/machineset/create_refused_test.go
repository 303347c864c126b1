package machineset

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestCreateRefused(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(2))
	refuse := true
	env.Fault = func(r harness.Request) error {
		if r.Verb == "create" && refuse {
			return apierrors.NewForbidden(machinev1.GroupVersion.WithResource("machines").GroupResource(), r.Name, errBoom)
		}
		return nil
	}
	for range 3 {
		if _, err := env.reconcile(); err == nil {
			t.Fatal("a refused creation is tried again by back-off, so it must be an error")
		}
	}
	if env.sent("patch") != 1 || env.sent("status") != 1 {
		t.Errorf("trying again costs no further write to the set, got %v", env.Requests)
	}
	set := env.set()
	if len(set.Status.Conditions) != 1 || set.Status.Conditions[0].Type != machinev1.MachineSetReplicaFailure ||
		set.Status.Conditions[0].Reason != machinev1.ReasonFailedCreate {
		t.Errorf("conditions: %+v", set.Status.Conditions)
	}
	if _, count := env.told(machinev1.EventFailedCreate); count != 3 {
		t.Errorf("%d Events tell of the failure, want 3", count)
	}
	// However long it takes: this process knows that nothing was created.
	env.Advance(time.Hour)
	refuse = false
	env.settle()
	if n := len(env.machines()); n != 2 || env.set().Annotations[machinev1.OrdinalsAnnotation] != "next=2" {
		t.Errorf("got %d machines and record %q", n, env.set().Annotations[machinev1.OrdinalsAnnotation])
	}
	if n := len(env.set().Status.Conditions); n != 0 {
		t.Errorf("%d conditions are left", n)
	}
}

// A machine of an unfinished batch that has come and gone is not made again.
func TestCreateNotTwice(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// strike fails the second creation, after or before its effect.
		lost, fault error
		wait        time.Duration
	}{
		"Known": {reason: "This process knows what it created.", fault: errors.New("third")},
		"Unknown": {
			reason: "Without an answer nobody knows, so after a while the name is given up.", lost: errBoom,
			wait: fence.Reach,
		},
		"Rejected": {
			reason: "What was refused was not created.", fault: apierrors.NewBadRequest("third"),
			wait: fence.Reach,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, newSet(2))
			names := naming.NewNames(env.set())
			creations := map[string]int{}
			env.Fault = func(r harness.Request) error {
				if r.Verb == "create" && r.Name == names.Name(1) && creations[r.Name] == 0 && tc.fault != nil {
					return tc.fault
				}
				return nil
			}
			env.Lost = func(r harness.Request) error {
				if r.Verb != "create" {
					return nil
				}
				creations[r.Name]++
				if r.Name == names.Name(1) {
					return tc.lost
				}
				return nil
			}
			if _, err := env.reconcile(); err == nil {
				t.Fatal("the second creation went well")
			}
			for _, m := range env.machines() {
				env.Delete(m)
			}
			env.vanish()
			env.Advance(max(tc.wait, time.Second))
			env.Fault = nil
			env.settle()
			if n := len(env.alive()); n != 2 {
				t.Errorf("%s %d machines are alive, want 2", tc.reason, n)
			}
			for name, n := range creations {
				if n > 1 {
					t.Errorf("%s %s was created %d times", tc.reason, name, n)
				}
			}
		})
	}
}

func TestCreateNotWhile(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		set    func(*machinev1.MachineSet)
	}{
		"Frozen": {
			reason: "A frozen set creates nothing.",
			set: func(set *machinev1.MachineSet) {
				set.Labels = map[string]string{machinev1.FreezeLabel: "True"}
				set.Spec.Replicas = 4 // 2*4+2 limits are above what exists, and below again
			},
		},
		"ScaleUpDisabled": {
			reason: "The label keeps old sets of an update in place from growing.",
			set: func(set *machinev1.MachineSet) {
				set.Labels = map[string]string{machinev1.ScaleUpDisabledLabel: "true"}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{newSet(4, tc.set)}
			if name == "Frozen" {
				for _, m := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
					objects = append(objects, newMember(m, func(m *machinev1.Machine) {
						now := metav1.Now()
						m.DeletionTimestamp = &now
					}))
				}
			}
			env := newEnv(t, objects...)
			env.settle()
			if env.sent("create") != 0 {
				t.Errorf("%s", tc.reason)
			}
		})
	}
}
