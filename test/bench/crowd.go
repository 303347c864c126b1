package main

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// crowd knows all Machines from a watch: to list ten thousand over and over
// would be most of what the API server does.
type crowd struct {
	mu      sync.Mutex
	all     map[string]member // by name
	ready   map[string]int    // Running ones that stay, by class
	samples []float64         // see times
}

// member is what is known of a Machine.
type member struct {
	class         string
	running, left bool // left: it is going
	seen          time.Time
}

func (m member) counts() bool { return m.running && !m.left }

// watchCrowd returns a crowd that follows a cluster until ctx ends, once it knows
// the Machines that are there.
func watchCrowd(ctx context.Context, config *rest.Config) (*crowd, error) {
	scheme := runtime.NewScheme()
	if err := machinev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	store, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: gist})
	if err != nil {
		return nil, err
	}
	informer, err := store.GetInformer(ctx, &machinev1.Machine{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	c := &crowd{all: map[string]member{}, ready: map[string]int{}}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: c.changed, UpdateFunc: func(_, o any) { c.changed(o) }, DeleteFunc: c.gone,
	}); err != nil {
		return nil, err
	}
	go func() { _ = store.Start(ctx) }() // ends with ctx
	if !store.WaitForCacheSync(ctx) {
		return nil, ctx.Err()
	}
	return c, nil
}

// gist keeps of a Machine what is counted.
func gist(o any) (any, error) {
	m, ok := o.(*machinev1.Machine)
	if !ok {
		return o, nil
	}
	kept := &machinev1.Machine{TypeMeta: m.TypeMeta}
	kept.Name, kept.Namespace, kept.UID, kept.ResourceVersion = m.Name, m.Namespace, m.UID, m.ResourceVersion
	kept.DeletionTimestamp = m.DeletionTimestamp
	kept.Spec.Class.Name = m.Spec.Class.Name
	kept.Status.CurrentStatus.Phase = m.Status.CurrentStatus.Phase
	return kept, nil
}

func (c *crowd) changed(o any) {
	m, ok := o.(*machinev1.Machine)
	if !ok {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.all[m.Name]
	is := member{
		class: m.Spec.Class.Name, running: m.Status.CurrentStatus.Phase == machinev1.MachineRunning,
		left: !m.DeletionTimestamp.IsZero(), seen: was.seen,
	}
	if !known {
		is.seen = now
	}
	if is.running && !was.running && known {
		c.samples = append(c.samples, now.Sub(is.seen).Seconds())
	}
	c.replace(m.Name, was, is)
}

func (c *crowd) replace(name string, was, is member) {
	if was.counts() {
		c.ready[was.class]--
	}
	if is.counts() {
		c.ready[is.class]++
	}
	c.all[name] = is
}

func (c *crowd) gone(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	m, ok := o.(*machinev1.Machine)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(m.Name, c.all[m.Name], member{})
	delete(c.all, m.Name)
}

// count returns how many Machines there are, and how many of a class are Running
// and stay.
func (c *crowd) count(class string) (all, ready int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all), c.ready[class]
}

// times returns the seconds from when a Machine was there until it was Running,
// of those that became so since the last call.
func (c *crowd) times() []float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	samples := c.samples
	c.samples = nil
	return samples
}
