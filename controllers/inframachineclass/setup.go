package inframachineclass

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// SetupWithManager starts both reconcilers with mgr.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	options := controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}
	err := ctrl.NewControllerManagedBy(mgr).Named("mcmclass").WithOptions(options).
		For(&machinev1.MachineClass{}, builder.WithPredicates(metadataChanged())).
		Watches(&infrav1.MCMMachine{}, watch.Named(func(m *infrav1.MCMMachine) []client.ObjectKey {
			return keys(m.Namespace, index.ClassesOf(m)...)
		})).
		Watches(&infrav1.MCMMachineTemplate{}, watch.Named(func(t *infrav1.MCMMachineTemplate) []client.ObjectKey {
			return keys(t.Namespace, index.TemplateClasses(t)...)
		})).
		Complete(fresh.Recheck(c))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("mcmsecret").WithOptions(options).
		For(&corev1.Secret{}, builder.OnlyMetadata, builder.WithPredicates(metadataChanged())).
		Watches(&machinev1.MachineClass{}, secretsOf()).
		Complete(fresh.Recheck(NewSecrets(c.Deps)))
}

// metadataChanged passes updates of the metadata that the reconcilers write, and
// deletions.
func metadataChanged() predicate.Predicate {
	return watch.Updates(func(was, is client.Object) bool {
		_, marked := was.GetLabels()[capi.MoveLabel]
		_, still := is.GetLabels()[capi.MoveLabel]
		return !slices.Equal(was.GetFinalizers(), is.GetFinalizers()) || marked != still ||
			was.GetAnnotations()[capi.BlockMoveAnnotation] != is.GetAnnotations()[capi.BlockMoveAnnotation] ||
			!was.GetDeletionTimestamp().Equal(is.GetDeletionTimestamp())
	})
}

// keys returns the keys of objects of a namespace; a name may be empty.
func keys(namespace string, names ...string) (found []client.ObjectKey) {
	for _, name := range names {
		if name != "" {
			found = append(found, client.ObjectKey{Namespace: namespace, Name: name})
		}
	}
	return found
}

// secretsOf enqueues the Secrets that a class names and named, where that or the
// metadata of the class changes.
func secretsOf() handler.EventHandler {
	events, changed := watch.Named(class.SecretKeys), metadataChanged()
	namedOther := events.UpdateFunc
	events.UpdateFunc = func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
		namedOther(ctx, e, q)
		if changed.Update(e) {
			events.CreateFunc(ctx, event.CreateEvent{Object: e.ObjectNew}, q)
		}
	}
	return events
}
