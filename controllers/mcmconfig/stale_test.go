package mcmconfig_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmconfig"
)

// TestStatusIsNotComparedWithAnOldOne: a pause of the Cluster that has ended must not be
// taken for never said, while the cache shows the object from before it was said.
func TestStatusIsNotComparedWithAnOldOne(t *testing.T) {
	t.Parallel()
	w := newEnv(t, objects(config())...)
	w.reconcile()
	old := w.config()
	stale := false
	w.deps.Client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			if config, ok := o.(*bootstrapv1.MCMConfig); ok && stale {
				old.DeepCopyInto(config)
				return nil
			}
			return c.Get(ctx, at, o, opts...)
		},
	})
	controller := mcmconfig.New(w.deps)
	pass := func() reconcile.Result {
		result, err := controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	pause := func(on bool) {
		c := cluster()
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		c.Spec.Paused = new(on)
		if err := w.client.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	pass()
	pause(false)
	stale = true
	if wait := pass().RequeueAfter; wait <= 0 || wait > time.Minute {
		t.Error("nothing wakes it when the cache shows its own status")
	}
	stale = false
	pass()
	if meta.IsStatusConditionTrue(w.config().Status.Conditions, clusterv1.PausedCondition) {
		t.Error("it still says that it is paused")
	}
}
