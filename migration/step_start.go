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

// startNewSide makes sure that the other side rests, hands over what only one side
// can have, and starts the new one from the machines up. Who may be asked to delete
// a machine must be able to: a VM that is kept then is nobody's later.
func (e *Engine) startNewSide(ctx context.Context, m *move, s *Scene) (string, error) {
	for _, tier := range s.tiers(m.To.Other()) {
		if missing, err := e.rest(ctx, m.Hold, tier); err != nil || len(missing) > 0 {
			return resting(m.To.Other(), missing), err
		}
	}
	tiers := s.tiers(m.To)
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
	if m.To == DoorClusterAPI {
		if err := e.writeHealthCheck(ctx, m, s); err != nil {
			return "", err
		}
	}
	if err := e.giveBounds(ctx, m, s); err != nil {
		return "", err
	}
	return "", e.enter(ctx, m, s, PhaseMoved)
}

// handOver gives the new side what only one side can have, as soon as its VMs are
// looked after.
func (e *Engine) handOver(ctx context.Context, m *move, s *Scene) (waiting string, err error) {
	if m.To == DoorNative {
		return "", e.handToNative(ctx, s)
	}
	return e.handToClusterAPI(ctx, s)
}

// startTier starts objects and waits until they work.
func (e *Engine) startTier(ctx context.Context, m *move, s *Scene, tier []client.Object) (string, error) {
	if wrote, err := e.catchUp(ctx, m, s, tier); err != nil || wrote {
		return "its last change on the old side is copied", err
	}
	missing, err := e.start(ctx, tier)
	if err != nil || len(missing) > 0 {
		return fmt.Sprintf("the controllers of the %s door have not begun with %s yet; do they run?", m.To,
			some(missing)), err
	}
	for _, o := range tier {
		if why := s.notYet(o); why != "" {
			return title(o) + " " + why, nil
		}
	}
	return "", nil
}

// catchUp copies the number of machines that a user has asked the old head for
// between its last copy and the moment when that ceased to be the truth, before the
// new head, which is of this tier, is started.
func (e *Engine) catchUp(ctx context.Context, m *move, s *Scene, tier []client.Object) (wrote bool, err error) {
	from, head := s.head(m.To.Other()), s.head(m.To)
	if m.Generation == 0 || from == nil || head == nil || from.GetGeneration() == m.Generation ||
		!slices.Contains(tier, head) || !asked(head) {
		return false, nil
	}
	wanted := replicasOf(from)
	if wanted == nil {
		return false, nil
	}
	if !ptr.Equal(wanted, replicasOf(head)) {
		changed := head.DeepCopyObject().(client.Object)
		setReplicas(changed, *wanted)
		if err := e.patch(ctx, head, changed); err != nil {
			return true, err
		}
	}
	m.Generation = from.GetGeneration()
	return true, e.keep(ctx, m)
}

// replicasOf is how many machines a head is asked for; nil for a Machine.
func replicasOf(head client.Object) *int32 {
	switch o := head.(type) {
	case *machinev1.MachineDeployment:
		return &o.Spec.Replicas
	case *machinev1.MachineSet:
		return &o.Spec.Replicas
	case *clusterv1.MachineDeployment:
		return o.Spec.Replicas
	case *clusterv1.MachineSet:
		return o.Spec.Replicas
	}
	return nil
}

func setReplicas(head client.Object, n int32) {
	switch o := head.(type) {
	case *machinev1.MachineDeployment:
		o.Spec.Replicas = n
	case *machinev1.MachineSet:
		o.Spec.Replicas = n
	case *clusterv1.MachineDeployment:
		o.Spec.Replicas = &n
	case *clusterv1.MachineSet:
		o.Spec.Replicas = &n
	}
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

// handToClusterAPI sees the finalizers of the new side, takes the native one off
// the Nodes, and lets MCMMachines delete their VMs.
func (e *Engine) handToClusterAPI(ctx context.Context, s *Scene) (waiting string, err error) {
	for i := range s.ClusterAPI.Machines {
		if o := &s.ClusterAPI.Machines[i]; !slices.Contains(o.Finalizers, clusterv1.MachineFinalizer) {
			return title(o) + " has no finalizer yet", nil
		}
	}
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; !slices.Contains(o.Finalizers, machinev1.MCMMachineFinalizer) {
			return title(o) + " has no finalizer yet", nil
		}
	}
	for _, name := range sortedNames(s.Nodes) {
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
	return "", e.mayDelete(ctx, pointers(s.ClusterAPI.MCMMachines))
}

// mayDelete lets MCMMachines take their VMs along when they are deleted.
func (e *Engine) mayDelete(ctx context.Context, objects []client.Object) error {
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

// writeHealthCheck makes the pool's MachineHealthCheck, unless it comes home to
// Cluster API where it had none.
func (e *Engine) writeHealthCheck(ctx context.Context, m *move, s *Scene) error {
	want, _ := s.CopyToClusterAPI(m.options())
	if want.HealthCheck == nil || s.ClusterAPI.HealthCheck != nil || m.Unchecked {
		return nil
	}
	if s.Cluster.Cluster == nil {
		return fmt.Errorf("Cluster %s does not exist any more: restore it, or roll back", m.Cluster)
	}
	return e.make(ctx, want.HealthCheck, refTo(s.Cluster.Cluster, false))
}

// giveBounds hands the autoscaler's bounds to the new head, if there are any.
func (e *Engine) giveBounds(ctx context.Context, m *move, s *Scene) error {
	head := s.head(m.To)
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

// handToNative takes Cluster API's marks off the Nodes.
func (e *Engine) handToNative(ctx context.Context, s *Scene) error {
	for _, name := range sortedNames(s.Nodes) {
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
