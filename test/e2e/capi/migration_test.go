package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	fleetNamespace = "fleet"
	fleetCluster   = "c1"
	each           = 10 // machines of a pool
)

// TestMigration moves three pools of ten machines from the native API to Cluster
// API and back, with what else people have beside them, and scales and rolls them
// on each side. Managers run with the flags and permissions that the bundles ship.
func TestMigration(t *testing.T) {
	turn := queue.add(6)
	t.Parallel()
	turn.await(t)
	a := require(t)
	d := newBothAPIs(t, a)
	d.buildCommand(t)
	d.namespace(t, fleetNamespace)
	d.selfHosted(t, fleetNamespace)
	pools := d.threePools(t)
	odd := d.oddPools(t)
	d.startBundles(t)
	everyone(t, pools, "works natively", func(h *movingPool) func(context.Context) error { return h.onNative(each, true) })
	odd.onNative(t)
	loadAll(t, pools)

	step(t, "there and home", func(t *testing.T) {
		w := d.watch(t)
		moveAll(t, pools, there()...)
		moveAll(t, pools, "rollback")
		everyone(t, pools, "works natively as before", func(h *movingPool) func(context.Context) error {
			return h.onNative(each, true)
		})
		w.ends(t, "a move that is rolled back")
	})
	step(t, "there", func(t *testing.T) {
		planned(t, d, len(pools)+len(odd.both()), there())
		w := d.watch(t)
		moveAll(t, pools, there()...)
		everyone(t, pools, "works on Cluster API", func(h *movingPool) func(context.Context) error {
			return h.onClusterAPI(each, false)
		})
		odd.there(t)
		w.ends(t, "the move to Cluster API")
		phases(t, d, len(pools)+len(odd.both()), migration.PhaseMoved)
		moveAll(t, pools, "finish")
		odd.finish(t)
		everyone(t, pools, "works on Cluster API alone", func(h *movingPool) func(context.Context) error {
			return h.onClusterAPI(each, true)
		})
		w.ends(t, "the end of the move to Cluster API")
	})
	step(t, "life on Cluster API", func(t *testing.T) { clusterAPILife(t, pools) })
	step(t, "back", func(t *testing.T) {
		unloadAll(t, pools)
		loadAll(t, pools)
		planned(t, d, len(pools)+len(odd.both()), home())
		w := d.watch(t)
		moveAll(t, pools, home()...)
		everyone(t, pools, "works natively again", func(h *movingPool) func(context.Context) error {
			return h.onNative(each-1, false)
		})
		odd.back(t)
		w.ends(t, "the move back")
		moveAll(t, pools, "finish")
		odd.finish(t)
		everyone(t, pools, "works natively alone", func(h *movingPool) func(context.Context) error {
			return h.onNative(each-1, true)
		})
		odd.onNative(t)
		w.ends(t, "the end of the move back")
		phases(t, d, len(pools)+len(odd.both()), migration.PhaseFinished)
	})
	step(t, "life on the native API", func(t *testing.T) { nativeLife(t, pools) })
	odd.shrink(t)
	d.permissions(t)
	permissions(t, d.Cluster, nativeProvider().namespace+":"+nativeProvider().account)
}

// step is a subtest without which the next ones mean nothing.
func step(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	if !t.Run(name, run) {
		t.FailNow()
	}
}

// threePools are pools that differ in all that a move has to carry along.
func (d *bothAPIs) threePools(t *testing.T) []*movingPool {
	t.Helper()
	for name, instanceType := range map[string]string{"plain": "small", "special": "large", "elastic": "arm"} {
		d.class(t, fleetNamespace, name, instanceType)
	}
	special := func(o *machinev1.MachineDeployment) {
		node := &o.Spec.Template.Spec.NodeTemplateSpec
		node.Labels = map[string]string{"example.com/disk": "fast"}
		node.Annotations = map[string]string{"example.com/contact": "somebody"}
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/reserved", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	}
	elastic := func(o *machinev1.MachineDeployment) {
		o.Annotations = map[string]string{
			machinev1.NodeGroupMinSizeAnnotation: "1",
			machinev1.NodeGroupMaxSizeAnnotation: "12",
		}
	}
	return []*movingPool{
		d.movingPool(t, fleetNamespace, "plain", "plain", each, longTimeouts),
		d.movingPool(t, fleetNamespace, "special", "special", each, special),
		d.movingPool(t, fleetNamespace, "elastic", "elastic", each, elastic),
	}
}

// everyone waits until each pool passes a check.
func everyone(t *testing.T, pools []*movingPool, what string, check func(*movingPool) func(context.Context) error) {
	t.Helper()
	begin := time.Now()
	for _, h := range pools {
		h.until(t, h.Name+" "+what, check(h))
	}
	t.Logf("each pool %s: %.1f s", what, time.Since(begin).Seconds())
}

// moveAll runs one command of kubectl mcm migrate for each pool, all at the same time.
func moveAll(t *testing.T, pools []*movingPool, args ...string) {
	t.Helper()
	begin := time.Now()
	errs := make([]error, len(pools))
	var all sync.WaitGroup
	for i, h := range pools {
		all.Go(func() { _, errs[i] = h.migrate(t.Context(), append(args, h.String())...) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s of %d pools: %.1f s", args[0], len(pools), time.Since(begin).Seconds())
}

// there and home are the commands for the two directions.
func there() []string { return []string{"apply", "--to=clusterapi", "--cluster=" + fleetCluster} }
func home() []string  { return []string{"apply", "--to=native", "--cluster=" + fleetCluster} }

// planned: a plan of all pools finds nothing that keeps them from being moved, and
// changes nothing.
func planned(t *testing.T, d *bothAPIs, pools int, args []string) {
	t.Helper()
	from, err := d.Cluster.Audit().End()
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.migrate(t.Context(), append([]string{"plan", "-o=json"}, args[1:]...)...)
	if err != nil {
		t.Fatal(err)
	}
	var plans []plan.Plan
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(plans) != pools {
		t.Errorf("%d plans for %d pools", len(plans), pools)
	}
	for _, p := range plans {
		if blocked := p.Blocked(); len(blocked) > 0 {
			t.Errorf("%s is blocked: %v", p.Pool, blocked)
		}
	}
	wrote, err := d.Cluster.Audit().Since(from, audit.User(mover), audit.Not(audit.Verb("get", "list", "watch")))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range wrote {
		t.Errorf("a plan has asked to %s %s %s", e.Verb, e.Target(), e.Name)
	}
}

// phases: status says that all pools are in a phase.
func phases(t *testing.T, d *bothAPIs, pools int, phase migration.Phase) {
	t.Helper()
	text, err := d.migrate(t.Context(), "status", "-o=json")
	if err != nil {
		t.Fatal(err)
	}
	var records []migration.Record
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(records) != pools {
		t.Errorf("status knows %d pools of %d", len(records), pools)
	}
	for _, r := range records {
		if r.Phase != phase {
			t.Errorf("%s is %s, want %s", r.Pool, r.Phase, phase)
		}
	}
}

func loadAll(t *testing.T, pools []*movingPool) {
	t.Helper()
	for _, h := range pools {
		h.pods(t)
	}
}

func unloadAll(t *testing.T, pools []*movingPool) {
	t.Helper()
	for _, h := range pools {
		h.unload(t)
	}
}

func releaseAll(t *testing.T, pools []*movingPool) {
	t.Helper()
	for _, h := range pools {
		h.release(t)
	}
}

// clusterAPILife scales and rolls the pools on Cluster API.
func clusterAPILife(t *testing.T, pools []*movingPool) {
	releaseAll(t, pools)
	for _, n := range []int32{each + 2, each - 1} {
		for _, h := range pools {
			h.editCAPI(t, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &n })
		}
		everyone(t, pools, fmt.Sprintf("has %d machines on Cluster API", n), func(h *movingPool) func(context.Context) error {
			return h.onClusterAPI(int(n), true)
		})
	}
	before := map[string]map[string]bool{}
	for _, h := range pools {
		before[h.Name] = h.mustVMs(t)
		h.rollCAPI(t)
	}
	everyone(t, pools, "is rolled on Cluster API", func(h *movingPool) func(context.Context) error {
		return h.rolled(before[h.Name], h.onClusterAPI(each-1, true))
	})
}

// nativeLife does so natively.
func nativeLife(t *testing.T, pools []*movingPool) {
	releaseAll(t, pools)
	for _, n := range []int32{each + 1, each - 2} {
		for _, h := range pools {
			h.editNative(t, func(md *machinev1.MachineDeployment) { md.Spec.Replicas = n })
		}
		everyone(t, pools, fmt.Sprintf("has %d machines natively", n), func(h *movingPool) func(context.Context) error {
			return h.onNative(int(n), true)
		})
	}
	before := map[string]map[string]bool{}
	for _, h := range pools {
		before[h.Name] = h.mustVMs(t)
		h.class(t, h.Namespace, h.Name+"-v3", "small")
		h.editNative(t, func(md *machinev1.MachineDeployment) { md.Spec.Template.Spec.Class.Name = h.Name + "-v3" })
	}
	everyone(t, pools, "is rolled natively", func(h *movingPool) func(context.Context) error {
		return h.rolled(before[h.Name], h.onNative(each-2, true))
	})
}

func (h *movingPool) editCAPI(t *testing.T, change func(*clusterv1.MachineDeployment)) {
	t.Helper()
	if err := edit(t.Context(), h.cl, &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.Namespace,
		Name:      h.Name,
	}}, change); err != nil {
		t.Error(err)
	}
}

func (h *movingPool) editNative(t *testing.T, change func(*machinev1.MachineDeployment)) {
	t.Helper()
	if err := edit(t.Context(), h.cl, &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: h.Namespace,
		Name:      h.Name,
	}}, change); err != nil {
		t.Error(err)
	}
}

func (h *movingPool) mustVMs(t *testing.T) map[string]bool {
	t.Helper()
	vms, err := h.vms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return vms
}

// rollCAPI gives the pool another class through other templates: what its machines
// are made of, and what they boot with.
func (h *movingPool) rollCAPI(t *testing.T) {
	t.Helper()
	next := h.Name + "-v2"
	h.class(t, h.Namespace, next, "small")
	h.editCAPI(t, func(md *clusterv1.MachineDeployment) {
		spec := &md.Spec.Template.Spec
		var machines infrav1.MCMMachineTemplate
		var configs bootstrapv1.MCMConfigTemplate
		for name, o := range map[string]client.Object{
			spec.InfrastructureRef.Name:   &machines,
			spec.Bootstrap.ConfigRef.Name: &configs,
		} {
			if err := h.cl.Get(t.Context(), h.key(name), o); err != nil {
				t.Fatal(err)
			}
		}
		meta := metav1.ObjectMeta{Namespace: h.Namespace, Name: next}
		machines.ObjectMeta, configs.ObjectMeta = meta, meta
		machines.Status = infrav1.MCMMachineTemplateStatus{}
		machines.Spec.Template.Spec.MachineClassRef.Name, configs.Spec.Template.Spec.MachineClassRef.Name = next, next
		for _, o := range []client.Object{&machines, &configs} {
			if err := client.IgnoreAlreadyExists(h.cl.Create(t.Context(), o)); err != nil {
				t.Fatal(err)
			}
		}
		spec.InfrastructureRef.Name, spec.Bootstrap.ConfigRef.Name = next, next
	})
}

// rolled reports whether a check holds and no VM is one of those before.
func (h *movingPool) rolled(before map[string]bool, check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := check(ctx); err != nil {
			return err
		}
		now, err := h.vms(ctx)
		for name := range now {
			if before[name] {
				return fmt.Errorf("VM %s is of the old class", name)
			}
		}
		return err
	}
}
