package migration

import (
	"context"
	"fmt"
	"maps"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// holdOldSide puts the old side to rest, from the head down. Before the machines
// are held, what was begun with them comes to its end: the ones that are being
// made get their VM, the ones that are being deleted go.
func (e *Engine) holdOldSide(ctx context.Context, m *move, s *Scene) (string, error) {
	old := m.To.Other()
	if done, err := e.stashBounds(ctx, m, s); err != nil || !done {
		return "", err
	}
	tiers := s.tiers(old)
	for _, tier := range tiers[:2] {
		if missing, err := e.rest(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return resting(old, missing), err
		}
	}
	if waiting := s.unsettled(old); waiting != "" {
		return e.letSettle(ctx, s, old, waiting)
	}
	var machines []client.Object
	for _, tier := range tiers[2:] {
		machines = append(machines, tier...)
	}
	if missing, err := e.rest(ctx, m.Hold, machines); err != nil || len(missing) > 0 {
		return resting(old, missing), err
	}
	m.Generation = s.generation(old)
	return "", e.enter(ctx, m, s, PhaseCopying)
}

// resting says whose answer is waited for.
func resting(d Door, missing []client.Object) string {
	if len(missing) == 0 {
		return ""
	}
	who := "the native door's controllers"
	if d == DoorClusterAPI {
		who = "Cluster API's controllers and this provider's"
	}
	return fmt.Sprintf("%s have not acknowledged yet to leave %s alone; do they run?", who, some(missing))
}

// letSettle lets the machines that are not settled go on, if an earlier pass has
// held them: a user may have deleted one meanwhile.
func (e *Engine) letSettle(ctx context.Context, s *Scene, d Door, waiting string) (string, error) {
	var restless []client.Object
	for _, tier := range s.tiers(d)[2:] {
		for _, o := range tier {
			if !o.GetDeletionTimestamp().IsZero() {
				restless = append(restless, o)
			}
		}
	}
	if d == DoorClusterAPI {
		if err := e.mayDelete(ctx, restless); err != nil {
			return "", err
		}
	}
	_, err := e.start(ctx, restless)
	return waiting, err
}

// unsettled says which machine of a door is in the middle of something that its
// controller has to end first; empty if none is.
func (s *Scene) unsettled(d Door) string {
	if d == DoorNative {
		for i := range s.Native.Machines {
			if why := unsettledNative(&s.Native.Machines[i]); why != "" {
				return title(&s.Native.Machines[i]) + " " + why
			}
		}
		return ""
	}
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; !o.DeletionTimestamp.IsZero() {
			return title(o) + " is being deleted"
		}
	}
	for i := range s.ClusterAPI.Machines {
		if why := s.unsettledMachine(&s.ClusterAPI.Machines[i]); why != "" {
			return title(&s.ClusterAPI.Machines[i]) + " " + why
		}
	}
	return ""
}

func unsettledNative(m *machinev1.Machine) string {
	phase := m.Status.CurrentStatus.Phase
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "is being deleted"
	case m.Spec.ProviderID == "":
		return "has no VM yet; if it does not get one, delete it"
	case phase == "" || phase == machinev1.MachinePending || phase == machinev1.MachineInPlaceUpdating:
		return fmt.Sprintf("is %s; wait, or delete it", phase)
	}
	return ""
}

func (s *Scene) unsettledMachine(m *clusterv1.Machine) string {
	infra := s.mcmMachineOf(m)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "is being deleted"
	case infra == nil:
		return "has no MCMMachine " + m.Spec.InfrastructureRef.Name
	case infra.Spec.ProviderID == "":
		return "has no VM yet; if it does not get one, delete it"
	case !m.Status.NodeRef.IsDefined() && s.nodeOf(infra.Spec.ProviderID) == nil && !lost(infra) && !paused(m):
		return "has not joined yet; wait, or delete it"
	}
	return ""
}

// stashBounds takes the autoscaler's bounds off the old head, so that nobody
// scales a pool that is between doors, after it has put them into the record.
// done is false if it wrote anything.
func (e *Engine) stashBounds(ctx context.Context, m *move, s *Scene) (done bool, err error) {
	head := s.head(m.To.Other())
	if head == nil {
		return true, nil
	}
	bounds := boundsOf(head)
	if len(bounds) == 0 {
		return true, nil
	}
	if !maps.Equal(bounds, m.Bounds) {
		m.Bounds = bounds
		return false, e.keep(ctx, m)
	}
	drop := map[string]*string{}
	for _, pair := range boundAnnotations {
		if _, there := head.GetAnnotations()[pair.on(m.To.Other())]; there {
			drop[pair.on(m.To.Other())] = nil
		}
	}
	return false, e.annotate(ctx, head, drop)
}

// boundAnnotation is one of the autoscaler's bounds by its name on each door.
type boundAnnotation struct{ native, clusterAPI string }

var boundAnnotations = []boundAnnotation{
	{machinev1.NodeGroupMinSizeAnnotation, clusterv1.AutoscalerMinSizeAnnotation},
	{machinev1.NodeGroupMaxSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation},
}

func (b boundAnnotation) on(d Door) string {
	if d == DoorNative {
		return b.native
	}
	return b.clusterAPI
}

// boundsOf are the autoscaler's bounds of a head, by the native door's names.
func boundsOf(head client.Object) map[string]string {
	d := DoorClusterAPI
	if native(head) {
		d = DoorNative
	}
	out := map[string]string{}
	for _, b := range boundAnnotations {
		if value, there := head.GetAnnotations()[b.on(d)]; there {
			out[b.native] = value
		}
	}
	return out
}

// head is the object that a pool is headed by on a door; nil if there is none.
func (s *Scene) head(d Door) client.Object {
	for _, tier := range s.tiers(d) {
		if len(tier) > 0 {
			return tier[0]
		}
	}
	return nil
}

// generation is that of the head's spec; 0 if there is none.
func (s *Scene) generation(d Door) int64 {
	if head := s.head(d); head != nil {
		return head.GetGeneration()
	}
	return 0
}
