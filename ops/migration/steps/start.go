package steps

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// startNewSide makes sure that the other side rests, hands over what only one side
// can have, and starts the new one from the machines up. A controller that may be
// asked to delete a machine must be able to: a VM that it leaves becomes an orphan.
func (e *Engine) startNewSide(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	for _, tier := range s.Tiers(m.To.Other()) {
		if missing, err := e.pause(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return pausePending(m.To.Other(), missing), err
		}
	}
	if waiting, err := e.startTiers(ctx, m, s); err != nil || waiting != "" {
		return waiting, err
	}
	if m.To == migration.ClusterAPI {
		if err := e.writeHealthCheck(ctx, m, s); err != nil {
			return "", err
		}
	}
	if err := e.giveBounds(ctx, m, s); err != nil {
		return "", err
	}
	return "", e.enter(ctx, m, s, migration.PhaseMoved)
}

// startTiers starts the new side from the machines up, and hands over once they work.
func (e *Engine) startTiers(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	tiers := s.Tiers(m.To)
	slices.Reverse(tiers)
	for i, tier := range tiers {
		if waiting, err := e.startTier(ctx, m, s, tier); err != nil || waiting != "" {
			return waiting, err
		}
		if i > 0 {
			continue
		}
		if waiting, err := e.handOver(ctx, m, s); err != nil || waiting != "" {
			return waiting, err
		}
	}
	return "", nil
}

// startTier starts objects and waits until they work.
func (e *Engine) startTier(ctx context.Context, m *move, s *migration.PoolState, tier []client.Object) (string, error) {
	if wrote, err := e.catchUp(ctx, m, s, tier); err != nil || wrote {
		return "its last change on the old side is copied", err
	}
	missing, err := e.unpause(ctx, tier)
	if err != nil || len(missing) > 0 {
		return fmt.Sprintf("the controllers of %s have not begun with %s yet; do they run?", m.To.Title(),
			objects.List(missing)), err
	}
	for _, o := range tier {
		if why := notYet(s, o); why != "" {
			return objects.Title(o) + " " + why, nil
		}
	}
	return "", nil
}

// catchUp copies the number of machines that a user has asked the old head for
// between its last copy and the moment when that ceased to be the truth, before the
// new head, which is of this tier, is started.
func (e *Engine) catchUp(ctx context.Context, m *move, s *migration.PoolState, tier []client.Object) (wrote bool,
	err error,
) {
	from, head := s.Head(m.To.Other()), s.Head(m.To)
	if m.Generation == 0 || from == nil || head == nil || from.GetGeneration() == m.Generation ||
		!slices.Contains(tier, head) || !pauseRequested(head) {
		return false, nil
	}
	wanted := objects.Replicas(from)
	if wanted == nil {
		return false, nil
	}
	if !ptr.Equal(wanted, objects.Replicas(head)) {
		changed := head.DeepCopyObject().(client.Object)
		objects.SetReplicas(changed, *wanted)
		if err := e.patch(ctx, head, changed); err != nil {
			return true, err
		}
	}
	m.Generation = from.GetGeneration()
	return true, e.save(ctx, m)
}

// handOver gives the new side what only one side can have, as soon as its VMs are
// looked after.
func (e *Engine) handOver(ctx context.Context, m *move, s *migration.PoolState) (waiting string, err error) {
	if m.To == migration.Native {
		return "", e.handOverToNative(ctx, s)
	}
	return e.handOverToClusterAPI(ctx, s)
}

// handOverToClusterAPI sees the finalizers of the new side, takes the native one off
// the Nodes, and lets MCMMachines delete their VMs.
func (e *Engine) handOverToClusterAPI(ctx context.Context, s *migration.PoolState) (waiting string, err error) {
	for i := range s.ClusterAPI.Machines {
		if o := &s.ClusterAPI.Machines[i]; !slices.Contains(o.Finalizers, clusterv1.MachineFinalizer) {
			return objects.Title(o) + " has no finalizer yet", nil
		}
	}
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; !slices.Contains(o.Finalizers, machinev1.MCMMachineFinalizer) {
			return objects.Title(o) + " has no finalizer yet", nil
		}
	}
	for _, name := range objects.Keys(s.Nodes) {
		node := s.Nodes[name]
		if !slices.Contains(node.Finalizers, machinev1.NodeFinalizer) {
			continue
		}
		changed := node.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool {
			return f == machinev1.NodeFinalizer
		})
		if err := e.patchNode(ctx, node, changed); err != nil {
			return "", err
		}
	}
	return "", e.stopRetaining(ctx, objects.Pointers(s.ClusterAPI.MCMMachines))
}

// stopRetaining lets MCMMachines take their VMs along when they are deleted.
func (e *Engine) stopRetaining(ctx context.Context, list []client.Object) error {
	for _, o := range list {
		if _, retained := o.GetAnnotations()[machinev1.RetainVMAnnotation]; !retained {
			continue
		}
		if _, ok := o.(*infrav1.MCMMachine); !ok {
			continue
		}
		if err := e.annotate(ctx, o, map[string]*string{machinev1.RetainVMAnnotation: nil}); err != nil {
			return err
		}
	}
	return nil
}

// writeHealthCheck makes the pool's MachineHealthCheck, unless it comes home to
// Cluster API where it had none.
func (e *Engine) writeHealthCheck(ctx context.Context, m *move, s *migration.PoolState) error {
	want, _ := fields.ToClusterAPI(s, m.options())
	if want.HealthCheck == nil || s.ClusterAPI.HealthCheck != nil || m.NoHealthCheck {
		return nil
	}
	if s.Cluster.Cluster == nil {
		return fmt.Errorf("make the MachineHealthCheck: Cluster %s does not exist any more; restore it, or roll back",
			m.Cluster)
	}
	return e.create(ctx, want.HealthCheck, refTo(s.Cluster.Cluster, false))
}

// handOverToNative takes Cluster API's marks off the Nodes.
func (e *Engine) handOverToNative(ctx context.Context, s *migration.PoolState) error {
	for _, name := range objects.Keys(s.Nodes) {
		node := s.Nodes[name]
		changed := node.DeepCopy()
		for _, key := range []string{
			clusterv1.ClusterNameAnnotation, clusterv1.ClusterNamespaceAnnotation, clusterv1.MachineAnnotation,
			clusterv1.OwnerKindAnnotation,
			clusterv1.OwnerNameAnnotation, clusterv1.LabelsFromMachineAnnotation, clusterv1.AnnotationsFromMachineAnnotation,
			clusterv1.TaintsFromMachineAnnotation,
		} {
			delete(changed.Annotations, key)
		}
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, func(t corev1.Taint) bool {
			return t.MatchTaint(&clusterv1.NodeOutdatedRevisionTaint)
		})
		if len(changed.Annotations) == len(node.Annotations) && len(changed.Spec.Taints) == len(node.Spec.Taints) {
			continue
		}
		if err := e.patchNode(ctx, node, changed); err != nil {
			return err
		}
	}
	return nil
}

// patchNode writes the difference to a Node, unless somebody else has since.
func (e *Engine) patchNode(ctx context.Context, node, changed *corev1.Node) error {
	err := e.Target.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write Node %s: %w", node.Name, err)
	}
	return nil
}
