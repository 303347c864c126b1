// Package workloadtest has an in-memory clustercache.ClusterCache for tests: workload
// clusters with clients that the test provides, connected and
// disconnected on demand.
package workloadtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Clusters are workload clusters. The zero value has none. It is safe for
// concurrent use.
type Clusters struct {
	mu       sync.Mutex
	clusters map[client.ObjectKey]*cluster
	sources  []chan event.GenericEvent
}

var _ clustercache.ClusterCache = (*Clusters)(nil)

type cluster struct {
	client  client.Client // nil while there is no connection
	config  *rest.Config
	watches []string
	health  clustercache.HealthCheckingState
}

// New returns Clusters with one that is connected: key, behind c.
func New(key client.ObjectKey, c client.Client) *Clusters {
	out := &Clusters{}
	out.Connect(key, c)
	return out
}

// Connect makes c the connection to the cluster of that key. Watches have to be
// started again.
func (c *Clusters) Connect(key client.ObjectKey, to client.Client) {
	c.change(key, func(x *cluster) { x.client, x.watches = to, nil })
}

// Disconnect ends the connection. The health of the cluster stays as it is.
func (c *Clusters) Disconnect(key client.ObjectKey) {
	c.change(key, func(x *cluster) { x.client, x.watches = nil, nil })
}

// Probed notes a probe of the API server at a time: whether it answered.
func (c *Clusters) Probed(key client.ObjectKey, at time.Time, err error) {
	c.change(key, func(x *cluster) {
		x.health.LastProbeTime = at
		if err != nil {
			x.health.ConsecutiveFailures++
			return
		}
		x.health.LastProbeSuccessTime, x.health.ConsecutiveFailures = at, 0
	})
}

// SetRESTConfig sets what GetRESTConfig returns while the cluster is connected.
func (c *Clusters) SetRESTConfig(key client.ObjectKey, config *rest.Config) {
	c.change(key, func(x *cluster) { x.config = config })
}

// Watches are the names of the watches of a cluster since it was connected.
func (c *Clusters) Watches(key client.ObjectKey) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.clusters[key]; x != nil {
		return slices.Clone(x.watches)
	}
	return nil
}

// Announce lets every source of this cache fire for a cluster, as a connect or
// disconnect does.
func (c *Clusters) Announce(of client.Object) {
	c.mu.Lock()
	sources := slices.Clone(c.sources)
	c.mu.Unlock()
	for _, ch := range sources {
		ch <- event.GenericEvent{Object: of}
	}
}

// GetClient returns the connection, or ErrClusterNotConnected.
func (c *Clusters) GetClient(_ context.Context, key client.ObjectKey) (client.Client, error) {
	x, err := c.connected(key)
	return x.client, err
}

// GetReader returns the connection, or ErrClusterNotConnected.
func (c *Clusters) GetReader(ctx context.Context, key client.ObjectKey) (client.Reader, error) {
	return c.GetClient(ctx, key)
}

// GetUncachedClient returns the connection, or ErrClusterNotConnected.
func (c *Clusters) GetUncachedClient(ctx context.Context, key client.ObjectKey) (client.Client, error) {
	return c.GetClient(ctx, key)
}

// GetRESTConfig returns what SetRESTConfig has set, or ErrClusterNotConnected.
func (c *Clusters) GetRESTConfig(_ context.Context, key client.ObjectKey) (*rest.Config, error) {
	x, err := c.connected(key)
	return x.config, err
}

// Watch notes the name of the watch, once, and starts nothing.
func (c *Clusters) Watch(_ context.Context, key client.ObjectKey, watcher clustercache.Watcher) error {
	if _, err := c.connected(key); err != nil {
		return err
	}
	c.change(key, func(x *cluster) {
		if !slices.Contains(x.watches, watcher.Name()) {
			x.watches = append(x.watches, watcher.Name())
		}
	})
	return nil
}

// GetHealthCheckingState returns what Probed has noted.
func (c *Clusters) GetHealthCheckingState(_ context.Context, key client.ObjectKey) clustercache.HealthCheckingState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.clusters[key]; x != nil {
		return x.health
	}
	return clustercache.HealthCheckingState{}
}

// GetClusterSource returns a source that fires when Announce is called.
func (c *Clusters) GetClusterSource(_ string, to func(ctx context.Context, cluster client.Object) []ctrl.Request,
	_ ...clustercache.GetClusterSourceOption,
) source.Source {
	ch := make(chan event.GenericEvent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = append(c.sources, ch)
	return source.Channel(ch, handler.EnqueueRequestsFromMapFunc(to))
}

func (c *Clusters) connected(key client.ObjectKey) (cluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.clusters[key]
	if x == nil || x.client == nil {
		return cluster{}, fmt.Errorf("cluster %s: %w", key, clustercache.ErrClusterNotConnected)
	}
	return *x, nil
}

func (c *Clusters) change(key client.ObjectKey, by func(*cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clusters == nil {
		c.clusters = map[client.ObjectKey]*cluster{}
	}
	if c.clusters[key] == nil {
		c.clusters[key] = &cluster{}
	}
	by(c.clusters[key])
}
