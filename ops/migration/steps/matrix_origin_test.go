package steps

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// backUnnamed is back, by somebody who does not say which Cluster the pool belongs to.
func backUnnamed(ctx context.Context, e *Engine) error {
	return e.Apply(ctx, pool(), migration.Options{To: migration.Native, TakeOver: true})
}

// settled is a world whose pool of so many machines is at home on Cluster API.
func settled(t *testing.T, machines int) *env {
	t.Helper()
	w := newEnv(t, machines)
	w.eager = true
	w.run(there)
	w.run(finish)
	w.scale(int32(machines)) // so that generations differ
	return w
}

// healthChecks are the names of all.
func (w *env) healthChecks() []string {
	w.t.Helper()
	return objects.Keys(objects.Names(get(w, &clusterv1.MachineHealthCheckList{}).Items))
}

// TestHomeOnClusterAPIWithoutHealthCheck: whenever the way to the native API is
// left, the rollback leads to what was there before, and makes nothing of its own.
func TestHomeOnClusterAPIWithoutHealthCheck(t *testing.T) {
	t.Parallel()
	begun := settled(t, 1)
	begun.must(begun.api.Delete(t.Context(), &get(begun, &clusterv1.MachineHealthCheckList{}).Items[0]))
	for after := begunWrites; ; after++ {
		w := begun.copy()
		killed := w.kill(backUnnamed, after)
		w.run(rollback)
		w.untouched()
		w.onClusterAPI(1)
		if checks := w.healthChecks(); len(checks) > 0 {
			t.Errorf("a MachineHealthCheck was made: %v", checks)
		}
		if s, err := load(t.Context(), w.api, pool()); err != nil || s.Cluster != "c1" {
			t.Errorf("the record has Cluster %q, %v", s.Cluster, err)
		}
		if t.Failed() {
			t.Fatalf("killed after write %d", after)
		}
		if !killed {
			t.Logf("%d kills", after-1)
			return
		}
	}
}

// TestAHealthCheckOfOthersStays: what decides for other pools, too, is not removed
// with this one.
func TestAHealthCheckOfOthersStays(t *testing.T) {
	t.Parallel()
	w := settled(t, 1)
	check := &get(w, &clusterv1.MachineHealthCheckList{}).Items[0]
	w.must(w.api.Delete(t.Context(), check))
	shared := &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "all"},
		Spec:       *check.Spec.DeepCopy(),
	}
	shared.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: "c1"}
	w.must(w.api.Create(t.Context(), shared))
	w.run(backUnnamed)
	w.run(finish)
	w.home(1)
	if checks := w.healthChecks(); len(checks) != 1 {
		t.Errorf("MachineHealthChecks are %v, want the shared one", checks)
	}
}

// TestScaledOnTheWayBack lets a user scale the side that is the truth after each
// write of a move to the native API, and then goes home or goes on.
func TestScaledOnTheWayBack(t *testing.T) {
	t.Parallel()
	begun := settled(t, 1)
	for name, after := range map[string]struct {
		command command
		verdict func(*env, int)
	}{"Home": {rollback, (*env).onClusterAPI}, "On": {backUnnamed, (*env).onNative}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for write := begunWrites; ; write++ {
				w := begun.copy()
				w.t = t
				killed := w.kill(backUnnamed, write)
				w.scale(2)
				w.run(after.command)
				w.play()
				after.verdict(w, 2)
				if t.Failed() {
					t.Fatalf("scaled after write %d", write)
				}
				if !killed {
					t.Logf("%d kills", write-1)
					return
				}
			}
		})
	}
}

// TestALooseSetIsScaledInTheMiddle: a MachineSet of its own is told how many
// machines it is to have by the user.
func TestALooseSetIsScaledInTheMiddle(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for _, o := range fleet(1) {
		switch o := o.(type) {
		case *machinev1.MachineDeployment:
			continue
		case *machinev1.MachineSet:
			o.OwnerReferences = nil
		}
		objects = append(objects, o)
	}
	set := migration.Pool{Kind: migration.KindSet, Namespace: "ns", Name: "pool-1234"}
	move := func(ctx context.Context, e *Engine) error {
		return e.Apply(ctx, set, migration.Options{To: migration.ClusterAPI, Cluster: "c1", TakeOver: true})
	}
	begun := envOf(t, objects)
	begun.eager = true
	begun.play()
	for write := begunWrites; ; write++ {
		w := begun.copy()
		killed := w.kill(move, write)
		w.scaleSet(set, 2)
		w.run(move)
		w.play()
		if sets, machines := get(w, &clusterv1.MachineSetList{}).Items, get(w,
			&infrav1.MCMMachineList{}).Items; ptr.Deref(sets[0].Spec.Replicas, 0) != 2 || len(machines) != 2 ||
			len(w.vms()) != 2 {
			t.Fatalf("scaled after write %d: the set wants %d, there are %d MCMMachines and %d VMs", write,
				*sets[0].Spec.Replicas, len(machines), len(w.vms()))
		}
		if !killed {
			t.Logf("%d kills", write-1)
			return
		}
	}
}

// scaleSet asks the MachineSet that is the truth for so many machines.
func (w *env) scaleSet(p migration.Pool, replicas int32) {
	w.t.Helper()
	s, err := load(w.t.Context(), w.api, p)
	if err != nil {
		w.t.Fatal(err)
	}
	var set client.Object = &get(w, &machinev1.MachineSetList{}).Items[0]
	if s.object != nil && s.Authority() == migration.ClusterAPI {
		set = &get(w, &clusterv1.MachineSetList{}).Items[0]
	}
	w.patchObject(set, func(o client.Object) {
		objects.SetReplicas(o, replicas)
		o.SetGeneration(o.GetGeneration() + 1)
	})
}

// TestAPoolThatWasMadeAnew is moved, although the record of another one of its name
// says that it is there already.
func TestAPoolThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 1)
	history := &stored{Record: migration.Record{
		Pool: pool(), To: migration.ClusterAPI, Origin: migration.Native, Phase: migration.PhaseFinished,
		Cluster: "old",
	}}
	w.must(history.save(t.Context(), w.api))
	f, err := migration.ReadFleet(t.Context(), migration.Readers{Control: w.api, Target: w.api}, "ns", "")
	if err != nil {
		t.Fatal(err)
	}
	if pools := f.On(migration.Native).Pools; len(pools) != 1 {
		t.Errorf("%d pools are on the native API, want 1", len(pools))
	}
	w.run(there)
	w.untouched()
	w.onClusterAPI(1)
	w.run(there) // nothing more is to be done
}

// TestAnotherClusterIsRefused in the middle of a move, which says what it has begun with.
func TestAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 1)
	w.kill(there, 4)
	err := w.engine(-1).Apply(t.Context(), pool(), migration.Options{
		To: migration.ClusterAPI, Cluster: "c2",
		TakeOver: true,
	})
	if want := "has begun with Cluster c1, not c2"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if err := w.engine(-1).Apply(t.Context(), pool(), migration.Options{
		To:       migration.ClusterAPI,
		TakeOver: true,
	}); err != nil {
		t.Errorf("somebody who does not know the Cluster goes on: %v", err)
	}
	w.onClusterAPI(1)
}
