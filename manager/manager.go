package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/logging"
)

// newScheme returns the scheme of all kinds that are read or written.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme,
		clusterv1.AddToScheme, ipamv1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newManager returns a manager of the control cluster that serves nothing by
// itself and works only while it holds lock; nil means always.
func (o *Options) newManager(c configs, scheme *runtime.Scheme, lock *leaseLock) (ctrl.Manager, error) {
	e := o.election
	opts := ctrl.Options{
		Scheme: scheme, Cache: o.controlCache(c.same), NewClient: newSecretClient(o.clusters.namespace),
		Metrics:       metricsserver.Options{BindAddress: "0"},
		LeaseDuration: &e.leaseDuration, RenewDeadline: &e.renewDeadline, RetryPeriod: &e.retryPeriod,
		LeaderElectionReleaseOnCancel: true, GracefulShutdownTimeout: &o.gracefulShutdown,
		// A standby fills its caches and queues too, so that it can take over at once.
		Controller: config.Controller{SkipNameValidation: new(true), EnableWarmup: new(true)},
	}
	if o.tracer != nil {
		opts.Logger = o.tracer.Logger(klog.Background())
	}
	if lock != nil {
		opts.LeaderElection, opts.LeaderElectionResourceLockInterface = true, lock
	}
	mgr, err := ctrl.NewManager(c.control, opts)
	if err != nil {
		return nil, fmt.Errorf("make manager of the control cluster: %w", err)
	}
	return mgr, nil
}

// controlCache says what of the control cluster is kept in memory: what is in
// the namespace, of Secrets only metadata, and where the target cluster is the same, what
// is cached of it.
func (o *Options) controlCache(isTarget bool) cache.Options {
	opts := cache.Options{SyncPeriod: &o.clusters.resync, DefaultTransform: stripObject}
	if o.clusters.namespace != "" {
		opts.DefaultNamespaces = map[string]cache.Config{o.clusters.namespace: {}}
	}
	opts.ByObject = map[client.Object]cache.ByObject{}
	if isTarget {
		opts.ByObject = targetObjects()
	}
	opts.ByObject[&corev1.Secret{}] = cache.ByObject{Transform: stripSecret}
	return opts
}

// targetObjects are the kinds of the target cluster, all of them in all namespaces.
func targetObjects() map[client.Object]cache.ByObject {
	all := map[string]cache.Config{cache.AllNamespaces: {}}
	return map[client.Object]cache.ByObject{
		&corev1.Node{}:                  {Transform: stripNode},
		&corev1.Pod{}:                   {Transform: stripPod, Namespaces: all},
		&corev1.PersistentVolumeClaim{}: {Namespaces: all},
		&policyv1.PodDisruptionBudget{}: {Namespaces: all},
	}
}

// newTarget returns the target cluster of the native API, which starts and stops
// with mgr; nil if there is none, or that API is not served.
func (o *Options) newTarget(mgr ctrl.Manager, c configs, native bool) (*controllers.Target, error) {
	if c.target == nil || !native {
		return nil, nil //nolint:nilnil // no target cluster is a setting
	}
	if c.same {
		return targetOf(mgr, c.control)
	}
	cl, err := cluster.New(c.target, func(opts *cluster.Options) {
		opts.Scheme = mgr.GetScheme()
		opts.Cache = cache.Options{SyncPeriod: &o.clusters.resync, DefaultTransform: stripObject, ByObject: targetObjects()}
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the target cluster: %w", err)
	}
	if err := mgr.Add(cl); err != nil {
		return nil, err
	}
	return targetOf(cl, c.target)
}

// targetOf is that cluster as the machines' controllers use it.
func targetOf(cl cluster.Cluster, config *rest.Config) (*controllers.Target, error) {
	c, err := newEvictingClient(cl.GetClient(), config, cl.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	return &controllers.Target{Client: logging.NewClient(c), Live: cl.GetAPIReader(), Cache: cl.GetCache()}, nil
}

// renewalRequests are the requests of one lease that may have to fit into the renew deadline, one
// after the other. Those of all leases are made at once.
const renewalRequests = 4

// newLock returns the lock on the leases of these names, or nil if none is to be held. An elector
// that renews writes first, and reads and writes again where that fails: with renewalRequests one
// of these may time out, and the leases are kept.
func (o *Options) newLock(control *rest.Config, names []string) (*leaseLock, error) {
	if !o.election.elect || len(names) == 0 {
		return nil, nil //nolint:nilnil // no lock is a setting
	}
	identity, err := newIdentity()
	if err != nil {
		return nil, err
	}
	c := rest.AddUserAgent(rest.CopyConfig(control), "leader-election")
	c.Timeout = o.election.renewDeadline / renewalRequests
	clients, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	f := fence.New(clock.RealClock{}, o.election.renewDeadline)
	return newLeaseLock(clients.CoordinationV1(), o.leaseNamespace(), identity, clock.RealClock{}, f, names...), nil
}

// leading reports whether mgr works now.
func leading(mgr ctrl.Manager) func() bool {
	return func() bool {
		select {
		case <-mgr.Elected():
			return true
		default:
			return false
		}
	}
}

// waitClusters returns once the API servers of both clusters are healthy.
func (c configs) waitClusters(ctx context.Context) error {
	if err := waitHealthy(ctx, "control-kubeconfig", c.control); err != nil {
		return err
	}
	if c.target == nil || c.same {
		return nil
	}
	return waitHealthy(ctx, "target-kubeconfig", c.target)
}
