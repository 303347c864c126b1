package guests

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	inmemory "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	"sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
)

// Host is where the endpoints of all clusters are.
const Host = "127.0.0.1"

// A VM is one of a cloud's, with what its guest and the cloud's controller manager know of it.
type VM struct {
	ID, Name   string
	Version    string // of Kubernetes in its image; empty: there is none
	ProviderID string // as the cloud controller manager writes it on the Node
	NodeName   string // by which the cloud controller manager finds the VM; empty: by any
	Metadata   Metadata
	Running    bool
}

// Cloud is the owner's view of a cloud.
type Cloud interface {
	// VMs returns the VMs that are not gone.
	VMs(ctx context.Context) ([]VM, error)
	// UserData returns what the guest of a VM boots with.
	UserData(ctx context.Context, id string) ([]byte, error)
}

// Guests are those of a cloud's VMs.
type Guests struct {
	cloud   Cloud
	manager inmemory.Manager
	mux     *server.WorkloadClustersMux

	files sync.Map // that cloud-init has written on a VM: map[string]string by id

	mu       sync.Mutex
	ends     []func() error      // of what serves beside mux
	clusters map[string]*Cluster // by endpoint
	machines map[string]*machine // by id of the VM
	failures []string
}

// machine is the guest of a VM.
type machine struct {
	VM

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
	return g.add(name, port)
}

func (g *Guests) add(name string, port int) (*Cluster, error) {
	g.manager.AddResourceGroup(name)
	if err := g.listen(name, port, name); err != nil {
		return nil, err
	}
	c := &Cluster{
		name: name, endpoint: net.JoinHostPort(Host, strconv.Itoa(port)), mux: g.mux,
		client: g.manager.GetResourceGroup(name).GetClient(),
	}
	g.clusters[c.endpoint] = c
	return c, nil
}

// listen has a port serve the objects of a group, once there are API servers for it.
func (g *Guests) listen(name string, port int, group string) error {
	if _, err := g.mux.InitWorkloadClusterListener(name, int32(port)); err != nil {
		return err
	}
	return g.mux.RegisterResourceGroup(name, group)
}

// Failures are the reasons of guests that did not come up.
func (g *Guests) Failures() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.failures)
}

// Files returns the files that cloud-init has written on a VM, by path.
func (g *Guests) Files(id string) map[string]string {
	files, _ := g.files.Load(id)
	written, _ := files.(map[string]string)
	return written
}

// Run plays the guests until ctx ends.
func (g *Guests) Run(ctx context.Context) error {
	const period = 200 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		if all, err := g.cloud.VMs(ctx); err == nil {
			g.look(ctx, all)
		}
		select {
		case <-ctx.Done():
		case <-time.After(stack.Pause(period, time.Since(began))):
		}
	}
	return g.end(context.WithoutCancel(ctx))
}

func (g *Guests) end(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	errs := []error{g.mux.Shutdown(ctx)}
	for _, end := range g.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// look plays what has changed about the VMs.
func (g *Guests) look(ctx context.Context, all []VM) {
	g.mu.Lock()
	defer g.mu.Unlock()
	live := map[string]bool{}
	for _, vm := range all {
		live[vm.ID] = true
		m := g.machines[vm.ID]
		var err error
		switch {
		case m == nil && vm.Running:
			err = g.boot(ctx, vm)
		case m != nil && m.cluster != nil && !m.halted && !vm.Running:
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
func (g *Guests) boot(ctx context.Context, vm VM) error {
	m := &machine{VM: vm}
	g.machines[vm.ID] = m
	if vm.Version == "" {
		return errors.New("its image has no kubeadm")
	}
	data, err := g.cloud.UserData(ctx, vm.ID)
	if err != nil {
		return err
	}
	b, err := readBoot(data, vm.Metadata)
	if err != nil {
		return err
	}
	g.files.Store(vm.ID, b.files)
	r, err := readRun(b)
	if err != nil {
		return err
	}
	c := g.clusters[r.endpoint()]
	if c == nil {
		return fmt.Errorf("nothing is at %q", r.endpoint())
	}
	if r.init == nil {
		if err := g.reach(ctx, c); err != nil {
			return fmt.Errorf("kubeadm join: %w", err)
		}
	}
	if err := c.start(ctx, m, r); err != nil {
		return err
	}
	m.cluster = c
	return nil
}
