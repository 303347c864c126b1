package watch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests lists objects into list, which is empty, and returns one request for
// each.
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
	return requests
}

// List lists objects into list, which is empty. cached reads from a cache, which
// does not fail once it is in sync; an error is logged and leaves list empty.
func List(ctx context.Context, cached client.Reader, list client.ObjectList, which ...client.ListOption) {
	if err := cached.List(ctx, list, which...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the objects that an event concerns")
	}
}
