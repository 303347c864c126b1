package controllers

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
)

// CatchingUp returns mgr with another Add: what is added and needs to be the
// leader starts once the caches show all that the API server had when this process
// became the leader. So a new leader does not act on what was so before its term:
// a machine that the former leader made, a hold that it answered. live reads from
// the API server, namespace is the one that the caches are limited to (empty is all),
// and which has the names of the controllers that run. Nodes, Pods and Secrets are
// not compared.
func CatchingUp(mgr ctrl.Manager, live client.Reader, namespace string, which []string) ctrl.Manager {
	kinds := cachedKinds(APIGroupsOf(which))
	return &catchingUp{Manager: mgr, done: make(chan struct{}), wait: func(ctx context.Context) bool {
		err := fresh.CatchUp(ctx, fresh.CatchUpDeps{
			Cache: mgr.GetClient(), Live: live, Clock: clock.RealClock{}, Namespace: namespace,
		}, kinds...)
		return err == nil
	}}
}

// cachedKinds are the kinds whose objects decisions of these groups are about.
func cachedKinds(groups []APIGroup) []client.ObjectList {
	core := []client.ObjectList{&clusterv1.ClusterList{}, &clusterv1.MachineList{}}
	of := map[APIGroup][]client.ObjectList{
		Native: {
			&machinev1.MachineDeploymentList{}, &machinev1.MachineSetList{}, &machinev1.MachineList{},
			&machinev1.MachineClassList{},
		},
		Infrastructure: append([]client.ObjectList{
			&infrav1.MCMClusterList{}, &infrav1.MCMMachineList{}, &infrav1.MCMMachineTemplateList{},
			&machinev1.MachineClassList{},
		}, core...),
		Bootstrap:    append([]client.ObjectList{&bootstrapv1.MCMConfigList{}}, core...),
		ControlPlane: append([]client.ObjectList{&controlplanev1.MCMExternalControlPlaneList{}}, core...),
	}
	var kinds []client.ObjectList
	known := map[string]bool{}
	for _, d := range groups {
		for _, kind := range of[d] {
			if name := fmt.Sprintf("%T", kind); !known[name] {
				known[name] = true
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// catchingUp is a manager whose runnables wait for the caches.
type catchingUp struct {
	ctrl.Manager
	wait func(context.Context) bool // reports whether the process goes on

	begun atomic.Bool
	done  chan struct{} // closed when wait has returned goOn
	goOn  bool
}

// Add adds r.
func (m *catchingUp) Add(r manager.Runnable) error {
	if l, ok := r.(manager.LeaderElectionRunnable); ok && !l.NeedLeaderElection() {
		return m.Manager.Add(r)
	}
	return m.Manager.Add(waiting{r, m})
}

// waiting is a runnable that waits for the caches once it is started.
type waiting struct {
	manager.Runnable
	manager *catchingUp
}

// NeedLeaderElection reports that only the leader runs it.
func (waiting) NeedLeaderElection() bool { return true }

// Warmup lets a standby fill the runnable's queue.
func (w waiting) Warmup(ctx context.Context) error {
	if warm, ok := w.Runnable.(interface {
		Warmup(ctx context.Context) error
	}); ok {
		return warm.Warmup(ctx)
	}
	return nil
}

// Start runs it. All runnables of a manager wait together.
func (w waiting) Start(ctx context.Context) error {
	m := w.manager
	if m.begun.CompareAndSwap(false, true) {
		m.goOn = m.wait(ctx)
		close(m.done)
	}
	if <-m.done; !m.goOn {
		return nil
	}
	return w.Runnable.Start(ctx)
}
