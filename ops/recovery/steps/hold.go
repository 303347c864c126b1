package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
)

// hold has the controllers leave the pools of the plan alone: deployments and all of their
// sets. It waits until all have acknowledged.
func (r *run) hold(ctx context.Context, p *recovery.Plan) (waiting string, wrote bool, err error) {
	var missing []client.Object
	for i := range p.Pools {
		if wrote, err = r.rebase(ctx, &p.Pools[i]); wrote || err != nil {
			return "", wrote, err
		}
		for _, o := range tier(&p.Pools[i]) {
			if recovery.Answered(o) {
				continue
			}
			missing = append(missing, o)
			if asked(o) || pausedBefore(o) {
				continue
			}
			if err := r.annotate(ctx, o, recovery.HoldValue(r.name, o)); err != nil {
				return "", false, err
			}
			wrote = true
		}
	}
	if len(missing) == 0 {
		return "", false, nil
	}
	return fmt.Sprintf("the controllers of %s to leave them alone; do they run?", objects.List(missing)), wrote, nil
}

// pausedBefore reports whether an earlier pause of an object of Cluster API has just ended: its
// condition would look like the answer.
func pausedBefore(o client.Object) bool { return !objects.IsNative(o) && objects.Paused(o) }

// rebase has every object of a pool that is held already keep its present size as the size
// before the recovery, if another one of the pool is not held: an earlier run was interrupted
// while it held the pool, when no size had changed, or while it released it, when all sizes
// were right. What that run has added would otherwise be taken for a part of what is added now.
func (r *run) rebase(ctx context.Context, pool *recovery.PoolPlan) (wrote bool, err error) {
	all := tier(pool)
	if !slices.ContainsFunc(all, func(o client.Object) bool { return !asked(o) }) {
		return false, nil
	}
	for _, o := range all {
		if !recovery.Rebased(o) {
			if err := r.annotate(ctx, o, recovery.HoldValue(r.name, o)); err != nil {
				return wrote, err
			}
			wrote = true
		}
	}
	return wrote, nil
}

// asked reports whether somebody holds o, acknowledged or not.
func asked(o client.Object) bool {
	_, is := o.GetAnnotations()[recovery.HoldKey(o)]
	return is
}

// tier returns what is held of a pool, from the head down.
func tier(p *recovery.PoolPlan) []client.Object {
	var out []client.Object
	if p.Head != nil {
		out = append(out, p.Head)
	}
	return append(out, p.Sets...)
}

// annotate sets the annotation that holds o; "" releases it.
func (r *run) annotate(ctx context.Context, o client.Object, value string) error {
	changed := o.DeepCopyObject().(client.Object)
	if value == "" {
		machinev1.DropHold(changed)
		delete(changed.GetAnnotations(), recovery.HoldKey(o))
	} else {
		machinev1.SetAnnotation(changed, recovery.HoldKey(o), value)
	}
	return r.patch(ctx, o, changed)
}

// patch writes the difference, unless somebody else has changed the object since. An object
// that is gone is looked at again.
func (r *run) patch(ctx context.Context, o, changed client.Object) error {
	if equality.Semantic.DeepEqual(o, changed) {
		return nil
	}
	err := r.Control.Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write %s: %w; the same command goes on", objects.Title(o), err)
	}
	return nil
}

func isMachine(o client.Object) bool {
	switch o.(type) {
	case *machinev1.Machine, *clusterv1.Machine:
		return true
	}
	return false
}

func isSet(o client.Object) bool {
	switch o.(type) {
	case *machinev1.MachineSet, *clusterv1.MachineSet:
		return true
	}
	return false
}

func isDeployment(o client.Object) bool { return !isMachine(o) && !isSet(o) }

// release returns the step that releases pools, each for itself: one that waits holds up no
// other.
func (r *run) release(s *recovery.State) step {
	return func(ctx context.Context, p *recovery.Plan) (waiting string, wrote bool, err error) {
		var waits []string
		r.stays = nil
		for _, pool := range families(s, p.Held) {
			if why := recovery.Stays(s, recovery.Family(s, pool[0])); why != "" {
				r.stays = append(r.stays, fmt.Sprintf("%s: %s", objects.List(pool), why))
				continue
			}
			waiting, released, err := r.releasePool(ctx, s, pool)
			if err != nil {
				return "", wrote, err
			}
			wrote = wrote || released
			if waiting != "" {
				waits = append(waits, waiting)
			}
		}
		if wrote {
			return "", true, nil
		}
		return strings.Join(waits, "; "), false, nil
	}
}

// releasePool releases the machines of a pool, then its sets, then its deployment. The
// deployment follows once the statuses of its sets count the new machines: it would replace
// what looks unavailable.
func (r *run) releasePool(ctx context.Context, s *recovery.State, pool []client.Object) (
	waiting string, wrote bool, err error,
) {
	for _, tier := range []func(client.Object) bool{isMachine, isSet, isDeployment} {
		for _, o := range pool {
			if !tier(o) {
				continue
			}
			if why := pending(s, o); why != "" {
				waiting = why
				continue
			}
			if err := r.annotate(ctx, o, ""); err != nil {
				return "", wrote, err
			}
			wrote = true
		}
		if wrote || waiting != "" {
			return waiting, wrote, nil
		}
	}
	return "", false, nil
}

// families returns the objects that are held, by the pools that are released together.
func families(s *recovery.State, held []client.Object) [][]client.Object {
	var names []string
	var out [][]client.Object
	for _, o := range held {
		name := recovery.Family(s, o)
		i := slices.Index(names, name)
		if i < 0 {
			i = len(names)
			names, out = append(names, name), append(out, nil)
		}
		out[i] = append(out[i], o)
	}
	return out
}

// staysHeld returns the error that pools stay held, which names what to do; nil if none does.
func (r *run) staysHeld() error {
	if len(r.stays) == 0 {
		return nil
	}
	return fmt.Errorf("still held: %s; then the same command goes on", strings.Join(r.stays, "; "))
}

// pending returns what o waits for before it is released; empty for nothing.
func pending(s *recovery.State, o client.Object) string {
	switch o := o.(type) {
	case *clusterv1.Machine:
		return pendingMachine(s, o)
	case *clusterv1.MachineSet:
		return pendingNodes(s, o)
	case *machinev1.MachineDeployment:
		return pendingSets(s.Sets, o, func(set *machinev1.MachineSet) bool { return counted(s, set) })
	case *clusterv1.MachineDeployment:
		return pendingSets(s.ClusterSets, o, func(set *clusterv1.MachineSet) bool { return countedByCluster(s, set) })
	}
	return ""
}

// pendingSets waits for the sets of a deployment to have counted their machines.
func pendingSets[T any, P objects.Object[T]](sets []T, deployment client.Object, counted func(P) bool) string {
	for i := range sets {
		set := P(&sets[i])
		if controls(deployment, set) && set.GetDeletionTimestamp().IsZero() && !counted(set) {
			return fmt.Sprintf("the controllers of %s to count its machines", objects.Title(set))
		}
	}
	return ""
}

func controls(owner, o client.Object) bool { return metav1.IsControlledBy(o, owner) }

// pendingMachine waits for the VM of the MCMMachine to have been looked up. A Machine without
// MCMMachine is half of what a recovery makes.
func pendingMachine(s *recovery.State, m *clusterv1.Machine) string {
	if !m.DeletionTimestamp.IsZero() {
		return ""
	}
	infra := objects.Find(s.MCMMachines, m.Spec.InfrastructureRef.Name)
	if infra == nil {
		return fmt.Sprintf("MCMMachine %s to be created, which has to be done for its VM first; or delete Machine %s, "+
			"which touches no VM", m.Spec.InfrastructureRef.Name, m.Name)
	}
	if ptr.Deref(infra.Status.Initialization.Provisioned, false) || lookedUp(infra) {
		return ""
	}
	text := fmt.Sprintf("MCMMachine %s to find its VM", infra.Name)
	if c := meta.FindStatusCondition(infra.Status.Conditions, infrav1.VMProvisionedCondition); c != nil {
		text += fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
	}
	return text
}

// lookedUp reports whether the state of a VM that is not provisioned is known from the cloud.
func lookedUp(infra *infrav1.MCMMachine) bool {
	c := meta.FindStatusCondition(infra.Status.Conditions, infrav1.VMProvisionedCondition)
	if c == nil {
		return false
	}
	switch c.Reason {
	case infrav1.ReasonProvisioned, infrav1.ReasonWaitingForAddresses, infrav1.ReasonInstanceNotFound,
		infrav1.ReasonInstanceDeleting, machinev1.ReasonVMStopped, machinev1.ReasonVMFailed:
		return true
	}
	return false
}

// pendingNodes waits for the machines of a set to have found their Nodes. A VM that is not
// provisioned finds none.
func pendingNodes(s *recovery.State, set *clusterv1.MachineSet) string {
	for i := range s.ClusterMachines {
		m := &s.ClusterMachines[i]
		if !controls(set, m) || m.Status.NodeRef.IsDefined() || !m.DeletionTimestamp.IsZero() {
			continue
		}
		infra := objects.Find(s.MCMMachines, m.Spec.InfrastructureRef.Name)
		if infra == nil || !ptr.Deref(infra.Status.Initialization.Provisioned, false) {
			continue
		}
		for j := range s.Nodes {
			if m.Spec.ProviderID != "" && s.Nodes[j].Spec.ProviderID == m.Spec.ProviderID {
				return fmt.Sprintf("Machine %s to find its Node", m.Name)
			}
		}
	}
	return ""
}

// counted reports whether the status of a set is that of its machines.
func counted(s *recovery.State, set *machinev1.MachineSet) bool {
	all, available := count(set, s.Machines, func(m *machinev1.Machine) bool {
		phase := m.Status.CurrentStatus.Phase
		return phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable
	})
	return set.Status.ObservedGeneration >= set.Generation && set.Status.Replicas >= all &&
		set.Status.AvailableReplicas >= available
}

// countedByCluster is the same for a set of Cluster API.
func countedByCluster(s *recovery.State, set *clusterv1.MachineSet) bool {
	all, available := count(set, s.ClusterMachines, func(m *clusterv1.Machine) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineAvailableCondition)
	})
	return set.Status.ObservedGeneration >= set.Generation && ptr.Deref(set.Status.Replicas, 0) >= all &&
		ptr.Deref(set.Status.AvailableReplicas, 0) >= available
}

// count counts the machines that a set controls, and those of them that are available.
func count[T any, P objects.Object[T]](set client.Object, machines []T,
	isAvailable func(P) bool,
) (all, available int32) {
	for i := range machines {
		if m := P(&machines[i]); controls(set, m) {
			all++
			if isAvailable(m) {
				available++
			}
		}
	}
	return all, available
}
