package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// holdOldSide puts the old side to rest, from the head down. Before the machines
// are held, what was begun with them comes to its end: the ones that are being
// made get their VM, the ones that are being deleted go.
func (e *Engine) holdOldSide(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	old := m.To.Other()
	if done, err := e.takeBounds(ctx, m, s); err != nil || !done {
		return "", err
	}
	tiers := s.Tiers(old)
	for _, tier := range tiers[:2] {
		if missing, err := e.pause(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return pausePending(old, missing), err
		}
	}
	if waiting := unsettled(s, old); waiting != "" {
		return e.finishBegun(ctx, s, old, waiting)
	}
	if missing, err := e.pause(ctx, m.Hold, slices.Concat(tiers[2:]...)); err != nil || len(missing) > 0 {
		return pausePending(old, missing), err
	}
	m.Generation = s.Generation(old)
	return "", e.enter(ctx, m, s, migration.PhaseCopying)
}

// going are the objects of tiers that are being deleted.
func going(tiers [][]client.Object) []client.Object {
	return slices.DeleteFunc(slices.Concat(tiers...), func(o client.Object) bool {
		return o.GetDeletionTimestamp().IsZero()
	})
}

// pausePending says whose answer is waited for.
func pausePending(d migration.API, missing []client.Object) string {
	if len(missing) == 0 {
		return ""
	}
	who := "the native API's controllers"
	if d == migration.ClusterAPI {
		who = "Cluster API's controllers and this provider's"
	}
	return fmt.Sprintf("%s have not acknowledged yet to leave %s alone; do they run?", who, objects.List(missing))
}

// finishBegun lets the machines that are not settled go on, if an earlier pass has
// held them: a user may have deleted one meanwhile.
func (e *Engine) finishBegun(ctx context.Context, s *migration.PoolState, d migration.API, waiting string) (string,
	error,
) {
	restless := going(s.Tiers(d)[2:])
	if d == migration.ClusterAPI {
		if err := e.stopRetaining(ctx, restless); err != nil {
			return "", err
		}
	}
	_, err := e.unpause(ctx, restless)
	return waiting, err
}

// pause asks the controllers of objects to leave them alone, and returns those
// that have not acknowledged it yet. Objects of Cluster API keep their
// VMs from then on.
func (e *Engine) pause(ctx context.Context, hold string, list []client.Object) (missing []client.Object, err error) {
	for _, o := range list {
		if pauseAcknowledged(o) {
			continue
		}
		missing = append(missing, o)
		if pauseRequested(o) || unpauseUnacknowledged(o) {
			continue // it is the controller's turn
		}
		if err := e.annotate(ctx, o, pauseAnnotations(o, hold)); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// unpause lets the controllers of objects work again, and returns those that they
// have not noticed yet. MCMMachines keep their VM.
func (e *Engine) unpause(ctx context.Context, list []client.Object) (missing []client.Object, err error) {
	for _, o := range list {
		drop := map[string]*string{}
		for _, key := range []string{
			machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation,
			machinev1.MigrationHeldSinceAnnotation, clusterv1.PausedAnnotation,
		} {
			if _, there := o.GetAnnotations()[key]; there {
				drop[key] = nil
			}
		}
		if len(drop) > 0 {
			if err := e.annotate(ctx, o, drop); err != nil {
				return nil, err
			}
		}
		if len(drop) > 0 && !objects.IsNative(o) || unpauseUnacknowledged(o) {
			missing = append(missing, o)
		}
	}
	return missing, nil
}

// pauseRequested reports whether o's controllers have been asked to leave it alone, by this
// move or an earlier one that never let it go.
func pauseRequested(o client.Object) bool {
	for key, value := range pauseAnnotations(o, "") {
		have, there := o.GetAnnotations()[key]
		if !there || key == machinev1.RetainVMAnnotation && have != *value {
			return false
		}
	}
	return true
}

// pauseAcknowledged reports whether o's controllers have been asked and have acknowledged it.
func pauseAcknowledged(o client.Object) bool {
	if !pauseRequested(o) {
		return false
	}
	if objects.IsNative(o) {
		hold := o.GetAnnotations()[machinev1.MigrationHoldAnnotation]
		return hold != "" && o.GetAnnotations()[machinev1.MigrationHeldAnnotation] == hold
	}
	return objects.Paused(o)
}

// unpauseUnacknowledged reports whether an object of Cluster API may run, but its
// controller still says that it does not. To pause it now could be answered by
// that old word.
func unpauseUnacknowledged(o client.Object) bool {
	_, annotated := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return !objects.IsNative(o) && !annotated && objects.Paused(o)
}

// pauseAnnotations are what an object carries that is to be left alone.
func pauseAnnotations(o client.Object, hold string) map[string]*string {
	empty, yes := "", "true"
	switch o.(type) {
	case *infrav1.MCMMachine:
		return map[string]*string{clusterv1.PausedAnnotation: &empty, machinev1.RetainVMAnnotation: &yes}
	case *clusterv1.MachineDeployment, *clusterv1.MachineSet, *clusterv1.Machine:
		return map[string]*string{clusterv1.PausedAnnotation: &empty}
	default:
		return map[string]*string{machinev1.MigrationHoldAnnotation: &hold}
	}
}

// takeBounds stores the autoscaler's bounds in the record, and then removes them
// from the old head, so that no autoscaler scales a pool that is between APIs.
// done is false if it wrote anything.
func (e *Engine) takeBounds(ctx context.Context, m *move, s *migration.PoolState) (done bool, err error) {
	head := s.Head(m.To.Other())
	if head == nil {
		return true, nil
	}
	bounds := boundsOf(head)
	if len(bounds) == 0 {
		return true, nil
	}
	if !maps.Equal(bounds, m.Bounds) {
		m.Bounds = bounds
		return false, e.save(ctx, m)
	}
	drop := map[string]*string{}
	for _, pair := range boundAnnotations {
		if _, there := head.GetAnnotations()[pair.on(m.To.Other())]; there {
			drop[pair.on(m.To.Other())] = nil
		}
	}
	return false, e.annotate(ctx, head, drop)
}

// boundAnnotation is one of the autoscaler's bounds by its name on each API.
type boundAnnotation struct{ native, clusterAPI string }

var boundAnnotations = []boundAnnotation{
	{machinev1.NodeGroupMinSizeAnnotation, clusterv1.AutoscalerMinSizeAnnotation},
	{machinev1.NodeGroupMaxSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation},
}

func (b boundAnnotation) on(d migration.API) string {
	if d == migration.Native {
		return b.native
	}
	return b.clusterAPI
}

// boundsOf are the autoscaler's bounds of a head, by the native API's names.
func boundsOf(head client.Object) map[string]string {
	d := migration.ClusterAPI
	if objects.IsNative(head) {
		d = migration.Native
	}
	out := map[string]string{}
	for _, b := range boundAnnotations {
		if value, there := head.GetAnnotations()[b.on(d)]; there {
			out[b.native] = value
		}
	}
	return out
}

// giveBounds hands the autoscaler's bounds to the new head, if there are any.
func (e *Engine) giveBounds(ctx context.Context, m *move, s *migration.PoolState) error {
	head := s.Head(m.To)
	if len(m.Bounds) == 0 || head == nil {
		return nil
	}
	values := map[string]*string{}
	for _, b := range boundAnnotations {
		value, there := m.Bounds[b.native]
		if have, set := head.GetAnnotations()[b.on(m.To)]; there && (!set || have != value) {
			values[b.on(m.To)] = &value
		}
	}
	if len(values) == 0 {
		return nil
	}
	return e.annotate(ctx, head, values)
}
