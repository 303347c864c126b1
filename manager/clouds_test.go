package manager

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// slowAccount returns the error of its context.
type slowAccount struct{ cloud.Account }

func (slowAccount) Create(ctx context.Context, _ cloud.CreateRequest) (cloud.VM, error) {
	return cloud.VM{}, ctx.Err()
}

func (slowAccount) Delete(ctx context.Context, _ cloud.Ref) (cloud.Deletion, error) {
	return cloud.Deletion{}, ctx.Err()
}

func (slowAccount) Get(ctx context.Context, _ cloud.Ref) (cloud.VM, error) {
	return cloud.VM{}, ctx.Err()
}

func TestCloudCallsFinish(t *testing.T) {
	t.Parallel()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	var a cloud.Account = slowAccount{}
	wraps, err := around(prometheus.NewRegistry(), fence.Always(clock.RealClock{}), NewOptions("test", "1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrap := range wraps {
		a = wrap(cloud.AccountInfo{}, a)
	}
	if _, err := a.Create(stopped, cloud.CreateRequest{}); err != nil {
		t.Errorf("a create that had begun ends with the request to stop: %v", err)
	}
	if _, err := a.Delete(stopped, cloud.Ref{}); err != nil {
		t.Errorf("a delete that had begun ends with the request to stop: %v", err)
	}
	if _, err := a.Get(stopped, cloud.Ref{}); err == nil {
		t.Error("a read goes on although this process is to stop")
	}
}
