package inplaceupdate

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/workloadtest"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme,
		bootstrapv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// env is a Machine m with its MCMMachine, Node n and workload cluster, as they
// are when core first asks for an update.
type env struct {
	t        *testing.T
	e        *Extension
	clock    *clocktesting.FakeClock
	clusters *workloadtest.Clusters
	m        client.Client // management cluster
	w        client.Client // workload cluster
	events   *record.FakeRecorder
	refuse   func(*corev1.Pod) error // answers an eviction; nil: the pod goes at once

	machine *clusterv1.Machine
	infra   *infrav1.MCMMachine
	config  *bootstrapv1.MCMConfig
}

func newEnv(t *testing.T, more ...client.Object) *env {
	t.Helper()
	w := &env{t: t, clock: clocktesting.NewFakeClock(start), events: record.NewFakeRecorder(10)}
	at := metav1.ObjectMeta{Namespace: "ns", Name: "m"}
	w.machine = &clusterv1.Machine{ObjectMeta: at, Spec: clusterv1.MachineSpec{
		ClusterName: "c", ProviderID: "sim:///1", Version: "v1.1.0",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group,
			Kind:     "MCMMachine", Name: "m",
		},
		Bootstrap: clusterv1.Bootstrap{DataSecretName: new("m"), ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion.Group, Kind: "MCMConfig", Name: "m",
		}},
	}, Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: "n"}}}
	w.machine.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	w.infra = &infrav1.MCMMachine{ObjectMeta: *at.DeepCopy(), Spec: infrav1.MCMMachineSpec{
		ProviderID:      "sim:///1",
		MachineClassRef: infrav1.MachineClassReference{Name: "c1"},
	}}
	w.infra.Annotations = map[string]string{infrav1.MadeFromAnnotation: "c1"}
	w.config = &bootstrapv1.MCMConfig{
		ObjectMeta: at,
		Spec:       bootstrapv1.MCMConfigSpec{UserDataSecretRef: &bootstrapv1.NameReference{Name: "d1"}},
	}
	data := &corev1.Secret{ObjectMeta: *at.DeepCopy()}
	data.Annotations = map[string]string{bootstrapv1.MadeFromAnnotation: `{"userDataSecretRef":{"name":"d1"}}`}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	w.m = fake.NewClientBuilder().WithScheme(scheme(t)).WithStatusSubresource(&infrav1.MCMMachine{}, &clusterv1.Machine{}).
		WithObjects(append(more, w.machine, w.infra, w.config, data, cluster)...).Build()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "sim:///1"}}
	node.Status.NodeInfo.KubeletVersion = "v1.1.0"
	w.w = fake.NewClientBuilder().WithScheme(scheme(t)).WithStatusSubresource(&corev1.Node{}).WithObjects(node).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: w.evict}).Build()
	w.clusters = workloadtest.New(client.ObjectKeyFromObject(cluster), w.w)
	w.e = New(Deps{
		Client: w.m, Live: w.m, Clusters: w.clusters, Clock: w.clock, Events: w.events,
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
	w.t.Helper()
	for _, o := range []client.Object{w.machine, w.infra, w.config} {
		if err := w.m.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			w.t.Fatal(err)
		}
	}
	how(w.machine, w.infra, w.config)
	for _, o := range []client.Object{w.machine, w.infra, w.config} {
		if err := w.m.Update(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// call is one call of the hook. It only names the Machine: what else a request
// says is not believed.
func (w *env) call() *runtimehooksv1.UpdateMachineResponse {
	w.t.Helper()
	req, resp := &runtimehooksv1.UpdateMachineRequest{}, &runtimehooksv1.UpdateMachineResponse{}
	req.Desired.Machine.Namespace, req.Desired.Machine.Name = w.machine.Namespace, w.machine.Name
	w.e.UpdateMachine(w.t.Context(), req, resp)
	return resp
}

func (w *env) node() *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.w.Get(w.t.Context(), client.ObjectKey{Name: "n"}, n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// edit changes the Node, as agent, kubelet, controller or person.
func (w *env) edit(how func(*corev1.Node)) {
	w.t.Helper()
	n := w.node()
	how(n)
	status := n.Status.DeepCopy()
	if err := w.w.Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
	n.Status = *status
	if err := w.w.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) pod(name string, how func(*corev1.Pod)) {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
	if how != nil {
		how(p)
	}
	if err := w.w.Create(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) pods() int {
	w.t.Helper()
	var list corev1.PodList
	if err := w.w.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	return len(list.Items)
}

// live is the MCMMachine as it is.
func (w *env) live() *infrav1.MCMMachine {
	w.t.Helper()
	o := &infrav1.MCMMachine{}
	if err := w.m.Get(w.t.Context(), client.ObjectKeyFromObject(w.infra), o); err != nil {
		w.t.Fatal(err)
	}
	return o
}
