package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bounded gives a pool what a move has to take off it and bring back.
func bounded(d *machinev1.MachineDeployment) {
	d.Annotations = map[string]string{machinev1.NodeGroupMinSizeAnnotation: "1", machinev1.NodeGroupMaxSizeAnnotation: "9"}
}

// hasty is when a machine of a pool counts as broken.
func hasty(d *machinev1.MachineDeployment) {
	const health = 10 * time.Second
	d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
		MachineHealthTimeout: &metav1.Duration{Duration: health},
	}
}

// trouble is something that happens to a pool between two commands.
type trouble struct {
	name string
	want int // machines after it
	lost int // of those that there were
	do   func(context.Context, *movingPool) error
}

func allTroubles() []trouble {
	return []trouble{
		{"grows", small + 1, 0, func(ctx context.Context, h *movingPool) error { return h.scaleTruth(ctx, small+1) }},
		{"shrinks", small - 1, 1, func(ctx context.Context, h *movingPool) error { return h.scaleTruth(ctx, small-1) }},
		{"breaks", small, 1, func(ctx context.Context, h *movingPool) error { return h.breakOne(ctx) }},
	}
}

// troubles: a user scales, or a machine fails, when a command was killed, on the
// way to Cluster API and on the way back. The next command carries that out, too,
// once, and touches no other machine.
func (f *faults) troubles(t *testing.T, writes map[string]int) {
	parts := []int{3, 6} // eighths of a command's writes
	var all []*story
	var what []trouble
	for _, part := range parts {
		for _, way := range []string{"there", "back"} {
			for _, tr := range allTroubles() {
				n := len(all)
				h := f.movingPool(t, f.space(n), fmt.Sprintf("%s-%s%d", tr.name, way, part), "small", small, bounded, hasty)
				all = append(all, &story{f, h, n, 1 + writes[way]*part/8, writes})
				what = append(what, tr)
			}
		}
	}
	for _, s := range all {
		s.h.until(t, s.h.Name+" works", s.h.onNative(small, true))
	}
	begin := time.Now()
	f.each(t, all, func(s *story, ctx context.Context) error {
		if ways := 2 * len(allTroubles()); s.number%ways < ways/2 {
			return s.troubledThere(ctx, what[s.number])
		}
		return s.troubledBack(ctx, what[s.number])
	}, func(int) {})
	t.Logf("%d pools in trouble: %.1f s", len(all), time.Since(begin).Seconds())
}

// troubledThere is a way to Cluster API with trouble, and a rollback.
func (s *story) troubledThere(ctx context.Context, tr trouble) error {
	before, err := s.lives(ctx)
	if err != nil {
		return err
	}
	if err := s.killed(ctx, toClusterAPI, s.kill); err != nil {
		return err
	}
	if err := tr.do(ctx, s.h); err != nil {
		return err
	}
	if err := s.h.insist(ctx, toClusterAPI, s.h.options()); err != nil {
		return err
	}
	if err := s.settles(ctx, s.h.onClusterAPI(tr.want, false), before, tr); err != nil {
		return err
	}
	if err := s.h.insist(ctx, rollBack, s.h.options()); err != nil {
		return err
	}
	return s.settles(ctx, s.h.onNative(tr.want, true), before, tr)
}

// troubledBack is a way back with trouble.
func (s *story) troubledBack(ctx context.Context, tr trouble) error {
	before, err := s.lives(ctx)
	if err != nil {
		return err
	}
	for _, l := range []leg{toClusterAPI, finishMove} {
		if err := s.h.insist(ctx, l, s.h.options()); err != nil {
			return err
		}
	}
	if err := s.killed(ctx, toNative, s.kill); err != nil {
		return err
	}
	if err := tr.do(ctx, s.h); err != nil {
		return err
	}
	for _, l := range []leg{toNative, finishMove} {
		if err := s.h.insist(ctx, l, s.h.options()); err != nil {
			return err
		}
	}
	return s.settles(ctx, s.h.onNative(tr.want, true), before, tr)
}

// lives are all VMs that the pool ever had, and whether they are there to stay.
func (s *story) lives(ctx context.Context) (map[string]bool, error) {
	ledger, err := s.Cloud.Ledger(ctx, sim.KindVM)
	lives := map[string]bool{}
	for i := range ledger {
		if vm := &ledger[i]; len(vm.Name()) > len(s.h.Name) && vm.Name()[:len(s.h.Name)+1] == s.h.Name+"-" {
			lives[vm.ID] = vm.Deleting.IsZero() && vm.Gone.IsZero()
		}
	}
	return lives, err
}

// settles waits for a check. Then as many of the pool's first VMs are gone as the
// trouble has cost, and as many were made as it asks for.
func (s *story) settles(ctx context.Context, check func(context.Context) error, before map[string]bool,
	tr trouble,
) error {
	if err := eventually(ctx, check); err != nil {
		return fmt.Errorf("%s: %w", tr.name, err)
	}
	now, err := s.lives(ctx)
	if err != nil {
		return err
	}
	lost := 0
	for id := range before {
		if !now[id] {
			lost++
		}
	}
	if wantMade := tr.want - small + tr.lost; lost != tr.lost || len(now)-len(before) != wantMade {
		return fmt.Errorf("%s: %d of its first VMs are gone, want %d; %d were made, want %d", tr.name, lost, tr.lost,
			len(now)-len(before), wantMade)
	}
	return nil
}

// scaleTruth scales the side that says what machines there are to be.
func (h *movingPool) scaleTruth(ctx context.Context, replicas int32) error {
	records, err := migration.Records(ctx, h.cl, h.Namespace)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(records, func(r migration.Record) bool { return r.Pool == h.Pool })
	meta := metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}
	if at < 0 || records[at].Authority() == migration.Native {
		return edit(ctx, h.cl, &machinev1.MachineDeployment{ObjectMeta: meta}, func(d *machinev1.MachineDeployment) {
			d.Spec.Replicas = replicas
		})
	}
	return edit(ctx, h.cl, &clusterv1.MachineDeployment{ObjectMeta: meta}, func(d *clusterv1.MachineDeployment) {
		d.Spec.Replicas = &replicas
	})
}

// breakOne takes one of the pool's VMs away, and says so on its Node as the node
// lifecycle controller does of a kubelet that is heard of no more.
func (h *movingPool) breakOne(ctx context.Context) error {
	vms, err := h.vms(ctx)
	if err != nil {
		return err
	}
	name := slices.Min(slices.Collect(maps.Keys(vms)))
	all, err := h.Cloud.VMs(ctx)
	if err != nil {
		return err
	}
	if err := h.Cloud.Terminate(ctx, all[name].ID); err != nil {
		return err
	}
	if err := eventually(ctx, func(ctx context.Context) error {
		if left, err := h.vms(ctx); err != nil || left[name] {
			return errors.Join(err, fmt.Errorf("VM %s is still there", name))
		}
		return nil
	}); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown",
		LastTransitionTime: metav1.Now(),
	}}}})
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return h.cl.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, patch))
}

// tell describes a pool for somebody who looks for a failure.
func (h *movingPool) tell(ctx context.Context) string {
	text := ""
	add := func(format string, args ...any) { text += fmt.Sprintf(format+"\n", args...) }
	records, err := migration.Records(ctx, h.cl, h.Namespace)
	add("records: %v", err)
	for i := range records {
		if records[i].Pool == h.Pool {
			add("  %+v", records[i])
		}
	}
	state, err := migration.ReadPool(ctx, h.cl, h.cl, h.Pool, fleetCluster)
	if err != nil {
		return text + err.Error()
	}
	if d := state.Native.Deployment; d != nil {
		add("  native MachineDeployment %s: %v, status %+v", d.Name, d.Annotations, d.Status)
	}
	for i := range state.Native.Sets {
		add("  native MachineSet %s: %d, %v, status %+v", state.Native.Sets[i].Name, state.Native.Sets[i].Spec.Replicas,
			state.Native.Sets[i].Annotations, state.Native.Sets[i].Status)
	}
	for i := range state.Native.Machines {
		m := &state.Native.Machines[i]
		add("  native Machine %s: %s, deleted %v, %v, %v", m.Name, m.Status.CurrentStatus.Phase, m.DeletionTimestamp,
			m.Annotations, m.Finalizers)
	}
	if d := state.ClusterAPI.Deployment; d != nil {
		add("  MachineDeployment %s: generation %d, observed %d, %v, deleted %v, %v", d.Name, d.Generation,
			d.Status.ObservedGeneration, d.Annotations, d.DeletionTimestamp, d.Status.Conditions)
	}
	for i := range state.ClusterAPI.Sets {
		s := &state.ClusterAPI.Sets[i]
		add("  MachineSet %s: generation %d, observed %d, %v, %v", s.Name, s.Generation, s.Status.ObservedGeneration,
			s.Annotations, s.Status.Conditions)
	}
	for i := range state.ClusterAPI.Machines {
		m := &state.ClusterAPI.Machines[i]
		add("  Machine %s: %s, deleted %v, %v, %v, %v", m.Name, m.Status.Phase, m.DeletionTimestamp, m.Annotations,
			m.Finalizers, m.Status.Conditions)
	}
	for i := range state.ClusterAPI.MCMMachines {
		m := &state.ClusterAPI.MCMMachines[i]
		add("  MCMMachine %s: deleted %v, %v, %v, %v", m.Name, m.DeletionTimestamp, m.Annotations, m.Finalizers,
			m.Status.Conditions)
	}
	const anyError = "rror" // "Reconciler error" and "Error"
	for _, line := range h.core.LastLines(10, h.Namespace+"/"+h.Name, anyError) {
		add("  %s", line)
	}
	return text
}
