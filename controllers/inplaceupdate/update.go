package inplaceupdate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// How long core waits before it asks again.
const (
	soon  = 1 * time.Second  // for a step that another controller takes at once
	later = 5 * time.Second  // for pods and agents
	last  = 15 * time.Second // for what a person or another cluster has to do
)

// answer is how far an update is. The zero value is done.
type answer struct {
	wait    time.Duration // ask again after that; 0 unless it is in progress
	failed  string        // reason of the failure; empty if it has not failed
	message string        // for a person; the same as long as the same is the case
}

func waiting(d time.Duration, format string, args ...any) answer {
	return answer{wait: d, message: fmt.Sprintf(format, args...)}
}

func failed(reason, format string, args ...any) answer {
	return answer{failed: reason, message: fmt.Sprintf(format, args...)}
}

// UpdateMachine takes the steps that are due on one Machine, and says how far its
// update is. It may be called any number of times, also after it is done. Core
// shows the message of an update in progress in the Machine's condition Updating,
// but not that of one that has failed: that is on the MCMMachine and in an Event.
func (e *Extension) UpdateMachine(ctx context.Context, req *runtimehooksv1.UpdateMachineRequest,
	resp *runtimehooksv1.UpdateMachineResponse,
) {
	a, u, err := e.advance(ctx, client.ObjectKeyFromObject(&req.Desired.Machine))
	if err == nil && u != nil {
		err = e.report(ctx, u, a)
	}
	if err != nil {
		a = passing(ctx, err)
	}
	resp.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	if a.failed != "" {
		resp.SetStatus(runtimehooksv1.ResponseStatusFailure)
	}
	resp.SetMessage(a.message)
	resp.SetRetryAfterSeconds(int32((a.wait + time.Second - 1) / time.Second)) //nolint:gosec // seconds
}

// advance observes and acts.
func (e *Extension) advance(ctx context.Context, key client.ObjectKey) (answer, *update, error) {
	u, a, err := e.observe(ctx, key)
	if err != nil || u == nil || a != (answer{}) {
		return a, u, err
	}
	asked, a := u.asksAgent()
	if a != (answer{}) {
		return a, u, nil
	}
	if asked {
		a, err := e.agent(ctx, u)
		if err != nil || a != (answer{}) {
			return a, u, err
		}
	}
	if !synced(u.node, &u.infra.Spec.NodeTemplate) {
		return u.unsynced(), u, nil
	}
	return answer{}, u, nil
}

// unsynced says what the Node waits for.
func (u *update) unsynced() answer {
	if c := u.condition(infrav1.NodeSyncedCondition); c != nil && c.Status != "True" && c.Message != "" {
		return waiting(last, "Node %s is not as spec.nodeTemplate of MCMMachine %s asks: %s", u.node.Name, u.infra.Name,
			c.Message)
	}
	return waiting(soon, "Waiting for the controller of MCMMachine %s to write its spec.nodeTemplate onto Node %s",
		u.infra.Name, u.node.Name)
}

// passing is the answer to an error that may not be there the next time: nothing
// has failed. Its text does not change with every attempt, for core writes it down.
func passing(ctx context.Context, err error) answer {
	switch {
	case apierrors.IsConflict(err):
		return waiting(soon, "An object has changed meanwhile; it is read again")
	case errors.Is(err, clustercache.ErrClusterNotConnected):
		return waiting(last, "There is no connection to the workload cluster; look at the condition %s of its MCMCluster "+
			"and at %s of its Cluster", infrav1.KubeconfigSafeCondition, clusterv1.ClusterRemoteConnectionProbeCondition)
	case apierrors.IsForbidden(err):
		return waiting(last, "An API server refuses what the update needs: %v", err)
	}
	ctrl.LoggerFrom(ctx).Error(err, "Update a Machine in place")
	return waiting(later, "A request to an API server failed; see the log of the runtime extension")
}
