// Package class keeps the MachineClasses that machines use, and the Secrets that
// these classes name, from being removed, and reports what is wrong with a class.
//
// Each API has a Controller for MachineClasses and a Secrets for the Secrets that
// they name, with finalizers of its own, so that what one API does not need any more
// is left to the other. Those of Cluster API also have clusterctl move class and
// Secrets together with their Cluster. Machines notice a changed class by themselves.
package class

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// Deps are what the reconcilers need; every field is required unless said otherwise.
type Deps struct {
	// Client reads from a cache with index.ClassBySecret and the indexes of the API's machines.
	Client client.Client
	Live   client.Reader // reads from the API server; only before a class loses its finalizer
	Events record.EventRecorder
	// Classes finds what is wrong with a class, for the native API; the kinds of Cluster API
	// report that in their own conditions.
	Classes *class.Resolver
}

// api is what the two APIs do differently.
type api struct {
	// classController and secretController are the names of the controllers.
	classController, secretController string
	classFinalizer, secretFinalizer   string
	// kind is that of the machines, and users finds those that use a class.
	kind  string
	users func(context.Context, *machinev1.MachineClass) (users, error)
	// secretUser is the name of a class that names a Secret, if the Secret has to stay
	// because of it; else empty.
	secretUser func(*machinev1.MachineClass, *corev1.Secret) string
	// secretWaits is the message about a Secret that has to stay; %s is the class.
	secretWaits string
	// moves is true if clusterctl moves classes and Secrets of this API.
	moves bool
	// repeats is true if what a deletion waits for is an Event with each pass; else it is
	// one for each version of the object.
	repeats bool
	// watch has b enqueue the classes that an event of another kind concerns.
	watch func(c *Controller, b *builder.Builder)
}

// Controller keeps the finalizer of an API on a MachineClass for as long as one of the
// API's machines uses it.
type Controller struct {
	Deps
	api
	reporter *reporter
}

// Secrets keeps the finalizer of an API on a Secret for as long as a MachineClass names
// it, of Cluster API one that is in use.
type Secrets struct {
	Deps
	api
	reporter *reporter
}

// New returns the Controller of the native API. It has not reported anything yet.
func New(d Deps) *Controller { return newController(d, native(d)) }

// NewForClusterAPI returns the Controller of Cluster API.
func NewForClusterAPI(d Deps) *Controller { return newController(d, clusterAPI(d)) }

func newController(d Deps, of api) *Controller { return &Controller{d, of, newReporter(d.Events, of)} }

// Secrets returns the reconciler of Secrets beside c.
func (c *Controller) Secrets() *Secrets { return &Secrets{c.Deps, c.api, newReporter(c.Events, c.api)} }

// SetupWithManager starts both reconcilers with mgr.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, workers int) error {
	options := controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}
	classes := ctrl.NewControllerManagedBy(mgr).Named(c.classController).WithOptions(options).
		For(&machinev1.MachineClass{}, builder.WithPredicates(watch.ExceptStatus()))
	c.watch(c, classes)
	if err := classes.Complete(fresh.Recheck(c)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named(c.secretController).WithOptions(options).
		For(&corev1.Secret{}, builder.OnlyMetadata, builder.WithPredicates(watch.ExceptStatus())).
		Watches(&machinev1.MachineClass{}, secretsOf()).
		Complete(fresh.Recheck(c.Secrets()))
}

// secretsOf enqueues the Secrets that a class names and named, when it changes.
func secretsOf() handler.EventHandler {
	events, changed := watch.Named(class.SecretKeys), watch.ExceptStatus()
	namedOther := events.UpdateFunc
	events.UpdateFunc = func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
		namedOther(ctx, e, q)
		if changed.Update(e) {
			events.CreateFunc(ctx, event.CreateEvent{Object: e.ObjectNew}, q)
		}
	}
	return events
}

// Reconcile adds or removes the finalizer of a class and what clusterctl reads, and
// reports what its deletion waits for or, once for each version, what is wrong with it.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &machinev1.MachineClass{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return c.reporter.unread(req, err)
	}
	if c.moves && capi.Moving(object) {
		return reconcile.Result{}, nil
	}
	found, err := c.users(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	changed := object.DeepCopy()
	setFinalizer(changed, c.classFinalizer, found.count > 0)
	if c.moves {
		if err := c.markForMove(ctx, changed, found.count > 0); err != nil {
			return outcome.Of(0, err)
		}
	}
	return outcome.Of(0, errors.Join(write(ctx, c.Client, object, changed), c.report(ctx, object, found)))
}

// report reports what is wrong with a class, or what its deletion waits for.
func (c *Controller) report(ctx context.Context, object *machinev1.MachineClass, found users) error {
	if !object.DeletionTimestamp.IsZero() {
		if found.count > 0 {
			c.reporter.deletionWaits(object, c.kind, found)
		}
		return nil
	}
	if c.Classes == nil {
		return nil
	}
	resolved, err := c.Classes.ResolveObject(ctx, c.Client, object)
	if err != nil {
		return err
	}
	c.reporter.problems(object, resolved)
	return nil
}

// Reconcile adds or removes the finalizer and the move label of a Secret. It does not
// touch a Secret that no class needs or has needed.
func (s *Secrets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object, err := watch.SecretMetadata(ctx, s.Client, req.NamespacedName)
	if err != nil {
		return s.reporter.unread(req, err)
	}
	if s.moves && capi.Moving(object) {
		return reconcile.Result{}, nil
	}
	var list machinev1.MachineClassList
	if err := s.Client.List(ctx, &list, client.MatchingFields{index.ClassBySecret: req.String()}); err != nil {
		return outcome.Of(0, fmt.Errorf("look up MachineClasses of Secret %s: %w", req, err))
	}
	user, changed := "", object.DeepCopy()
	for i := range list.Items {
		one := &list.Items[i]
		if name := s.secretUser(one, object); name != "" && (user == "" || name < user) {
			user = name // the first one by name
		}
		if _, marked := one.Labels[capi.MoveLabel]; s.moves && marked && one.Namespace == object.Namespace {
			setMoveLabel(changed)
		}
	}
	setFinalizer(changed, s.secretFinalizer, user != "")
	if user != "" && !object.DeletionTimestamp.IsZero() {
		s.reporter.once(object, "deletion", warning{eventDeletionWaits, fmt.Sprintf(s.secretWaits, user)})
	}
	return outcome.Of(0, write(ctx, s.Client, object, changed))
}

// setFinalizer adds the finalizer to o or removes it, in memory.
func setFinalizer(o client.Object, finalizer string, used bool) {
	switch {
	case used && o.GetDeletionTimestamp().IsZero():
		controllerutil.AddFinalizer(o, finalizer)
	case !used:
		controllerutil.RemoveFinalizer(o, finalizer)
	}
}

// write writes what differs in metadata. An object that is gone needs nothing.
func write(ctx context.Context, w client.Writer, object, changed client.Object) error {
	wrote, err := patch.Metadata(ctx, w, object, changed)
	if wrote {
		fresh.NoteWrite(ctx, err)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write metadata: %w", err)
	}
	return nil
}
