package clouds

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// throughClusterAPI makes two machines of the class with MCMMachines, and deletes them.
// The test does what Cluster API's core would: it owns, and says what is ready.
func (j *journey) throughClusterAPI() {
	j.Helper()
	owner := j.makeCluster()
	machines := []*infrav1.MCMMachine{j.makeMCMMachine("a"), j.makeMCMMachine("b")}
	j.eventually("two MCMMachines have VMs, and their providerIDs are those of the Nodes", func(ctx context.Context) error {
		return j.haveVMs(ctx, machines)
	})
	for _, m := range machines {
		j.must(j.Client.Delete(j.Context(), m))
	}
	j.must(j.Client.Delete(j.Context(), owner))
	j.eventually("MCMMachines, VMs and then the MCMCluster go", func(ctx context.Context) error {
		if err := j.gone(ctx, machines[0], machines[1], owner); err != nil {
			return err
		}
		return j.nothing(ctx)
	})
}

func (j *journey) capiName(suffix string) string { return j.name + "-capi-" + suffix }

// makeCluster creates a Cluster whose infrastructure is ready, and returns that.
func (j *journey) makeCluster() *infrav1.MCMCluster {
	j.Helper()
	name := j.name + "-capi"
	c := fixture.Cluster(name, fixture.In[*clusterv1.Cluster](stack.Namespace))
	c.UID, c.Spec.ControlPlaneRef = "", clusterv1.ContractVersionedObjectReference{}
	status := c.Status
	j.must(j.Client.Create(j.Context(), c))
	c.Status = status
	j.must(j.Client.Status().Update(j.Context(), c))
	infra := fixture.MCMCluster(name, fixture.In[*infrav1.MCMCluster](stack.Namespace))
	infra.UID = ""
	infra.OwnerReferences[0].UID = c.UID
	j.must(j.Client.Create(j.Context(), infra))
	j.eventually("the MCMCluster is ready", func(ctx context.Context) error {
		err := j.Client.Get(ctx, client.ObjectKeyFromObject(infra), infra)
		if err == nil && !ptr.Deref(infra.Status.Initialization.Provisioned, false) {
			err = fmt.Errorf("status %+v", infra.Status)
		}
		return err
	})
	return infra
}

// makeMCMMachine creates a Machine of Cluster API with boot data and an MCMMachine.
func (j *journey) makeMCMMachine(suffix string) *infrav1.MCMMachine {
	j.Helper()
	name, clusterName := j.capiName(suffix), j.name+"-capi"
	boot := fixture.BootSecret(name, "#cloud-config\n", fixture.In[*corev1.Secret](stack.Namespace))
	owner := fixture.CAPIMachine(name, clusterName, fixture.In[*clusterv1.Machine](stack.Namespace))
	m := fixture.MCMMachine(name, clusterName, j.className(0), fixture.In[*infrav1.MCMMachine](stack.Namespace))
	boot.UID, owner.UID, m.UID = "", "", ""
	j.must(j.Client.Create(j.Context(), boot))
	j.must(j.Client.Create(j.Context(), owner))
	m.OwnerReferences[0].UID = owner.UID
	j.must(j.Client.Create(j.Context(), m))
	return m
}

// haveVMs reports whether each MCMMachine has a VM of its own that runs, and nothing
// else does.
func (j *journey) haveVMs(ctx context.Context, machines []*infrav1.MCMMachine) error {
	vms, err := j.cloud.VMs(ctx)
	if err != nil {
		return err
	}
	byNode := map[string]bool{}
	for _, v := range vms {
		byNode[v.ProviderID] = true
	}
	for _, m := range machines {
		if err := j.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if !ptr.Deref(m.Status.Initialization.Provisioned, false) || !byNode[m.Spec.ProviderID] {
			return fmt.Errorf("MCMMachine %s has providerID %q, VMs are %v; conditions %+v", m.Name, m.Spec.ProviderID, byNode,
				m.Status.Conditions)
		}
		delete(byNode, m.Spec.ProviderID)
	}
	if len(byNode) > 0 {
		return fmt.Errorf("VMs %v belong to no MCMMachine", byNode)
	}
	return nil
}

// gone reports whether objects do not exist any more.
func (j *journey) gone(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		err := j.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return errors.New(o.GetName() + " is still there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// removeOwners deletes what Cluster API's core would.
func (j *journey) removeOwners() {
	j.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: stack.Namespace, Name: name} }
	for _, o := range []client.Object{
		&clusterv1.Machine{ObjectMeta: meta(j.capiName("a"))}, &clusterv1.Machine{ObjectMeta: meta(j.capiName("b"))},
		&clusterv1.Cluster{ObjectMeta: meta(j.name + "-capi")},
	} {
		j.must(client.IgnoreNotFound(j.Client.Delete(j.Context(), o)))
	}
}
