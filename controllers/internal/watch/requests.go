package watch

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests lists objects into list, which is empty, and returns one request for
// each, by namespace and name.
func Requests(ctx context.Context, cached client.Reader, list client.ObjectList,
	which ...client.ListOption,
) []reconcile.Request {
	List(ctx, cached, list, which...)
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // no error: every item is an object
		if o, ok := item.(client.Object); ok {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
		return nil
	})
	slices.SortFunc(requests, func(a, b reconcile.Request) int { return strings.Compare(a.String(), b.String()) })
	return requests
}

// List lists objects into list, which is empty. cached reads from a cache, which
// does not fail once it is in sync; an error is logged and leaves list empty.
func List(ctx context.Context, cached client.Reader, list client.ObjectList, which ...client.ListOption) {
	if err := cached.List(ctx, list, which...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the objects that an event concerns")
	}
}

// Named enqueues the objects that an object names when it is created or deleted, and
// all that it named and names when that changes.
func Named[T client.Object](names func(T) []client.ObjectKey) handler.Funcs {
	add := func(q Queue, o client.Object) {
		for _, key := range names(o.(T)) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q Queue) { add(q, e.Object) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q Queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q Queue) {
			if !slices.Equal(names(e.ObjectOld.(T)), names(e.ObjectNew.(T))) {
				add(q, e.ObjectOld)
				add(q, e.ObjectNew)
			}
		},
	}
}

// Queue is what event handlers add requests to.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
