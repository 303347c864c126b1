package inplaceupdate

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/workloadtest"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const namespace = "ns"

// env is a Machine m with its MCMMachine, Node n and workload cluster, as they
// are when core first asks for an update.
type env struct {
	*harness.Env // with the management cluster
	workload     *harness.Cluster
	e            *Extension
	clusters     *workloadtest.Clusters
	refuse       func(*corev1.Pod) error // answers an eviction; nil: the pod goes at once

	machine *clusterv1.Machine
	infra   *infrav1.MCMMachine
	config  *bootstrapv1.MCMConfig
}

func newEnv(t *testing.T, more ...client.Object) *env {
	t.Helper()
	w := &env{}
	w.machine = fixture.CAPIMachine("m", "c", fixture.In[*clusterv1.Machine](namespace), func(m *clusterv1.Machine) {
		m.Spec.ProviderID, m.Spec.Version, m.Spec.Bootstrap.DataSecretName = "sim:///1", "v1.1.0", new("m")
		m.Status.NodeRef.Name = "n"
		m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	})
	w.infra = fixture.MCMMachine("m", "c", "c1", fixture.In[*infrav1.MCMMachine](namespace), func(m *infrav1.MCMMachine) {
		m.Spec.ProviderID, m.Annotations = "sim:///1", map[string]string{infrav1.MadeFromAnnotation: "c1"}
	})
	w.config = fixture.MCMConfig("m", "c", "d1", fixture.In[*bootstrapv1.MCMConfig](namespace))
	data := fixture.Secret("m", nil, fixture.In[*corev1.Secret](namespace),
		fixture.Annotations[*corev1.Secret](bootstrapv1.MadeFromAnnotation, `{"userDataSecretRef":{"name":"d1"}}`))
	cluster := fixture.Cluster("c", fixture.In[*clusterv1.Cluster](namespace))
	w.Env = harness.New(t, harness.With(more...), harness.With(w.machine, w.infra, w.config, data, cluster))
	w.workload = w.NewCluster(harness.Answered(interceptor.Funcs{SubResourceCreate: w.evict}),
		harness.With(fixture.Node("n", func(n *corev1.Node) {
			n.Spec.ProviderID, n.Status.NodeInfo.KubeletVersion = "sim:///1", "v1.1.0"
			n.Status.Conditions = nil
		})))
	w.clusters = workloadtest.New(client.ObjectKeyFromObject(cluster), w.workload.Client)
	w.e = New(Deps{
		Client: w.Client, Live: w.Client, Clusters: w.clusters, Clock: w.Clock, Events: w.Events,
		NodeAgentTimeout: time.Hour,
	})
	return w
}

func (w *env) evict(ctx context.Context, c client.Client, _ string, o client.Object, _ client.Object,
	_ ...client.SubResourceCreateOption,
) error {
	pod := o.(*corev1.Pod)
	if w.refuse != nil {
		if err := w.refuse(pod); err != nil {
			return err
		}
	}
	return c.Delete(ctx, pod)
}

// want changes what core asks for, as core does before it calls.
func (w *env) want(how func(*clusterv1.Machine, *infrav1.MCMMachine, *bootstrapv1.MCMConfig)) {
	w.Helper()
	all := []client.Object{w.machine, w.infra, w.config}
	for _, o := range all {
		w.Reload(o)
	}
	how(w.machine, w.infra, w.config)
	for _, o := range all {
		w.Must(w.Raw.Update(w.Context(), o))
	}
}

// call is one call of the hook. It only names the Machine: what else a request
// says is not believed.
func (w *env) call() *runtimehooksv1.UpdateMachineResponse {
	w.Helper()
	req, resp := &runtimehooksv1.UpdateMachineRequest{}, &runtimehooksv1.UpdateMachineResponse{}
	req.Desired.Machine.Namespace, req.Desired.Machine.Name = w.machine.Namespace, w.machine.Name
	w.e.UpdateMachine(w.Context(), req, resp)
	return resp
}

func (w *env) node() *corev1.Node {
	w.Helper()
	return harness.Get[corev1.Node](w.workload, client.ObjectKey{Name: "n"})
}

// edit changes the Node, as agent, kubelet, controller or person.
func (w *env) edit(how func(*corev1.Node)) {
	w.Helper()
	harness.Edit(w.workload, w.node(), how)
}

func (w *env) pod(name string, how func(*corev1.Pod)) {
	w.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
	if how != nil {
		how(p)
	}
	w.workload.Create(p)
}

func (w *env) pods() int {
	w.Helper()
	var list corev1.PodList
	w.workload.List(&list)
	return len(list.Items)
}

// live is the MCMMachine as it is.
func (w *env) live() *infrav1.MCMMachine {
	w.Helper()
	return harness.Get[infrav1.MCMMachine](w.Cluster, client.ObjectKeyFromObject(w.infra))
}
