package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

func TestDropFinalizerIsAboutOneObjectNotItsName(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	now := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "registered again",
		Finalizers: []string{machinev1.NodeFinalizer},
	}}
	w.create(now)
	before := now.DeepCopy()
	before.UID = "first"
	if err := patch.RemoveFinalizer(t.Context(), w.client, before, machinev1.NodeFinalizer); err == nil {
		t.Error("the cache showed another object, which has to be told")
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil || len(now.Finalizers) != 1 {
		t.Errorf("finalizers %v, %v: those of the new object are not ours to take", now.Finalizers, err)
	}
	if err := patch.RemoveFinalizer(t.Context(), w.client, now, machinev1.NodeFinalizer); err != nil {
		t.Error(err)
	}
}
