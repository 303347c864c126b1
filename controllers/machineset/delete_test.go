package machineset

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

func deletedSet(replicas int32, changes ...func(*machinev1.MachineSet)) *machinev1.MachineSet {
	return newSet(replicas, append([]func(*machinev1.MachineSet){func(set *machinev1.MachineSet) {
		set.DeletionTimestamp = new(metav1.Now())
	}}, changes...)...)
}

func (env *env) gone() bool {
	err := env.Raw.Get(env.Context(), client.ObjectKey{Namespace: namespace, Name: "set"}, &machinev1.MachineSet{})
	return client.IgnoreNotFound(err) == nil && err != nil
}

func TestRemove(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		set    *machinev1.MachineSet
	}{
		"Valid": {reason: "A set takes its machines with it.", set: deletedSet(2)},
		"Invalid": {
			reason: "A set that is wrong can be deleted all the same.",
			set:    deletedSet(2, func(set *machinev1.MachineSet) { set.Spec = machinev1.MachineSetSpec{Replicas: -1} }),
		},
		"Other": {reason: "Machines go whatever their labels are.", set: deletedSet(2, func(set *machinev1.MachineSet) {
			set.Spec.Selector.MatchLabels["pool"] = "b"
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, tc.set, newMember("a"), newMember("b"))
			env.settle()
			if n := len(env.alive()); n != 0 || len(env.machines()) != 2 || env.gone() {
				t.Fatalf("%s %d machines are alive, the set is gone: %v", tc.reason, n, env.gone())
			}
			if kind := env.machine("a").Spec.Class.Kind; kind != machinev1.MachineClassKind {
				t.Errorf("%s the class of a machine has become %q", tc.reason, kind)
			}
			env.vanish()
			_, _ = env.reconcile()
			if !env.gone() {
				t.Errorf("%s it is not gone after its machines", tc.reason)
			}
		})
	}
}

// The set stays until the API server has no machine of it, also if the cache
// has not seen one yet.
func TestRemoveWaitsForUnseenMachines(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deletedSet(1), newMember("a"))
	env.lag(func(o client.Object) bool { return !isMachine(o) })
	for range 2 {
		_, _ = env.reconcile()
	}
	if env.gone() {
		t.Error("the set was let go before its machine")
	}
}

// kubectl delete --cascade=orphan: the garbage collector takes the owner away
// from the machines, and they live on.
func TestRemoveLeavesOrphans(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deletedSet(1, func(set *machinev1.MachineSet) {
		set.Finalizers = append(set.Finalizers, metav1.FinalizerOrphanDependents)
	}), newMember("a"))
	env.settle()
	if n := len(env.alive()); n != 1 || env.gone() {
		t.Fatalf("%d machines are alive, the set is gone: %v", n, env.gone())
	}
	m := env.machine("a")
	m.OwnerReferences = nil
	env.Must(env.Raw.Update(t.Context(), m))
	env.edit(func(set *machinev1.MachineSet) {
		set.Finalizers = slices.DeleteFunc(set.Finalizers,
			func(f string) bool { return f == metav1.FinalizerOrphanDependents })
	})
	_, _ = env.reconcile()
	if len(env.alive()) != 1 || !env.gone() {
		t.Errorf("%d machines are alive, the set is gone: %v", len(env.alive()), env.gone())
	}
}

func TestDeleteFails(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(0), newMember("a"), newMember("b"))
	fail := true
	env.Fault = func(r harness.Request) error {
		if r.Verb == "delete" && fail {
			return errBoom
		}
		return nil
	}
	if _, err := env.reconcile(); err == nil {
		t.Error("a failed deletion is tried again, so it is an error")
	}
	set := env.set()
	if len(set.Status.Conditions) == 0 || set.Status.Conditions[0].Reason != machinev1.ReasonFailedDelete {
		t.Errorf("conditions: %+v", set.Status.Conditions)
	}
	if _, count := env.told(machinev1.EventFailedDelete); count != 1 {
		t.Errorf("%d Events tell of it", count)
	}
	fail = false
	env.settle()
	env.vanish()
	env.settle()
	if len(env.machines()) != 0 || len(env.set().Status.Conditions) != 0 {
		t.Errorf("machines %v, conditions %v", env.alive(), env.set().Status.Conditions)
	}
}

func TestStaleMachinesAreCounted(t *testing.T) {
	t.Parallel()
	before := testutil.ToFloat64(StaleMachines)
	unhealthy := func(m *machinev1.Machine) {
		m.Status.LastOperation.Type = machinev1.MachineOperationHealthCheck
	}
	env := newEnv(t, newSet(3), newMember("a", phase(machinev1.MachineFailed), unhealthy),
		newMember("b", phase(machinev1.MachineFailed)), newMember("c", unhealthy))
	env.settle()
	if got := testutil.ToFloat64(StaleMachines) - before; got != 1 {
		t.Errorf("counted %v machines, want 1: those that failed their health check", got)
	}
}

// TestUnansweredDeletion: a request whose answer was lost may still delete its Machine. Until it cannot, no
// other Machine goes in its place, whatever their ranks have become; else the set loses both.
func TestUnansweredDeletion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after time.Duration
		touch bool // the Machine that the request names changes, so that the request deletes nothing
		want  string
	}{
		"in flight": {want: "b"},
		"too late":  {after: fence.Reach, want: "a"},
		"outdated":  {touch: true, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, newSet(1), newMember("a", phase(machinev1.MachineRunning)),
				newMember("b", phase(machinev1.MachineRunning)))
			env.Fault = func(r harness.Request) error {
				if r.Verb == "delete" {
					return errBoom
				}
				return nil
			}
			_, _ = env.reconcile()
			env.Fault = nil
			env.become(machinev1.MachineUnknown, "b")
			if tc.touch {
				harness.Edit(env.Cluster, env.machine("a"), func(m *machinev1.Machine) { m.Labels["touched"] = "yes" })
			}
			env.Clock.SetTime(env.Clock.Now().Add(tc.after))
			env.settle()
			if alive := env.alive(); len(alive) != 1 || alive[0] != tc.want {
				t.Errorf("alive are %v, want %s alone", alive, tc.want)
			}
		})
	}
}

// TestUnansweredDeletionIsTakenBack: the MachineDeployment has been scaled out since the request without an
// answer, and its set not yet. The request is not repeated.
func TestUnansweredDeletionIsTakenBack(t *testing.T) {
	t.Parallel()
	env := newEnv(t, rolling(0), newMember("a"), newMember("b"), newSet(1, owned))
	d := harness.Get[machinev1.MachineDeployment](env.Cluster, client.ObjectKey{Namespace: namespace, Name: "pool"})
	scale := func(replicas int32) {
		d.Spec.Replicas = replicas
		env.Must(env.Raw.Update(t.Context(), d))
	}
	scale(1)
	env.Fault = func(r harness.Request) error {
		if r.Verb == "delete" {
			return errBoom
		}
		return nil
	}
	_, _ = env.reconcile()
	if env.sent("delete") != 1 {
		t.Fatalf("%d deletions were asked for, want 1", env.sent("delete"))
	}
	env.Fault = nil
	scale(2)
	_, _ = env.reconcile()
	if alive := env.alive(); len(alive) != 2 {
		t.Errorf("alive are %v, want both", alive)
	}
}
