package tracing

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// lookBack is how long before its beginning a phase that a new leader exports may have ended: it
// bridges the time without a leader, and what the former one had not exported yet.
const lookBack = 10 * time.Minute

// Observer exports the phases of machines' lives when they are over. It only reads: objects as an
// informer shows them. It runs while its manager leads.
type Observer struct {
	Tracer *Tracer
	Cache  Cache
	Nodes  client.Reader // has the Nodes of native Machines; nil: there are none
	Clock  clock.PassiveClock
	// Native and ClusterAPI say of which API the machines are observed.
	Native, ClusterAPI bool

	lives *lives
}

// Cache is the cache of a manager, or a test's.
type Cache interface {
	client.Reader
	GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Start observes until ctx ends. It returns an error if there is no informer of a kind.
func (o *Observer) Start(ctx context.Context) error {
	o.lives = newLives(o.Tracer, o.Clock)
	var kinds []client.Object
	if o.Native {
		kinds = append(kinds, &machinev1.Machine{})
	}
	if o.ClusterAPI {
		kinds = append(kinds, &infrav1.MCMMachine{}, &clusterv1.Machine{})
	}
	for _, kind := range kinds {
		informer, err := o.Cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("observe %T for traces: %w", kind, err)
		}
		handler, err := informer.AddEventHandler(o.handler(ctx))
		if err != nil {
			return fmt.Errorf("observe %T for traces: %w", kind, err)
		}
		defer func() { _ = informer.RemoveEventHandler(handler) }() // fails only for one that has stopped
	}
	<-ctx.Done()
	return nil
}

// handler calls seen and gone for what an informer shows.
func (o *Observer) handler(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.seen(ctx, object) },
		UpdateFunc: func(_, object any) { o.seen(ctx, object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			o.gone(ctx, object)
		},
	}
}

// seen takes note of an object that is there.
func (o *Observer) seen(ctx context.Context, object any) {
	switch m := object.(type) {
	case *machinev1.Machine:
		o.lives.observe(ctx, m.UID, o.native(ctx, m))
	case *infrav1.MCMMachine:
		o.lives.observe(ctx, m.UID, o.clusterAPI(ctx, m))
	case *clusterv1.Machine: // its MCMMachine has not changed, but what is known of its life has
		ref := m.Spec.InfrastructureRef
		infra := &infrav1.MCMMachine{}
		key := client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}
		if ref.Kind == explain.KindMCMMachine && o.Cache.Get(ctx, key, infra) == nil {
			o.lives.observe(ctx, infra.UID, o.clusterAPI(ctx, infra))
		}
	}
}

// gone takes note of an object that is not there any more.
func (o *Observer) gone(ctx context.Context, object any) {
	switch m := object.(type) {
	case *machinev1.Machine:
		o.lives.end(ctx, m.UID, o.native(ctx, m))
	case *infrav1.MCMMachine:
		o.lives.end(ctx, m.UID, o.clusterAPI(ctx, m))
	}
}

// native is what is known of the life of a Machine. When its Node was registered matters once it
// has joined.
func (o *Observer) native(ctx context.Context, m *machinev1.Machine) *explain.Life {
	l := &explain.Life{Object: explain.OfMachine(m)}
	node := &corev1.Node{}
	if l.Object.Joined && l.Object.Deleting == nil && o.Nodes != nil && l.Object.Node != "" &&
		o.Nodes.Get(ctx, client.ObjectKey{Name: l.Object.Node}, node) == nil {
		l.Registered = node.CreationTimestamp.Time
	}
	return l
}

// clusterAPI is what is known of the life of an MCMMachine.
func (o *Observer) clusterAPI(ctx context.Context, m *infrav1.MCMMachine) *explain.Life {
	l := &explain.Life{Object: explain.OfMCMMachine(m)}
	for _, owner := range m.OwnerReferences {
		machine := &clusterv1.Machine{}
		key := client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}
		if owner.Kind == explain.KindMachine && o.Cache.Get(ctx, key, machine) == nil {
			l.Machine = explain.OfCAPIMachine(machine)
			l.Object.Node, l.Object.Pool = l.Machine.Node, l.Machine.Pool
		}
	}
	return l
}
