package steps

import (
	"context"
	"maps"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

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
