package play

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// How long a connection is believed in although probes fail, and how long it
// takes to make one.
const (
	probing    = 50 * time.Second
	connecting = 5 * time.Second
)

// connections are those of a process to workload clusters of Cluster API, all of
// which are the world's cluster with the nodes.
type connections struct {
	process *process
	all     map[types.NamespacedName]*connection
	sources []subscription
}

var _ clustercache.ClusterCache = (*connections)(nil)

// connection is one cluster's; client is nil while there is none.
type connection struct {
	client   *mirror.Client
	live     *mirror.Client
	watches  []string
	answered time.Time // last, unless it is connected
}

// subscription is who is told about connections that come and go.
type subscription struct {
	of    func(ctx context.Context, cluster client.Object) []reconcile.Request
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// soon looks after connections when that has passed.
func (c *connections) soon(after time.Duration) {
	c.process.world.after(after, func() {
		if !c.process.dead {
			c.evaluate()
		}
	})
}

// evaluate makes the connections that can be made, and ends those that cannot be
// any more.
func (c *connections) evaluate() {
	w, s := c.process.world, c.process.home.server
	for _, cluster := range all[*clusterv1.Cluster](s) {
		key := client.ObjectKeyFromObject(cluster)
		if c.all[key] == nil {
			c.all[key] = &connection{}
		}
	}
	for _, key := range sortedKeys(c.all) {
		cluster, found := find[*clusterv1.Cluster](s, key.Name)
		_, opens := find[*corev1.Secret](s, key.Name+"-kubeconfig")
		can := found && opens && yes(cluster.Status.Initialization.InfrastructureProvisioned) && !w.isSilent(w.Target)
		switch x := c.all[key]; {
		case can && x.client == nil:
			c.connect(key, x)
		case !can && x.client != nil:
			c.disconnect(key, x)
		}
	}
}

func sortedKeys[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		switch x, y := a.String(), b.String(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return keys
}

func (c *connections) connect(key types.NamespacedName, x *connection) {
	w := c.process.world
	cached := mirror.New(w.Target, func(*model.Kind) int { return 0 })
	for _, i := range controllers.WorkloadIndexes() {
		if err := cached.IndexField(c.process.ctx, i.Object, i.Field, i.Extract); err != nil {
			panic(err)
		}
	}
	c.process.mirrors = append(c.process.mirrors, cached)
	x.client = &mirror.Client{Server: w.Target, Mirror: cached, Wire: w.wireTo(w.Target), Schema: w.scheme}
	x.live = &mirror.Client{Server: w.Target, Wire: w.wireTo(w.Target), Schema: w.scheme}
	x.watches = nil
	w.trace("%s is connected to Cluster %s", c.process.name, key.Name)
	c.announce(key)
}

func (c *connections) disconnect(key types.NamespacedName, x *connection) {
	w := c.process.world
	c.process.mirrors = slices.DeleteFunc(c.process.mirrors, func(m *mirror.Mirror) bool { return m == x.client.Mirror })
	x.client, x.live, x.watches, x.answered = nil, nil, nil, w.now.Add(-probing)
	w.trace("%s has lost Cluster %s", c.process.name, key.Name)
	c.announce(key)
}

func (c *connections) announce(key types.NamespacedName) {
	cluster, found := find[*clusterv1.Cluster](c.process.home.server, key.Name)
	if !found {
		cluster = &clusterv1.Cluster{}
		cluster.Namespace, cluster.Name = key.Namespace, key.Name
	}
	for _, s := range c.sources {
		for _, r := range s.of(c.process.ctx, cluster) {
			s.queue.Add(r)
		}
	}
}

func (c *connections) of(key client.ObjectKey) (*connection, error) {
	if x := c.all[key]; x != nil && x.client != nil {
		return x, nil
	}
	return nil, fmt.Errorf("cluster %s: %w", key, clustercache.ErrClusterNotConnected)
}

// GetClient returns a client that reads from a cache.
func (c *connections) GetClient(_ context.Context, key client.ObjectKey) (client.Client, error) {
	x, err := c.of(key)
	if err != nil {
		return nil, err
	}
	return x.client, nil
}

// GetReader is GetClient.
func (c *connections) GetReader(ctx context.Context, key client.ObjectKey) (client.Reader, error) {
	return c.GetClient(ctx, key)
}

// GetUncachedClient returns a client that reads from the API server.
func (c *connections) GetUncachedClient(_ context.Context, key client.ObjectKey) (client.Client, error) {
	x, err := c.of(key)
	if err != nil {
		return nil, err
	}
	return x.live, nil
}

// GetRESTConfig leads to an API server that only reports its version.
func (c *connections) GetRESTConfig(_ context.Context, key client.ObjectKey) (*rest.Config, error) {
	if _, err := c.of(key); err != nil {
		return nil, err
	}
	return (&fixture.APIServer{Version: kubeletVersion}).Config(), nil
}

// Watch starts a watch, once for each connection.
func (c *connections) Watch(_ context.Context, key client.ObjectKey, watcher clustercache.Watcher) error {
	x, err := c.of(key)
	if err != nil || slices.Contains(x.watches, watcher.Name()) {
		return err
	}
	x.watches = append(x.watches, watcher.Name())
	return watcher.Watch(x.client.Mirror)
}

// GetHealthCheckingState says when the API server answered last.
func (c *connections) GetHealthCheckingState(_ context.Context, key client.ObjectKey) clustercache.HealthCheckingState {
	x := c.all[key]
	if x == nil {
		return clustercache.HealthCheckingState{}
	}
	at := x.answered
	if x.client != nil {
		at = c.process.world.now
	}
	return clustercache.HealthCheckingState{LastProbeTime: at, LastProbeSuccessTime: at}
}

// GetClusterSource tells of connections that come and go.
func (c *connections) GetClusterSource(_ string,
	of func(ctx context.Context, cluster client.Object) []reconcile.Request, _ ...clustercache.GetClusterSourceOption,
) source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.sources = append(c.sources, subscription{of, q})
		return nil
	})
}
