package steps

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

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
