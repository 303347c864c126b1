package manager

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

// newWorkloads returns the connections to the workload clusters of Cluster API,
// which start and stop with mgr; nil if no controller needs them. Secrets of a
// workload cluster are never cached: they may not be watched there.
func (o *Options) newWorkloads(ctx context.Context, mgr ctrl.Manager, which []string) (clustercache.ClusterCache,
	error,
) {
	ofClusterAPI := func(g controllers.APIGroup) bool { return g != controllers.Native }
	if !slices.ContainsFunc(controllers.APIGroupsOf(which), ofClusterAPI) {
		return nil, nil //nolint:nilnil // no workload clusters is a setting
	}
	var indexes []clustercache.CacheOptionsIndex
	for _, x := range controllers.WorkloadIndexes() {
		indexes = append(indexes, clustercache.CacheOptionsIndex{Object: x.Object, Field: x.Field, ExtractValue: x.Extract})
	}
	return o.connectWorkloads(ctx, mgr, mgr.GetClient(), indexes)
}

// connectWorkloads returns those connections. Kubeconfigs are read through secrets, and checked: their
// authors are not the operator, and must get nothing of this process.
func (o *Options) connectWorkloads(ctx context.Context, mgr ctrl.Manager, secrets client.Reader,
	indexes []clustercache.CacheOptionsIndex,
) (clustercache.ClusterCache, error) {
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient:     kubeconfig.NewReader(secrets),
		WatchFilterValue: o.clusters.watchFilter,
		Cache: clustercache.CacheOptions{
			SyncPeriod: &o.clusters.resync, DefaultTransform: stripObject, Indexes: indexes,
			ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: stripNode}},
		},
		Client: clustercache.ClientOptions{
			UserAgent: o.userAgent(), QPS: -1,
			Cache: clustercache.ClientCacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}},
		},
	}, controller.Options{MaxConcurrentReconciles: otherWorkers, SkipNameValidation: new(true)})
	if err != nil {
		return nil, fmt.Errorf("connect to workload clusters: %w", err)
	}
	return clusters, nil
}
