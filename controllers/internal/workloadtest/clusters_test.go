package workloadtest_test

import (
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/workloadtest"
)

func TestConnections(t *testing.T) {
	t.Parallel()
	key := client.ObjectKey{Namespace: "default", Name: "c1"}
	clusters := workloadtest.New(key, fake.NewClientBuilder().Build())
	if _, err := clusters.GetClient(t.Context(), key); err != nil {
		t.Errorf("a connected cluster has a client: %v", err)
	}
	clusters.Disconnect(key)
	for _, k := range []client.ObjectKey{key, {Namespace: "default", Name: "other"}} {
		if _, err := clusters.GetUncachedClient(t.Context(), k); !errors.Is(err, clustercache.ErrClusterNotConnected) {
			t.Errorf("%s: err = %v, want the error of the real cache", k, err)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	key, at := client.ObjectKey{Name: "c1"}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var clusters workloadtest.Clusters
	clusters.Probed(key, at, nil)
	clusters.Probed(key, at.Add(time.Second), errors.New("away"))
	want := clustercache.HealthCheckingState{
		LastProbeTime: at.Add(time.Second), LastProbeSuccessTime: at,
		ConsecutiveFailures: 1,
	}
	if got := clusters.GetHealthCheckingState(t.Context(), key); got != want {
		t.Errorf("health = %+v, want %+v", got, want)
	}
}
