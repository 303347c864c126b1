package class

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// native protects what Machines use, under the names and with the finalizers of MCM.
// Before a class that is being deleted loses its finalizer, the API server confirms that
// there are no Machines. A class that stays loses it on the word of the cache: the event
// of that update, or of the Machine, puts it back.
func native(d Deps) api {
	return api{ //nolint:gosec // kinds and finalizers of Secrets, no secret
		classController: "machineclass", secretController: "secret",
		classFinalizer: machinev1.Finalizer, secretFinalizer: machinev1.SecretFinalizer,
		kind: machinev1.MachineKind,
		users: finder[machinev1.MachineList, *machinev1.MachineList]{
			cached: d.Client, live: d.Live, index: index.MachineByClass,
			uses: func(o client.Object, class string) bool {
				m := o.(*machinev1.Machine)
				return m.Spec.Class.Kind == machinev1.MachineClassKind && slices.Contains(index.MachineClasses(m), class)
			},
			confirm: func(class *machinev1.MachineClass) bool { return !class.DeletionTimestamp.IsZero() },
		}.find,
		secretUser: func(class *machinev1.MachineClass, _ *corev1.Secret) string {
			return client.ObjectKeyFromObject(class).String()
		},
		secretWaits: "Deletion waits for MachineClass %s, which names this Secret; delete that first",
		watch: func(c *Controller, b *builder.Builder) {
			b.Watches(&machinev1.Machine{}, c.machineEvents()).
				WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.classesOf),
					builder.WithPredicates(watch.Versions()))
		},
	}
}

// machineEvents enqueues the class of a Machine that is created or deleted, and
// both classes where a Machine changes its class. A class that has its finalizer
// keeps it when another Machine is created. Should the cache be behind, the event
// of the lost finalizer enqueues the class.
func (c *Controller) machineEvents() handler.EventHandler {
	events := watch.Named(func(m *machinev1.Machine) []client.ObjectKey {
		return keys(m.Namespace, index.MachineClasses(m))
	})
	enqueue := events.CreateFunc
	events.CreateFunc = func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
		if !c.isProtected(ctx, e.Object.(*machinev1.Machine)) {
			enqueue(ctx, e, q)
		}
	}
	return events
}

// isProtected reports whether the class of a Machine has its finalizer and is not
// being deleted.
func (c *Controller) isProtected(ctx context.Context, m *machinev1.Machine) bool {
	object := &machinev1.MachineClass{}
	key := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Class.Name}
	err := c.Client.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
	return err == nil && object.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(object, machinev1.Finalizer)
}

// classesOf returns the classes that name a Secret.
func (c *Controller) classesOf(ctx context.Context, secret client.Object) []reconcile.Request {
	return watch.Requests(ctx, c.Client, &machinev1.MachineClassList{},
		client.MatchingFields{index.ClassBySecret: client.ObjectKeyFromObject(secret).String()})
}
