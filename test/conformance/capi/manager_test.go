package capi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// recorder is a manager that starts nothing: it keeps the indexes and the
// reconcilers that are added to it, so that a test calls the very reconcilers
// that the product wires.
type recorder struct {
	ctrl.Manager // nil: what is not modelled panics

	scheme      *runtime.Scheme
	client      client.Client
	indexes     []index
	reconcilers []reconcile.Reconciler
}

type index struct {
	object  client.Object
	field   string
	extract client.IndexerFunc
}

func (m *recorder) GetScheme() *runtime.Scheme              { return m.scheme }
func (m *recorder) GetClient() client.Client                { return m.client }
func (m *recorder) GetCache() cache.Cache                   { return nil }
func (m *recorder) GetFieldIndexer() client.FieldIndexer    { return m }
func (m *recorder) GetLogger() logr.Logger                  { return logr.Discard() }
func (m *recorder) GetControllerOptions() config.Controller { return config.Controller{} }
func (m *recorder) GetRESTMapper() meta.RESTMapper {
	return testrestmapper.TestOnlyStaticRESTMapper(m.scheme)
}

// GetConfig is how the management cluster is reached.
func (m *recorder) GetConfig() *rest.Config {
	return &rest.Config{
		Host:            "https://management.example:6443",
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("a CA")},
	}
}

func (m *recorder) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	m.indexes = append(m.indexes, index{o, field, extract})
	return nil
}

func (m *recorder) Add(r manager.Runnable) error {
	does, ok := r.(reconcile.Reconciler)
	if !ok {
		return fmt.Errorf("%T reconciles nothing", r)
	}
	m.reconcilers = append(m.reconcilers, does)
	return nil
}

// clusters are the connections to the one workload cluster.
type clusters struct {
	clustercache.ClusterCache // nil: what is not modelled panics

	env *env
}

func (c clusters) GetClient(context.Context, client.ObjectKey) (client.Client, error) {
	if !c.env.connected {
		return nil, clustercache.ErrClusterNotConnected
	}
	return c.env.workload, nil
}

func (c clusters) GetUncachedClient(ctx context.Context, key client.ObjectKey) (client.Client, error) {
	return c.GetClient(ctx, key)
}

func (c clusters) GetReader(ctx context.Context, key client.ObjectKey) (client.Reader, error) {
	return c.GetClient(ctx, key)
}

func (c clusters) GetRESTConfig(context.Context, client.ObjectKey) (*rest.Config, error) {
	if !c.env.connected {
		return nil, clustercache.ErrClusterNotConnected
	}
	return c.env.server.Config(), nil
}

func (c clusters) Watch(context.Context, client.ObjectKey, clustercache.Watcher) error { return nil }

func (c clusters) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	if !c.env.connected {
		return clustercache.HealthCheckingState{}
	}
	return clustercache.HealthCheckingState{LastProbeTime: c.env.clock.Now(), LastProbeSuccessTime: c.env.clock.Now()}
}

func (c clusters) GetClusterSource(_ string, to func(context.Context, client.Object) []ctrl.Request,
	_ ...clustercache.GetClusterSourceOption,
) source.Source {
	return source.Channel(make(chan event.GenericEvent), handler.EnqueueRequestsFromMapFunc(to))
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s), machinev1.AddToScheme(s),
		infrav1.AddToScheme(s), bootstrapv1.AddToScheme(s), controlplanev1.AddToScheme(s))
}

// lookPeriod is how often a VM that is fine is looked at.
const lookPeriod = 10 * time.Minute
