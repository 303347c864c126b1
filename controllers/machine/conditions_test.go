package machine

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestAFreezeThatIsOverIsNotToldAnyMore(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.cloud.SetCapacity("sim-1a", "small", 0)
	w.create(newMachine("m", w.clock.Now()))
	frozen := true
	w.controller.Frozen = func() bool { return frozen }
	w.controller.FreezeCause = func() string { return "Nodes cannot be listed: token expired" }
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionNodeReady); !strings.Contains(said, "token expired; restore") {
		t.Fatalf("condition %q: a freeze has to be told, with its cause", said)
	}
	frozen = false
	w.pass(time.Second)
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionNodeReady); said != "" {
		t.Errorf("condition %q of a machine that has no node and is not frozen", said)
	}
}

func TestARefusalOfTheAPIServerIsSaid(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, o.GetName(), nil)
			}
			return c.Create(ctx, o, opts...)
		},
	})
	w.create(newMachine("m", w.clock.Now()))
	if _, err := w.reconcile("m"); err == nil {
		t.Error("a refused request is an error of the controller, which repeats it")
	}
	if said := w.condition("m", machinev1.ConditionVMReady); !strings.Contains(said, "bootstrap token") ||
		!strings.Contains(said, "forbidden") {
		t.Errorf("condition %q has to say which request is refused", said)
	}
}

func TestANodeThatDoesNotGetReadyIsNamedAfterAWhile(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.create(newMachine("m", w.clock.Now()))
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachinePending })
	w.join("m", corev1.ConditionFalse)
	result, err := w.reconcile("m")
	if err != nil || result.RequeueAfter > nodeGrace {
		t.Fatalf("next look after %s, %v: kubelets send no event while they do not get ready", result.RequeueAfter, err)
	}
	w.pass(result.RequeueAfter)
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionNodeReady); !strings.HasPrefix(said, machinev1.ReasonNodeUnhealthy) {
		t.Errorf("condition %q, want the node to be named", said)
	}
}

func TestANodeRunsThoughItsTokenMayNotBeRemoved(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, o.GetName(), nil)
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	w.running("m")
}
