package machineset

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const scalerTime = "2026-01-02T03:00:00Z"

func labelled(key, value string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.Labels[key] = value }
}

func owned(set *machinev1.MachineSet) {
	set.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: machinev1.GroupVersion.String(), Kind: machinev1.MachineDeploymentKind, Name: "pool", UID: "pool-uid",
		Controller: new(true),
	}}
}

func newDeployment(replicas int32) *machinev1.MachineDeployment {
	d := &machinev1.MachineDeployment{}
	d.Name, d.Namespace, d.UID = "pool", namespace, "pool-uid"
	d.Spec.Replicas = replicas
	d.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{}
	return d
}

func TestScale(t *testing.T) {
	t.Parallel()
	marked := func(m *machinev1.Machine) {
		machinev1.SetAnnotation(m, machinev1.PriorityAnnotation, "1")
		machinev1.SetAnnotation(m, machinev1.MarkedForDeletionAnnotation, scalerTime)
	}
	byScaler := func(at string) func(*machinev1.MachineSet) {
		return func(set *machinev1.MachineSet) {
			set.Annotations = map[string]string{machinev1.LastReplicaChangeByScalerAnnotation: at}
		}
	}
	cases := map[string]struct {
		reason   string
		set      *machinev1.MachineSet
		machines []*machinev1.Machine
		// want are the machines of the beginning that are alive after one pass.
		want []string
	}{
		"Enough": {
			reason: "A set with as many machines as wanted is left alone.",
			set:    newSet(2), machines: []*machinev1.Machine{newMember("a"), newMember("b")}, want: []string{"a", "b"},
		},
		"Surplus": {
			reason: "What is too much goes by rank.",
			set:    newSet(1), machines: []*machinev1.Machine{
				newMember("a"), newMember("b", phase(machinev1.MachinePending)),
				newMember("c", phase(machinev1.MachineUnknown)),
			}, want: []string{"a"},
		},
		"Autoscaler": {
			reason: "The upstream autoscaler's annotation decides which one goes.",
			set:    newSet(1), machines: []*machinev1.Machine{
				newMember("a"),
				newMember("b", annotated(machinev1.DeleteMachineAnnotation, "now")),
			}, want: []string{"a"},
		},
		"Updated": {
			reason: "A machine that has just been updated in place is no surplus.",
			set:    newSet(1), machines: []*machinev1.Machine{
				newMember("a"),
				newMember("b", labelled(machinev1.UpdateResultLabel, machinev1.UpdateSuccessful)),
			}, want: []string{"a", "b"},
		},
		"UpdateFailed": {
			reason: "Only a successful update keeps a machine out of the count.",
			set:    newSet(1), machines: []*machinev1.Machine{newMember("a",
				labelled(machinev1.UpdateResultLabel, machinev1.UpdateFailed)), newMember("b", phase(machinev1.MachinePending))},
			want: []string{"a"},
		},
		"Failed": {
			reason: "A failed machine is deleted, to be replaced afterwards.",
			set:    newSet(2), machines: []*machinev1.Machine{newMember("a"), newMember("b", phase(machinev1.MachineFailed))},
			want: []string{"a"},
		},
		"FailedLater": {
			reason: "While machines are missing, those are created first.",
			set:    newSet(3), machines: []*machinev1.Machine{newMember("a"), newMember("b", phase(machinev1.MachineFailed))},
			want: []string{"a", "b"},
		},
		"FailedButFrozen": {
			reason: "A set that may not create still deletes what has failed.",
			set: newSet(3, func(set *machinev1.MachineSet) {
				set.Labels = map[string]string{machinev1.ScaleUpDisabledLabel: ""}
			}),
			machines: []*machinev1.Machine{newMember("a"), newMember("b", phase(machinev1.MachineFailed))}, want: []string{"a"},
		},
		"Due": {
			reason: "A machine that a scaler marked before its last change goes even if none is too many.",
			set:    newSet(2, byScaler(scalerTime)), machines: []*machinev1.Machine{newMember("a", marked), newMember("b")},
			want: []string{"b"},
		},
		"MarkedLater": {
			reason: "A mark that is newer than the scaler's last change waits for the next one.",
			set:    newSet(2, byScaler("2026-01-02T02:59:59Z")), machines: []*machinev1.Machine{
				newMember("a", marked),
				newMember("b"),
			}, want: []string{"a", "b"},
		},
		"NoChange": {
			reason: "Without a readable time of the last change nothing is due.",
			set:    newSet(2, byScaler("yesterday")), machines: []*machinev1.Machine{newMember("a", marked), newMember("b")},
			want: []string{"a", "b"},
		},
		"NotFirst": {
			reason: "A mark alone, without the priority, is a rank and no order.",
			set:    newSet(2, byScaler(scalerTime)), machines: []*machinev1.Machine{newMember("a",
				annotated(machinev1.MarkedForDeletionAnnotation, scalerTime)), newMember("b")}, want: []string{"a", "b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{tc.set}
			var first []string
			for _, m := range tc.machines {
				objects = append(objects, m)
				first = append(first, m.Name)
			}
			env := newEnv(t, objects...)
			if _, err := env.reconcile(); err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(env.alive(), func(n string) bool { return !slices.Contains(first, n) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestScaleInTellsOnce(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a"), newMember("b"), newMember("c"))
	env.settle()
	all, count := env.told(machinev1.EventSuccessfulDelete)
	if count != 1 || !slices.Contains(all, "Normal SuccessfulDelete Deleted Machines: a, b") {
		t.Errorf("one Event tells of the batch, got %q", all)
	}
	if env.sent("delete") != 2 {
		t.Errorf("%d deletions for two machines", env.sent("delete"))
	}
}

// The cache shows that the set has shrunk, and not yet which machine the
// autoscaler has marked for that.
func TestScaleInSeesMarksThatTheCacheLacks(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a", phase(machinev1.MachinePending)), newMember("b"))
	env.lag(nil)
	harness.Edit(env.Cluster, newMember("b"), fixture.Annotations[*machinev1.Machine](
		machinev1.DeleteMachineAnnotation, "now"))
	if _, err := env.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, env.alive()); diff != "" {
		t.Error(diff)
	}
}

// The cache shows the set as it was before it grew: nothing may be deleted.
func TestScaleInNotFromStaleSet(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a"), newMember("b"))
	env.lag(nil)
	env.scale(2)
	if _, err := env.reconcile(); err != nil {
		t.Fatal(err)
	}
	if n := len(env.alive()); n != 2 {
		t.Errorf("%d machines are alive, want 2", n)
	}
}

// A failed machine that has recovered in the meantime is spared.
func TestFailedMachineRecovers(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a", phase(machinev1.MachineFailed)))
	env.lag(nil)
	env.become(machinev1.MachineRunning)
	result, err := env.reconcile()
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("a machine that has changed is looked at again, got %v, %v", result, err)
	}
	if n := len(env.alive()); n != 1 {
		t.Errorf("%d machines are alive, want 1", n)
	}
	if n := len(env.set().Status.Conditions); n != 0 {
		t.Errorf("a stale cache is no failure, got %v", env.set().Status.Conditions)
	}
}

// Deletions that the cache does not show yet are neither repeated nor do they
// lead to more.
func TestDeletionsAreRemembered(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(2), newMember("a"), newMember("b"), newMember("c"),
		newMember("d", phase(machinev1.MachineFailed)))
	env.lag(nil)
	for range 3 {
		_, _ = env.reconcile()
	}
	if n := len(env.alive()); n != 2 || env.sent("delete") != 2 {
		t.Errorf("%d machines are alive after %d deletions, want 2 and 2", n, env.sent("delete"))
	}
}

// The scaler has lowered the deployment and marked a machine; the set is not
// scaled yet. Deleting now would replace the machine first.
func TestMarkedMachineWaitsForTheSet(t *testing.T) {
	t.Parallel()
	marked := newMember("a", annotated(machinev1.PriorityAnnotation, "1"),
		annotated(machinev1.MarkedForDeletionAnnotation, scalerTime))
	env := newEnv(t, newDeployment(1), marked, newMember("b"), newSet(2, owned, func(set *machinev1.MachineSet) {
		set.Annotations = map[string]string{
			machinev1.LastReplicaChangeByScalerAnnotation: scalerTime,
			machinev1.DesiredReplicasAnnotation:           "2",
		}
	}))
	env.settle()
	if n := len(env.alive()); n != 2 {
		t.Fatalf("%d machines are alive before the set is scaled, want 2", n)
	}
	env.edit(func(set *machinev1.MachineSet) {
		set.Spec.Replicas = 1
		set.Annotations[machinev1.DesiredReplicasAnnotation] = "1"
	})
	env.settle()
	if diff := cmp.Diff([]string{"b"}, env.alive()); diff != "" {
		t.Error(diff)
	}
	if env.sent("create") != 0 {
		t.Error("a machine was created on the way")
	}
}

// The deployment's list counts before its controller has marked the machines.
func TestListedMachineGoesFirst(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"b~" + scalerTime, "x~" + scalerTime + ",b~" + scalerTime, "b", " b , ~,~~"} {
		d := newDeployment(1)
		d.Annotations = map[string]string{machinev1.TriggerDeletionAnnotation: list}
		env := newEnv(t, d, newSet(1, owned), newMember("a", phase(machinev1.MachinePending)), newMember("b"))
		env.settle()
		if diff := cmp.Diff([]string{"a"}, env.alive()); diff != "" {
			t.Errorf("list %q: %s", list, diff)
		}
	}
}

func TestFailedMachines(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	expiry := func(d time.Duration) func(*machinev1.Machine) {
		return func(m *machinev1.Machine) {
			m.Status.CurrentStatus.PreserveExpiryTime = &metav1.Time{Time: now.Add(d)}
		}
	}
	onNode := labelled(machinev1.NodeLabel, "node")
	preserve := func(value string) func(*machinev1.Machine) { return annotated(machinev1.PreserveAnnotation, value) }
	node := func(annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: annotations}}
	}
	cases := map[string]struct {
		reason  string
		machine []func(*machinev1.Machine)
		node    *corev1.Node
		kept    bool
	}{
		"False": {
			reason:  "A failed machine that shall not be preserved is deleted.",
			machine: []func(*machinev1.Machine){preserve("false")},
		},
		"Preserved": {reason: "One that is preserved is kept.", machine: []func(*machinev1.Machine){
			expiry(time.Minute), onNode,
		}, kept: true},
		"Expired": {
			reason:  "Once that is over it is deleted, whatever it is annotated with.",
			machine: []func(*machinev1.Machine){expiry(-time.Minute), preserve("now")},
		},
		"Now": {reason: "One that shall be preserved is kept until it is.", machine: []func(*machinev1.Machine){
			preserve("now"),
		}, kept: true},
		"WhenFailed": {reason: "So is one that shall be preserved when it fails.", machine: []func(*machinev1.Machine){
			preserve("when-failed"),
		}, kept: true},
		"Auto": {reason: "And one that this controller has chosen.", machine: []func(*machinev1.Machine){
			preserve("auto-preserved"),
		}, kept: true},
		"NodeSays": {reason: "The Node's annotation is enough.", machine: []func(*machinev1.Machine){
			onNode, preserve("false"),
		}, node: node(map[string]string{machinev1.PreserveAnnotation: "now"}), kept: true},
		"NodeWins": {reason: "The Node's annotation wins over the Machine's.", machine: []func(*machinev1.Machine){
			onNode, preserve("now"),
		}, node: node(map[string]string{machinev1.PreserveAnnotation: "false"})},
		"NodeWithdrew": {reason: "A Node that once had the annotation still decides.", machine: []func(*machinev1.Machine){
			onNode, preserve("now"), annotated(machinev1.LastAppliedNodePreserveAnnotation, "now"),
		}, node: node(nil)},
		"NodeSilent": {reason: "A Node without annotation leaves it to the Machine.", machine: []func(*machinev1.Machine){
			onNode, preserve("now"),
		}, node: node(nil), kept: true},
		"NodeMissing": {
			reason:  "There is nothing to examine on a machine whose Node is gone.",
			machine: []func(*machinev1.Machine){onNode, preserve("now")},
		},
		"NotFailed": {
			reason:  "An expiry in the past is no reason to delete a machine that works.",
			machine: []func(*machinev1.Machine){expiry(-time.Minute), phase(machinev1.MachineRunning)}, kept: true,
		},
		"NodelessValue": {reason: "Without node name the Machine decides.", machine: []func(*machinev1.Machine){
			preserve("when-failed"),
		}, kept: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMember("a", append([]func(*machinev1.Machine){phase(machinev1.MachineFailed)}, tc.machine...)...)
			objects := []client.Object{newSet(1,
				func(set *machinev1.MachineSet) { set.Spec.AutoPreserveFailedMachineMax = 1 }), m}
			if tc.node != nil {
				objects = append(objects, tc.node)
			}
			env := newEnv(t, objects...)
			if _, err := env.reconcile(); err != nil {
				t.Fatal(err)
			}
			if kept := len(env.alive()) == 1; kept != tc.kept {
				t.Errorf("%s kept: %v", tc.reason, kept)
			}
		})
	}
}

func TestFailedMachineGoesWhenPreservationEnds(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(1), newMember("a", phase(machinev1.MachineFailed), func(m *machinev1.Machine) {
		m.Status.CurrentStatus.PreserveExpiryTime = &metav1.Time{Time: time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC)}
	}))
	wait := env.settle().RequeueAfter
	if wait < time.Hour || wait > time.Hour+time.Second {
		t.Fatalf("the next look is in %v, want an hour", wait)
	}
	env.Advance(wait)
	if _, err := env.reconcile(); err != nil {
		t.Fatal(err)
	}
	if n := len(env.alive()); n != 0 {
		t.Errorf("%d machines are alive, want none", n)
	}
}

// TestFailedMachineOfAPausedRolloutStays: what would take its place fails as well. One that had joined is
// replaced as ever, and all are once the user resumes the rollout.
func TestFailedMachineOfAPausedRolloutStays(t *testing.T) {
	t.Parallel()
	unjoined := func(m *machinev1.Machine) {
		m.Status.Conditions = joining.Record(nil, corev1.NodeCondition{
			Status: corev1.ConditionFalse, Reason: machinev1.ReasonFailedJoin,
		})
	}
	d := newDeployment(2)
	d.Annotations = map[string]string{machinev1.RolloutPausedAnnotation: "set"}
	env := newEnv(t, d, newSet(2, owned), newMember("a", phase(machinev1.MachineFailed), unjoined),
		newMember("b", phase(machinev1.MachineFailed)))
	env.settle()
	if alive := env.alive(); !slices.Contains(alive, "a") || slices.Contains(alive, "b") {
		t.Errorf("%q are alive while the rollout is paused, want a without b", alive)
	}
	harness.Edit(env.Cluster, d, func(d *machinev1.MachineDeployment) { d.Annotations = nil })
	env.settle()
	if alive := env.alive(); slices.Contains(alive, "a") {
		t.Errorf("%q are alive, want a to be replaced", alive)
	}
}
