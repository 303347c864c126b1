package machineset

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	failing := func(m *machinev1.Machine) {
		m.Spec.ProviderID = "sim:///" + m.Name
		m.Status.LastOperation = machinev1.LastOperation{
			State: machinev1.MachineStateFailed,
			Type:  machinev1.MachineOperationCreate, Description: "no room",
		}
	}
	preserved := func(m *machinev1.Machine) {
		m.Status.CurrentStatus.PreserveExpiryTime = &metav1.Time{Time: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	env := newEnv(t, newSet(6, func(set *machinev1.MachineSet) {
		set.Generation = 7
		set.Spec.Template.Labels["zone"] = "b"
		set.Spec.AutoPreserveFailedMachineMax = 1
	}),
		newMember("a", labelled("zone", "b")), newMember("b", phase(machinev1.MachineAvailable)), terminatingMember("c"),
		newMember("d", phase(machinev1.MachineCrashLoopBackOff), failing),
		newMember("e", phase(machinev1.MachineFailed), failing, preserved,
			annotated(machinev1.PreserveAnnotation, machinev1.PreserveAuto)),
		newMember("f", phase(machinev1.MachinePending)), newMember("g", phase(machinev1.MachineUnknown)),
	)
	env.settle()
	want := machinev1.MachineSetStatus{
		Replicas: 7, FullyLabeledReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 2, PreservedFailedReplicas: 1,
		ObservedGeneration: 7, AutoPreserveFailedMachineCount: 1,
		LastOperation: machinev1.LastOperation{LastUpdateTime: metav1.NewTime(env.Clock.Now())},
		FailedMachines: &[]machinev1.MachineSummary{{
			Name: "d", ProviderID: "sim:///d", OwnerRef: "set",
			LastOperation: machinev1.LastOperation{
				State: machinev1.MachineStateFailed, Type: machinev1.MachineOperationCreate,
				Description: "no room",
			},
		}},
	}
	got := env.set().Status
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(machinev1.MachineSetStatus{}, "Progress")); diff != "" {
		t.Error(diff)
	}
	if env.sent("status") != 1 {
		t.Errorf("%d writes of the status, want 1", env.sent("status"))
	}
}

// Once everything is as wanted, passes cost nothing at all.
func TestSteadyState(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(3))
	env.settle()
	env.become(machinev1.MachineRunning)
	env.settle()
	env.Forget()
	for range 5 {
		env.Advance(time.Hour)
		if result, err := env.reconcile(); err != nil || result.RequeueAfter != 0 {
			t.Errorf("got %v, %v", result, err)
		}
	}
	if len(env.Requests) != 0 {
		t.Errorf("requests: %v", env.Requests)
	}
}

// MCM's CRD drops our own field: that must not make every pass a write.
func TestStatusWithoutProgress(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1))
	prune := func() {
		set := env.set()
		if set.Status.Progress == nil {
			return
		}
		set.Status.Progress = nil
		env.Must(env.Raw.Status().Update(t.Context(), set))
	}
	env.Lost = func(r harness.Request) error {
		if set, ok := r.Object.(*machinev1.MachineSet); ok && r.Subresource == "status" {
			prune()
			*set = *env.set()
		}
		return nil
	}
	env.settle()
	at := env.set().Status.LastOperation.LastUpdateTime
	for range 3 {
		env.Advance(time.Minute)
		env.settle()
	}
	if env.sent("status") > 2 || !at.Equal(&env.set().Status.LastOperation.LastUpdateTime) {
		t.Errorf("%d writes of the status", env.sent("status"))
	}
}

// What this process wrote last is not judged from an older copy.
func TestStaleSetIsNotJudged(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1))
	env.lag(nil)
	_, _ = env.reconcile()
	env.Forget()
	result, err := env.reconcile()
	if err != nil || result.RequeueAfter == 0 || len(env.Requests) != 0 {
		t.Errorf("got %v, %v, requests %v", result, err, env.Requests)
	}
}

func TestReplicasReady(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		set    *machinev1.MachineSet
		more   []client.Object
		fault  bool
		want   string
		text   string
	}{
		"Ready": {
			reason: "All machines are there.", set: newSet(1), more: []client.Object{newMember("a")},
			want: machinev1.ReasonReplicasOK, text: "1 machines",
		},
		"Empty": {reason: "No machine is wanted.", set: newSet(0), want: machinev1.ReasonReplicasOK},
		"Coming": {
			reason: "Machines are not available yet.", set: newSet(1), want: machinev1.ReasonScalingUp,
			text: "0 of 1 machines are available",
		},
		"Going": {
			reason: "Machines are still going.", set: newSet(0), more: []client.Object{newMember("a")},
			want: machinev1.ReasonScalingDown, text: "1 machines exist, 0 are wanted",
		},
		"Refused": {
			reason: "A machine cannot be created.", set: newSet(1), fault: true, want: machinev1.ReasonFailedCreate,
			text: "boom",
		},
		"Deleted": {
			reason: "The set is going.", set: deletedSet(1), more: []client.Object{newMember("a")},
			want: machinev1.ReasonScalingDown, text: "1 machines are left",
		},
		"Invalid": {reason: "The set is wrong.", set: newSet(-1), want: machinev1.ReasonInvalidSpec},
		"Disabled": {reason: "A label keeps the set from growing.", set: newSet(1, func(set *machinev1.MachineSet) {
			set.Labels = map[string]string{machinev1.ScaleUpDisabledLabel: ""}
		}), want: machinev1.ReasonScalingUp, text: machinev1.ScaleUpDisabledLabel},
		"Frozen": {
			reason: "The set is frozen.", set: newSet(1),
			more: []client.Object{
				terminatingMember("a"), terminatingMember("b"), terminatingMember("c"),
				terminatingMember("d"),
			}, want: machinev1.ReasonFrozen, text: machinev1.UnfreezeAnnotation,
		},
		"Exhausted": {
			reason: "One failure is named as an example.", set: newSet(1),
			more: []client.Object{newMember("a", phase(machinev1.MachineCrashLoopBackOff), func(m *machinev1.Machine) {
				m.Status.LastOperation = machinev1.LastOperation{State: machinev1.MachineStateFailed, Description: "no room"}
			})}, want: machinev1.ReasonScalingUp, text: "a: no room",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, append(tc.more, tc.set)...)
			if tc.fault {
				env.Fault = func(r harness.Request) error {
					if r.Verb == "create" {
						return errBoom
					}
					return nil
				}
			}
			if _, err := env.reconcile(); err != nil && !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(env.set().Status.Progress.Conditions, machinev1.ConditionReplicasReady)
			if c == nil || c.Reason != tc.want || !strings.Contains(c.Message, tc.text) {
				t.Errorf("%s got %+v, want reason %s with %q", tc.reason, c, tc.want, tc.text)
			}
			if c != nil && (c.Status == metav1.ConditionTrue) != (tc.want == machinev1.ReasonReplicasOK) {
				t.Errorf("%s status is %s", tc.reason, c.Status)
			}
		})
	}
}
