package steps

import (
	"fmt"

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
func pendingSets[T any, P interface {
	*T
	client.Object
}](sets []T, deployment client.Object, counted func(P) bool) string {
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
	all, available := int32(0), int32(0)
	for i := range s.Machines {
		m := &s.Machines[i]
		if !controls(set, m) {
			continue
		}
		all++
		switch m.Status.CurrentStatus.Phase {
		case machinev1.MachineRunning, machinev1.MachineAvailable:
			available++
		}
	}
	return set.Status.ObservedGeneration >= set.Generation && set.Status.Replicas >= all &&
		set.Status.AvailableReplicas >= available
}

// countedByCluster is the same for a set of Cluster API.
func countedByCluster(s *recovery.State, set *clusterv1.MachineSet) bool {
	all, available := int32(0), int32(0)
	for i := range s.ClusterMachines {
		m := &s.ClusterMachines[i]
		if !controls(set, m) {
			continue
		}
		all++
		for _, c := range m.Status.Conditions {
			if c.Type == clusterv1.MachineAvailableCondition && c.Status == metav1.ConditionTrue {
				available++
			}
		}
	}
	return set.Status.ObservedGeneration >= set.Generation && ptr.Deref(set.Status.Replicas, 0) >= all &&
		ptr.Deref(set.Status.AvailableReplicas, 0) >= available
}
