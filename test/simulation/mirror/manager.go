package mirror

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Manager is a manager that starts nothing: it keeps the controllers that are
// added to it, for whoever plays to run.
type Manager struct {
	ctrl.Manager // nil: what is not modelled panics

	Client      *Client
	Controllers []*Controller
}

// Controller is what was added.
type Controller struct {
	Name    string
	Do      reconcile.Reconciler
	Limiter workqueue.TypedRateLimiter[reconcile.Request]
	Workers int

	inner   reflect.Value // the controller of controller-runtime
	started int           // sources that have been started
}

// GetScheme is that of the kinds.
func (m *Manager) GetScheme() *runtime.Scheme { return m.Client.Schema }

// GetCache is what the controllers watch.
func (m *Manager) GetCache() cache.Cache { return m.Client.Mirror }

// GetClient reads from the cache.
func (m *Manager) GetClient() client.Client { return m.Client }

// GetFieldIndexer adds indexes to the cache.
func (m *Manager) GetFieldIndexer() client.FieldIndexer { return m.Client.Mirror }

// GetLogger says nothing.
func (m *Manager) GetLogger() logr.Logger { return logr.Discard() }

// GetConfig leads nowhere: no client here dials.
func (m *Manager) GetConfig() *rest.Config { return &rest.Config{Host: "https://nowhere.invalid"} }

// GetRESTMapper knows the kinds that the server serves.
func (m *Manager) GetRESTMapper() apimeta.RESTMapper {
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for _, k := range m.Client.Server.Kinds() {
		scope := apimeta.RESTScope(apimeta.RESTScopeRoot)
		if k.Namespaced {
			scope = apimeta.RESTScopeNamespace
		}
		mapper.Add(k.GVK, scope)
	}
	return mapper
}

// GetControllerOptions are the defaults.
func (m *Manager) GetControllerOptions() config.Controller { return config.Controller{} }

// Add keeps a controller.
func (m *Manager) Add(r manager.Runnable) error {
	c := &Controller{inner: reflect.ValueOf(r).Elem()}
	for name, into := range map[string]any{
		"Name": &c.Name, "Do": &c.Do, "RateLimiter": &c.Limiter, "MaxConcurrentReconciles": &c.Workers,
	} {
		if err := c.take(name, into); err != nil {
			return err
		}
	}
	m.Controllers = append(m.Controllers, c)
	return nil
}

// take reads a field of what controller-runtime would start. Its type is
// internal, and one of the fields is not exported.
func (c *Controller) take(name string, into any) error {
	field, to := c.inner.FieldByName(name), reflect.ValueOf(into).Elem()
	if !field.IsValid() || !field.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("%s has no field %s of type %s: adapt the simulation to this version of controller-runtime",
			c.inner.Type(), name, to.Type())
	}
	to.Set(reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem())
	return nil
}

// Start starts the sources of the controller that have not been started yet, one
// after the other: from then on their handlers add to the queue. A controller
// that has got another one since wants to be started again.
func (c *Controller) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	var sources []source.Source
	if err := c.take("startWatches", &sources); err != nil {
		return err
	}
	for ; c.started < len(sources); c.started++ {
		s := sources[c.started]
		if err := s.Start(ctx, q); err != nil {
			return fmt.Errorf("start %v: %w", s, err)
		}
		if s, waits := s.(source.SyncingSource); waits {
			if err := s.WaitForSync(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
