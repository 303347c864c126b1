package steps

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// mcmMachineOf is the MCMMachine of a Machine; nil if it does not exist.
func mcmMachineOf(s *migration.PoolState, m *clusterv1.Machine) *infrav1.MCMMachine {
	return objects.Find(s.ClusterAPI.MCMMachines, m.Spec.InfrastructureRef.Name)
}

// provisioned reports whether an MCMMachine has found its VM.
func provisioned(o *infrav1.MCMMachine) bool {
	return ptr.Deref(o.Status.Initialization.Provisioned, false)
}

// vmGone reports whether the VM of an MCMMachine is certain to be gone. It moves like
// any other, and is replaced by the new API's health check.
func vmGone(o *infrav1.MCMMachine) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, infrav1.VMProvisionedCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.ReasonInstanceNotFound
}

// vmCondition is what an MCMMachine says about its VM.
func vmCondition(o *infrav1.MCMMachine) string {
	if c := meta.FindStatusCondition(o.Status.Conditions, infrav1.VMProvisionedCondition); c != nil {
		return c.Reason + ": " + c.Message
	}
	return "nothing yet"
}

// unsettled says which machine of an API is in the middle of something that its
// controller has to end first; empty if none is.
func unsettled(s *migration.PoolState, d migration.API) string {
	if d == migration.Native {
		for i := range s.Native.Machines {
			if why := unsettledNative(&s.Native.Machines[i]); why != "" {
				return objects.Title(&s.Native.Machines[i]) + " " + why
			}
		}
		return ""
	}
	for i := range s.ClusterAPI.MCMMachines {
		if o := &s.ClusterAPI.MCMMachines[i]; !o.DeletionTimestamp.IsZero() {
			return objects.Title(o) + " is being deleted"
		}
	}
	for i := range s.ClusterAPI.Machines {
		if why := unsettledMachine(s, &s.ClusterAPI.Machines[i]); why != "" {
			return objects.Title(&s.ClusterAPI.Machines[i]) + " " + why
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

func unsettledMachine(s *migration.PoolState, m *clusterv1.Machine) string {
	infra := mcmMachineOf(s, m)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "is being deleted"
	case infra == nil:
		return "has no MCMMachine " + m.Spec.InfrastructureRef.Name
	case infra.Spec.ProviderID == "":
		return "has no VM yet; if it does not get one, delete it"
	case !m.Status.NodeRef.IsDefined() && nodeOf(s, infra.Spec.ProviderID) == nil && !vmGone(infra) && !objects.Paused(m):
		return "has not joined yet; wait, or delete it"
	}
	return ""
}

// notYet says what a started object of Cluster API has not got yet; empty
// if it works. Objects of the native API have their word in their status already.
func notYet(s *migration.PoolState, o client.Object) string {
	if !o.GetDeletionTimestamp().IsZero() {
		return ""
	}
	switch o := o.(type) {
	case *infrav1.MCMMachine:
		if !provisioned(o) && !vmGone(o) && o.Spec.ProviderID != "" {
			return "has not found its VM yet: " + vmCondition(o)
		}
	case *clusterv1.Machine:
		return noNodeYet(s, o)
	case *clusterv1.MachineSet:
		return notReconciled(o.Generation, o.Status.ObservedGeneration, o.Status.Conditions)
	case *clusterv1.MachineDeployment:
		return notReconciled(o.Generation, o.Status.ObservedGeneration, o.Status.Conditions)
	}
	return ""
}

func noNodeYet(s *migration.PoolState, m *clusterv1.Machine) string {
	infra := mcmMachineOf(s, m)
	if !m.Status.NodeRef.IsDefined() && nodeOf(s, m.Spec.ProviderID) != nil && (infra == nil || !vmGone(infra)) {
		return "has not found its Node yet"
	}
	return ""
}

// notReconciled is what a user reads of an object whose generation Cluster API has not reconciled
// yet; empty if it has. A reconcile that has failed after it wrote its conditions
// counts: only one without an error writes observedGeneration, and the next may be long in coming.
func notReconciled(generation, observed int64, all []metav1.Condition) string {
	shows := func(c metav1.Condition) bool {
		return c.Type != clusterv1.PausedCondition && c.ObservedGeneration >= generation
	}
	if observed >= generation || slices.ContainsFunc(all, shows) {
		return ""
	}
	return "has not been reconciled yet; see the log of Cluster API's core manager"
}

// nodeOf is the Node with a providerID; nil if there is none.
func nodeOf(s *migration.PoolState, providerID string) *corev1.Node {
	for _, node := range s.Nodes {
		if providerID != "" && node.Spec.ProviderID == providerID {
			return node
		}
	}
	return nil
}
