package guests

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	inmemory "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	"sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
)

// Host is where the endpoints of all clusters are.
const Host = "127.0.0.1"

// ImagePrefix begins the names of images that guests boot from; the version of
// Kubernetes that is installed in them follows.
const ImagePrefix = "kubernetes-"

// Cloud is the owner's view of the simulated cloud.
type Cloud interface {
	// Live returns the resources of a kind that are not gone.
	Live(ctx context.Context, kind string) ([]sim.Resource, error)
	// UserData returns what a VM boots with.
	UserData(ctx context.Context, id string) ([]byte, error)
}

// Guests are those of a cloud's VMs.
type Guests struct {
	cloud   Cloud
	manager inmemory.Manager
	mux     *server.WorkloadClustersMux

	mu       sync.Mutex
	clusters map[string]*Cluster // by endpoint
	machines map[string]*machine // by id of the VM
	failures []string
}

// machine is the guest of a VM.
type machine struct {
	id, version, providerID string
	metadata                Metadata

	cluster      *Cluster // nil until it has joined
	node         string
	controlPlane bool
	halted       bool
}

// New returns guests that Run plays.
func New(ctx context.Context, cloud Cloud) (*Guests, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	g := &Guests{
		cloud: cloud, manager: inmemory.NewManager(scheme), clusters: map[string]*Cluster{},
		machines: map[string]*machine{},
	}
	if err := g.manager.Start(ctx); err != nil {
		return nil, err
	}
	var err error
	g.mux, err = server.NewWorkloadClustersMux(g.manager, Host, server.CustomPorts{}) // port 0 is any
	return g, err
}

// Add adds a cluster whose endpoint is a port of Host.
func (g *Guests) Add(name string, port int) (*Cluster, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.manager.AddResourceGroup(name)
	if _, err := g.mux.InitWorkloadClusterListener(name, int32(port)); err != nil {
		return nil, err
	}
	if err := g.mux.RegisterResourceGroup(name, name); err != nil {
		return nil, err
	}
	c := &Cluster{
		name: name, endpoint: net.JoinHostPort(Host, strconv.Itoa(port)), mux: g.mux,
		client: g.manager.GetResourceGroup(name).GetClient(),
	}
	g.clusters[c.endpoint] = c
	return c, nil
}

// Failures are the reasons of guests that did not come up.
func (g *Guests) Failures() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.failures)
}

// Run plays the guests until ctx ends.
func (g *Guests) Run(ctx context.Context) error {
	const period = 200 * time.Millisecond
	for ctx.Err() == nil {
		if all, err := g.cloud.Live(ctx, sim.KindVM); err == nil {
			g.look(ctx, all)
		}
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
	return g.mux.Shutdown(context.WithoutCancel(ctx))
}

// look plays what has changed about the VMs.
func (g *Guests) look(ctx context.Context, all []sim.Resource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	live := map[string]bool{}
	for _, vm := range all {
		live[vm.ID] = true
		m := g.machines[vm.ID]
		var err error
		switch {
		case m == nil && vm.VM.State == sim.StateRunning:
			err = g.boot(ctx, vm)
		case m != nil && m.cluster != nil && !m.halted && vm.VM.State != sim.StateRunning:
			err = m.halt(ctx)
		}
		g.note(vm.ID, err)
	}
	for id, m := range g.machines {
		if live[id] {
			continue
		}
		delete(g.machines, id)
		if m.cluster != nil {
			g.note(id, m.bury(ctx))
		}
	}
}

func (g *Guests) note(id string, err error) {
	if err != nil {
		g.failures = append(g.failures, fmt.Sprintf("VM %s: %v", id, err))
	}
}

// boot plays cloud-init and kubeadm.
func (g *Guests) boot(ctx context.Context, vm sim.Resource) error {
	m := &machine{
		id: vm.ID, providerID: sim.ProviderID(vm.Zone, vm.ID),
		metadata: Metadata{InstanceID: vm.ID, Hostname: vm.Name(), Region: vm.Region, Zone: vm.Zone},
	}
	g.machines[vm.ID] = m
	var found bool
	if m.version, found = strings.CutPrefix(vm.VM.Image, ImagePrefix); !found {
		return fmt.Errorf("image %s has no kubeadm", vm.VM.Image)
	}
	data, err := g.cloud.UserData(ctx, vm.ID)
	if err != nil {
		return err
	}
	b, err := readBoot(data, m.metadata)
	if err != nil {
		return err
	}
	r, err := readRun(b)
	if err != nil {
		return err
	}
	c := g.clusters[r.endpoint()]
	if c == nil {
		return fmt.Errorf("nothing is at %q", r.endpoint())
	}
	if err := c.start(ctx, m, r); err != nil {
		return err
	}
	m.cluster = c
	return nil
}
