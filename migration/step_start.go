package migration

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
)

// startNewSide makes sure that the other side rests, starts the new one from the
// machines up, and hands over what both sides hold.
func (e *Engine) startNewSide(ctx context.Context, m *move, s *Scene) (string, error) {
	for _, tier := range s.tiers(m.To.Other()) {
		if missing, err := e.rest(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return resting(m.To.Other(), missing), err
		}
	}
	tiers := s.tiers(m.To)
	slices.Reverse(tiers)
	for _, tier := range tiers {
		if waiting, err := e.startTier(ctx, m, s, tier); err != nil || waiting != "" {
			return waiting, err
		}
	}
	handOver := e.handToClusterAPI
	if m.To == DoorNative {
		handOver = e.handToNative
	}
	if wrote, waiting, err := handOver(ctx, m, s); err != nil || wrote || waiting != "" {
		return waiting, err
	}
	return "", e.enter(ctx, m, s, PhaseMoved)
}

// startTier starts objects and waits until they work.
func (e *Engine) startTier(ctx context.Context, m *move, s *Scene, tier []client.Object) (string, error) {
	for _, o := range tier {
		if head, ok := o.(*clusterv1.MachineDeployment); ok {
			if wrote, err := e.catchUp(ctx, m, s, head); err != nil || wrote {
				return "its last change on the native side is copied", err
			}
		}
	}
	missing, err := e.start(ctx, tier)
	if err != nil || len(missing) > 0 {
		return fmt.Sprintf("the controllers of the %s door have not begun with %s yet; do they run?", m.To, some(missing)), err
	}
	for _, o := range tier {
		if why := s.notYet(o); why != "" {
			return title(o) + " " + why, nil
		}
	}
	return "", nil
}

// catchUp copies the number of machines that a user has asked the native head for
// between its last copy and the moment when that ceased to be the truth.
func (e *Engine) catchUp(ctx context.Context, m *move, s *Scene, head *clusterv1.MachineDeployment) (wrote bool, err error) {
	from := s.Native.Deployment
	if _, rests := head.Annotations[clusterv1.PausedAnnotation]; !rests || from == nil || from.Generation == m.Generation {
		return false, nil
	}
	if ptr.Deref(head.Spec.Replicas, 0) != from.Spec.Replicas {
		changed := head.DeepCopy()
		changed.Spec.Replicas = ptr.To(from.Spec.Replicas)
		if err := e.patch(ctx, head, changed); err != nil {
			return true, err
		}
	}
	m.Generation = from.Generation
	return true, e.keep(ctx, m)
}

// notYet says what a started object of the Cluster API door has not got yet; empty
// if it works. Objects of the native door have their word in their status already.
func (s *Scene) notYet(o client.Object) string {
	if !o.GetDeletionTimestamp().IsZero() {
		return ""
	}
	switch o := o.(type) {
	case *infrav1.MCMMachine:
		if !provisioned(o) && !lost(o) && o.Spec.ProviderID != "" {
			return "has not found its VM yet: " + wordOf(o)
		}
	case *clusterv1.Machine:
		infra := s.mcmMachineOf(o)
		if !o.Status.NodeRef.IsDefined() && s.nodeOf(o.Spec.ProviderID) != nil && (infra == nil || !lost(infra)) {
			return "has not found its Node yet"
		}
	case *clusterv1.MachineSet:
		if o.Status.ObservedGeneration < o.Generation {
			return "has not been looked at yet"
		}
	case *clusterv1.MachineDeployment:
		if o.Status.ObservedGeneration < o.Generation {
			return "has not been looked at yet"
		}
	}
	return ""
}

// nodeOf is the Node with a providerID; nil if there is none.
func (s *Scene) nodeOf(providerID string) *corev1.Node {
	for _, node := range s.Nodes {
		if providerID != "" && node.Spec.ProviderID == providerID {
			return node
		}
	}
	return nil
}

// handToClusterAPI gives the new side what only one side can have: first its own
// finalizers are seen, then the native one goes from the Nodes, then its MCMMachines
// may delete their VMs, and last it is told of health and of autoscaling.
func (e *Engine) handToClusterAPI(ctx context.Context, m *move, s *Scene) (wrote bool, waiting string, err error) {
	for i := range s.ClusterAPI.Machines {
		if o := &s.ClusterAPI.Machines[i]; !slices.Contains(o.Finalizers, clusterv1.MachineFinalizer) {
			return false, title(o) + " has no finalizer yet", nil
		}
	}
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; !slices.Contains(o.Finalizers, machinev1.MCMMachineFinalizer) {
			return false, title(o) + " has no finalizer yet", nil
		}
	}
	for _, name := range sortedNames(s.Nodes) {
		node := s.Nodes[name]
		if !slices.Contains(node.Finalizers, machinev1.NodeFinalizer) {
			continue
		}
		changed := node.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == machinev1.NodeFinalizer })
		if wrote, err = true, e.patchNode(ctx, node, changed); err != nil {
			return wrote, "", err
		}
	}
	if err := e.mayDelete(ctx, s, pointers(s.ClusterAPI.MCMMachines)); err != nil {
		return true, "", err
	}
	if err := e.writeHealthCheck(ctx, m, s); err != nil {
		return true, "", err
	}
	if s.ClusterAPI.Deployment == nil {
		return false, "", nil
	}
	return false, "", e.giveBounds(ctx, m, s.ClusterAPI.Deployment)
}

// mayDelete lets MCMMachines take their VMs along when they are deleted.
func (e *Engine) mayDelete(ctx context.Context, s *Scene, objects []client.Object) error {
	for _, o := range objects {
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

func (e *Engine) writeHealthCheck(ctx context.Context, m *move, s *Scene) error {
	want, _ := s.CopyToClusterAPI(m.options())
	if want.HealthCheck == nil || s.ClusterAPI.HealthCheck != nil {
		return nil
	}
	return e.make(ctx, want.HealthCheck, refTo(s.Cluster.Cluster, false))
}

// giveBounds hands the autoscaler's bounds to a head, if there are any.
func (e *Engine) giveBounds(ctx context.Context, m *move, head client.Object) error {
	if len(m.Bounds) == 0 {
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

// handToNative takes Cluster API's marks off the Nodes, and gives the bounds back.
func (e *Engine) handToNative(ctx context.Context, m *move, s *Scene) (wrote bool, waiting string, err error) {
	for _, name := range sortedNames(s.Nodes) {
		node := s.Nodes[name]
		changed := node.DeepCopy()
		for _, key := range []string{
			clusterv1.ClusterNameAnnotation, clusterv1.ClusterNamespaceAnnotation, clusterv1.MachineAnnotation, clusterv1.OwnerKindAnnotation,
			clusterv1.OwnerNameAnnotation, clusterv1.LabelsFromMachineAnnotation, clusterv1.AnnotationsFromMachineAnnotation, clusterv1.TaintsFromMachineAnnotation,
		} {
			delete(changed.Annotations, key)
		}
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&clusterv1.NodeOutdatedRevisionTaint) })
		if len(changed.Annotations) == len(node.Annotations) && len(changed.Spec.Taints) == len(node.Spec.Taints) {
			continue
		}
		if err := e.patchNode(ctx, node, changed); err != nil {
			return true, "", err
		}
	}
	if s.Native.Deployment == nil {
		return false, "", nil
	}
	return false, "", e.giveBounds(ctx, m, s.Native.Deployment)
}

// patchNode writes the difference to a Node, unless somebody else has since.
func (e *Engine) patchNode(ctx context.Context, node, changed *corev1.Node) error {
	err := e.Target.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write Node %s: %w", node.Name, err)
	}
	return nil
}
