package capi

import (
	"context"
	"testing"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
)

// resilience: owner references and finalizers that somebody removes come back,
// and nothing is written while nothing changes. The checks are those of Cluster
// API's own end-to-end tests, which run within Ginkgo only.
func (p *pool) resilience(t *testing.T) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.It("survives the loss of owner references and finalizers", func(ctx context.Context) {
		proxy := framework.NewClusterProxy("management", p.m.Cluster.Kubeconfig(), scheme(t))
		filter := clusterctlcluster.FilterClusterObjectsWithNameFilter(p.name)
		framework.ValidateOwnerReferencesResilience(ctx, proxy, p.namespace, p.name, filter,
			framework.CoreOwnerReferenceAssertion, owners())
		framework.ValidateFinalizersResilience(ctx, proxy, p.namespace, p.name, filter,
			framework.CoreFinalizersAssertionWithLegacyClusters, finalizers())
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy: proxy, Namespace: p.namespace, OwnerGraphFilterFunction: filter,
			WaitToBecomeStable: []any{"90s", "3s"}, WaitToRemainStable: []any{"20s", "2s"},
		})
	})
	ginkgo.RunSpecs(t, "resilience")
}

// owners are the owner references of our kinds, and of what we make.
func owners() map[string]func(types.NamespacedName, []metav1.OwnerReference) error {
	cluster := metav1.OwnerReference{Kind: "Cluster", APIVersion: clusterv1.GroupVersion.String()}
	machine := metav1.OwnerReference{
		Kind: "Machine", APIVersion: clusterv1.GroupVersion.String(),
		Controller: new(true),
	}
	config := metav1.OwnerReference{
		Kind: "MCMConfig", APIVersion: bootstrapv1.GroupVersion.String(),
		Controller: new(true),
	}
	controlPlane := metav1.OwnerReference{
		Kind:       "MCMExternalControlPlane",
		APIVersion: "controlplane.cluster.x-k8s.io/v1alpha1", Controller: new(true),
	}
	exactly := func(want ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
		return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasExactOwners(got, want...)
		}
	}
	return map[string]func(types.NamespacedName, []metav1.OwnerReference) error{
		"MCMCluster":              exactly(cluster),
		"MCMExternalControlPlane": exactly(cluster),
		"MCMMachineTemplate":      exactly(cluster),
		"MCMConfigTemplate":       exactly(cluster),
		"MCMMachine":              exactly(machine),
		"MCMConfig":               exactly(machine),
		// Without an owner, so that it stays when a Cluster goes.
		"MachineClass":           exactly(),
		"MCMRemediationTemplate": exactly(),
		"Secret": func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(got, []metav1.OwnerReference{config}, []metav1.OwnerReference{controlPlane},
				nil)
		},
	}
}

// finalizers are those of our kinds, and of what they hold.
func finalizers() map[string]func(types.NamespacedName) []string {
	one := func(f string) func(types.NamespacedName) []string {
		return func(types.NamespacedName) []string { return []string{f} }
	}
	return map[string]func(types.NamespacedName) []string{
		"MCMCluster":              one(machinev1.MCMClusterFinalizer),
		"MCMMachine":              one(machinev1.MCMMachineFinalizer),
		"MCMExternalControlPlane": one(machinev1.MCMExternalControlPlaneFinalizer),
		"MachineClass":            one(machinev1.InUseFinalizer),
		"Secret": func(name types.NamespacedName) []string {
			if name.Name == "c1-cloud" {
				return []string{machinev1.InUseFinalizer}
			}
			return nil
		},
	}
}
