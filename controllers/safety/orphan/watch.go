package orphan

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager starts the collector with mgr. It scans at once, since every class
// is new to it. The manager's cache needs Indexes for NewMachines,
// and index.Infrastructure for NewMCMMachines.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(c.Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		Watches(&machinev1.MachineClass{}, c.classEvents())
	for _, api := range c.APIs {
		b = b.Watches(api.Kind(), c.machineEvents())
	}
	return b.Complete(c)
}

// classEvents enqueues a class that was created, deleted or changed, or that requests
// a scan.
func (c *Controller) classEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			c.request(q, client.ObjectKeyFromObject(e.Object), 0)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			c.request(q, client.ObjectKeyFromObject(e.Object), 0)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			class, before, after := client.ObjectKeyFromObject(
				e.ObjectNew), e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			_, reported := before[reportAnnotation]
			_, reports := after[reportAnnotation]
			switch {
			case before[scanAnnotation] != after[scanAnnotation], decidesOtherwise(before, after):
				c.memory.requestScan(class, c.Clock.Now())
				c.request(q, class, 0)
			case e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || reported != reports:
				c.request(q, class, 0)
			}
		},
	}
}

// decidesOtherwise reports whether a person has decided about held orphans.
func decidesOtherwise(before, after map[string]string) bool {
	return before[machinev1.ApprovedOrphansAnnotation] != after[machinev1.ApprovedOrphansAnnotation] ||
		before[machinev1.KeptOrphansAnnotation] != after[machinev1.KeptOrphansAnnotation]
}

// machineEvents requests a scan some time after a Machine was deleted: one for all that
// are deleted in that time.
func (c *Controller) machineEvents() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
		for _, name := range classesOf(e.Object) {
			class := client.ObjectKey{Namespace: e.Object.GetNamespace(), Name: name}
			c.memory.requestScan(class, c.Clock.Now().Add(c.Options.afterDelete))
			c.request(q, class, c.Options.afterDelete)
		}
	}}
}

// classesOf returns the names of the classes that the VM of an owner may have.
func classesOf(o client.Object) []string {
	switch m := o.(type) {
	case *machinev1.Machine:
		if m.Spec.Class.Name != "" {
			return []string{m.Spec.Class.Name}
		}
	case *infrav1.MCMMachine:
		return index.ClassesOf(m)
	}
	return nil
}

func (c *Controller) request(q queue, class types.NamespacedName, after time.Duration) {
	q.AddAfter(reconcile.Request{NamespacedName: class}, after)
}
