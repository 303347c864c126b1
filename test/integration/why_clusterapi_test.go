package integration

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// TestWhyClusterAPI explains machines of Cluster API to a user with the shipped role. The test does
// what Cluster API's core would: it owns, and says what is ready.
func TestWhyClusterAPI(t *testing.T) {
	t.Parallel()
	su := start(t, stack.Options{ClusterAPI: true})
	su.Expect(su.Cloud.SetAccounts(t.Context(), account("blue"))).To(Succeed())
	s := su.env(t, "blue", nil)
	r := &reader{env: s, kubeconfig: su.reading(su.Cluster, su.Client)}
	s.class(func(_ *machinev1.MachineClass, secret *corev1.Secret) { secret.Data["secretKey"] = []byte("expired") })
	owner := s.ownedCluster()
	m := s.ownedMachine("blue-1", owner)

	r.explains("cluster/blue", explain.Credentials)
	found := r.explains("mcmmachine/blue-1", explain.Credentials)
	r.Expect(found.Object.Kind).To(Equal("MCMMachine"))
	r.Expect(found.Commands).To(ContainElement("kubectl edit secret blue -n default"))
	r.explains("machines.cluster.x-k8s.io/blue-1", explain.Credentials)
	tree, code := r.mcm(s.Context(), "tree", "blue")
	r.Expect(code).To(BeZero())
	r.Expect(tree).NotTo(ContainSubstring("Warning"), "the role suffices")
	r.Expect(tree).To(MatchRegexp(
		`(?s)Cluster/blue .*MCMCluster/blue .*Machine/blue-1 .*MCMMachine/blue-1 .*CredentialsRefused`))

	s.Expect(s.Edit(s.Context(), owner, func() { owner.Spec.Paused = new(true) })).To(Succeed())
	r.explains("cluster/blue", explain.Paused)
	s.Expect(s.Edit(s.Context(), owner, func() { owner.Spec.Paused = nil })).To(Succeed())

	secret := &corev1.Secret{ObjectMeta: s.meta("blue")}
	s.Expect(s.Edit(s.Context(), secret, func() { secret.Data["secretKey"] = []byte("key of blue") })).To(Succeed())
	r.explains("machines.cluster.x-k8s.io/blue-1", explain.Join)
	s.Expect(s.Client.Delete(s.Context(), m)).To(Succeed())
	s.none()
}

// ownedCluster creates a Cluster whose infrastructure and control plane are ready.
func (s *env) ownedCluster() *clusterv1.Cluster {
	s.Helper()
	c := fixture.Cluster(s.name, fixture.In[*clusterv1.Cluster](s.namespace))
	c.UID, c.Spec.ControlPlaneRef = "", clusterv1.ContractVersionedObjectReference{}
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.ClusterInfrastructureReadyReason,
	})
	status := c.Status
	s.Expect(s.Client.Create(s.Context(), c)).To(Succeed())
	c.Status = status
	s.Expect(s.Client.Status().Update(s.Context(), c)).To(Succeed())
	infra := fixture.MCMCluster(s.name, fixture.In[*infrav1.MCMCluster](s.namespace))
	infra.UID, infra.OwnerReferences[0].UID = "", c.UID
	s.Expect(s.Client.Create(s.Context(), infra)).To(Succeed())
	s.eventually("the MCMCluster is ready", func(ctx context.Context) error {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(infra), infra)
		if err == nil && (infra.Status.Initialization.Provisioned == nil || !*infra.Status.Initialization.Provisioned) {
			err = fmt.Errorf("status %+v", infra.Status)
		}
		return err
	})
	return c
}

// ownedMachine creates a Machine of Cluster API with boot data, and returns its MCMMachine.
func (s *env) ownedMachine(name string, of *clusterv1.Cluster) *infrav1.MCMMachine {
	s.Helper()
	owner := fixture.CAPIMachine(name, of.Name, fixture.In[*clusterv1.Machine](s.namespace))
	owner.OwnerReferences = []metav1.OwnerReference{fixture.ClusterOwner(of.Name)}
	owner.OwnerReferences[0].UID = of.UID
	boot := fixture.BootSecret(name, "#cloud-config\n", fixture.In[*corev1.Secret](s.namespace))
	m := fixture.MCMMachine(name, of.Name, s.name, fixture.In[*infrav1.MCMMachine](s.namespace))
	boot.UID, owner.UID, m.UID = "", "", ""
	s.Expect(s.Client.Create(s.Context(), boot)).To(Succeed())
	s.Expect(s.Client.Create(s.Context(), owner)).To(Succeed())
	m.OwnerReferences[0].UID = owner.UID
	s.Expect(s.Client.Create(s.Context(), m)).To(Succeed())
	return m
}
