package steps

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// scheme knows all kinds. No test changes it.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, clusterv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
})

// get reads all objects of a kind. It takes them out of the store, which is what
// most of the time here went into: the client encodes and decodes whatever it lists.
func get[L client.ObjectList](w *env, list L) L {
	w.t.Helper()
	kind, err := apiutil.GVKForObject(list, w.api.Scheme())
	if err != nil {
		w.t.Fatal(err)
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	stored, err := w.tracker.List(resource, kind, "")
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := meta.ExtractList(stored)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range all { // as the client returns them
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if err := meta.SetList(list, all); err != nil {
		w.t.Fatal(err)
	}
	return list
}
