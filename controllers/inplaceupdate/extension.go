package inplaceupdate

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// callTimeout is how long core waits for an answer: the most that it allows. A
// call evicts pods for less than that.
const (
	callTimeout  = 30 * time.Second
	evictTimeout = 15 * time.Second
)

// Deps are what an Extension needs; all are required.
type Deps struct {
	Client client.Client // management cluster, for writing
	Live   client.Reader // management cluster, reads from the API server
	// Clusters are the connections to the workload clusters. Nothing of these is cached.
	Clusters clustercache.ClusterCache
	Clock    clock.PassiveClock
	Events   record.EventRecorder
	// NodeAgentTimeout is how long the agent on a node may take, from when the
	// node was handed to it.
	NodeAgentTimeout time.Duration
}

// Extension answers Cluster API's hooks for updates in place. It is safe for
// concurrent use.
type Extension struct{ Deps }

// New returns an Extension.
func New(d Deps) *Extension { return &Extension{d} }

// Catalog has the hooks that an Extension answers, for server.Options.
func Catalog() (*runtimecatalog.Catalog, error) {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("list Cluster API's hooks: %w", err)
	}
	return catalog, nil
}

// AddTo makes s answer the hooks with e. Core finds them by asking s.
func (e *Extension) AddTo(s *server.Server) error {
	for _, h := range []server.ExtensionHandler{
		{Name: "can-update-machine-set", Hook: runtimehooksv1.CanUpdateMachineSet, HandlerFunc: e.CanUpdateMachineSet},
		{Name: "can-update-machine", Hook: runtimehooksv1.CanUpdateMachine, HandlerFunc: e.CanUpdateMachine},
		{Name: "update-machine", Hook: runtimehooksv1.UpdateMachine, HandlerFunc: e.UpdateMachine},
	} {
		h.TimeoutSeconds = new(int32(callTimeout / time.Second))
		if err := s.AddExtensionHandler(h); err != nil {
			return fmt.Errorf("answer hook %s: %w", h.Name, err)
		}
	}
	return nil
}
