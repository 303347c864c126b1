package steps

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

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
