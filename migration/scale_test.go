package migration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// served is an API server that has the objects of pools.
func served(t testing.TB, scenes ...*Scene) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme,
		bootstrapv1.AddToScheme, controlplanev1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(
		scheme).WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "cloud"}})
	for _, s := range scenes {
		if s.Native.Deployment != nil {
			b = b.WithObjects(s.Native.Deployment.DeepCopy())
		}
		for _, o := range pointers(s.Native.Sets) {
			b = b.WithObjects(o.DeepCopyObject().(client.Object))
		}
		for _, o := range pointers(s.Native.Machines) {
			b = b.WithObjects(o.DeepCopyObject().(client.Object))
		}
		for _, name := range keysOf(s.Native.Classes) {
			b = b.WithObjects(s.Native.Classes[name].DeepCopy())
		}
		for _, name := range keysOf(s.Nodes) {
			b = b.WithObjects(s.Nodes[name].DeepCopy())
		}
	}
	return b
}

// TestReadingAFleetTakesAFewCalls however many machines and pools there are.
func TestReadingAFleetTakesAFewCalls(t *testing.T) {
	t.Parallel()
	calls := map[int]int{}
	for _, pools := range []int{1, 8} {
		var scenes []*Scene
		for i := range pools {
			scenes = append(scenes, nativePool("pool-"+string(rune('a'+i)), 30))
		}
		c := served(t, scenes...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				opts ...client.GetOption,
			) error {
				calls[pools]++
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				calls[pools]++
				return c.List(ctx, list, opts...)
			},
		}).Build()
		fleet, err := ReadFleet(t.Context(), c, c, testNamespace, "shoot")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range fleet.Plans(toCluster()) {
			if len(p.Blocked()) > 0 || len(p.Machines) != 30 {
				t.Errorf("%s: %d machines, blocked by %v", p.Pool, len(p.Machines), p.Blocked())
			}
		}
	}
	if calls[1] != calls[8] || calls[8] > 24 {
		t.Errorf("calls for one pool and for eight: %v, want the same few", calls)
	}
}

func BenchmarkPlanOfThousandMachines(b *testing.B) {
	c := served(b, nativePool("pool", 1000)).Build()
	for b.Loop() {
		fleet, err := ReadFleet(b.Context(), c, c, testNamespace, "shoot")
		if err != nil {
			b.Fatal(err)
		}
		if plans := fleet.Plans(toCluster()); len(plans[0].Machines) != 1000 || len(plans[0].Blocked()) > 0 {
			b.Fatalf("%d machines, blocked by %v", len(plans[0].Machines), plans[0].Blocked())
		}
	}
}
