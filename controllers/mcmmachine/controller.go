package mcmmachine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// Options are the manager's flags as far as MCMMachines go.
type Options struct {
	// WatchFilter is the value of Cluster API's watch label that objects must carry; empty is all objects.
	WatchFilter string
	// ResourceExhaustedRetry is the wait after a lack of capacity; 0 is 10 minutes.
	ResourceExhaustedRetry time.Duration
}

// Deps are what a Controller needs; all are required but Clusters, Fallback and Evidence.
type Deps struct {
	// Namespace is where there are objects that may have an owner id, empty is all namespaces.
	Namespace string

	Client client.Client // management cluster, reads from a cache with the indexes of index.Infrastructure
	Live   client.Reader // reads from the API server
	// Clusters are the connections to the workload clusters; nil: no Node is looked at.
	Clusters clustercache.ClusterCache
	Clouds   *cloud.Registry
	Clock    clock.PassiveClock
	Fence    *fence.Fence // knows for how long a former leader's requests may take effect
	Events   record.EventRecorder
	// IPAM reports whether the API server serves the IPAM kinds of Cluster API. Without
	// them, machines whose spec.network names pools wait.
	IPAM    bool
	Options Options
	// Fallback is what is known of exhausted classes, shared with the controllers that report
	// capacity; nil: the Controller has its own.
	Fallback *fallback.Memory
	// Evidence keeps the consoles of machines that did not join; nil reads none.
	Evidence *evidence.Keeper
}

// Controller keeps the VM of each MCMMachine.
type Controller struct {
	Deps
	classes  *class.Resolver
	engine   *vm.Engine
	listings *vmListings
	own      *fresh.Client                            // Client, which reads its own writes
	watcher  clustercache.SourceWatcher[ctrl.Request] // nil until SetupWithManager

	mu      sync.Mutex
	lookups map[types.NamespacedName]lookups
}

// lookups is what is remembered of a machine between passes. Losing it only delays.
type lookups struct {
	uid      types.UID
	born     time.Time // when its VM was last seen to be there by other means than a listing
	missing  time.Time // since when the cloud shows no VM; zero if it does
	misses   int       // how often it was looked for since
	failures int       // looks in a row that failed
}

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	if d.Fallback == nil {
		d.Fallback = fallback.NewMemory(d.Clock, d.Options.ResourceExhaustedRetry)
	}
	own := fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock}, &infrav1.MCMMachine{})
	d.Client = own
	return &Controller{
		Deps: d, own: own, classes: class.New(d.Clouds), engine: vm.New(d.Clock, d.Fence.FormerLeader, d.Fallback),
		listings: newVMListings(d.Clock),
		lookups:  map[types.NamespacedName]lookups{},
	}
}

// Reconcile brings an MCMMachine one observation closer to its spec:
//
//  1. observe the MCMMachine, its Machine and Cluster; one that is paused or being moved is left alone;
//  2. run the joining steps, or the leaving step if it is being deleted;
//  3. report what was seen into its status, and write that if it changed.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &infrav1.MCMMachine{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			c.forgetLookups(req.NamespacedName)
		}
		return outcome.Of(0, client.IgnoreNotFound(err))
	}
	if !capi.Watched(object, c.Options.WatchFilter) || capi.Moving(object) {
		return reconcile.Result{}, nil
	}
	c.engine.ObserveProviderID(machinev1.OwnerID(object), object.Spec.ProviderID)
	p, err := c.observe(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	err = c.act(ctx, p)
	if werr := c.write(ctx, p); werr != nil {
		return outcome.Of(0, werr)
	}
	c.emitEvents(p)
	if p.did.finalizerRemoved {
		c.engine.Forget(machinev1.OwnerID(p.object))
		c.forgetLookups(req.NamespacedName)
	}
	return outcome.Of(p.did.requeue, err)
}

func (c *Controller) act(ctx context.Context, p *pass) error {
	switch {
	case p.seen.paused != "":
		return nil
	case !p.object.DeletionTimestamp.IsZero():
		return c.delete(ctx, p)
	}
	return c.join(ctx, p)
}

// join gives an MCMMachine its VM, and its Node what spec.nodeTemplate asks for.
func (c *Controller) join(ctx context.Context, p *pass) error {
	if p.seen.cluster == nil || p.seen.machine == nil {
		if !provisioned(p.object) {
			p.did.vmCondition = missingOwner(p)
		}
		return nil // an owner reference wakes it; one that is missing for a moment proves nothing about the VM
	}
	for _, step := range []func(context.Context, *pass) error{
		c.ensureFinalizer, c.claimAddresses, c.launch, c.register, c.syncNode, c.removeBootData, c.updateTags,
	} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// ensureFinalizer puts finalizer and owner id onto an MCMMachine before anything is
// created for it, and takes over a providerID that only the Machine knows any more. What somebody has
// stripped it of is restored: the owner id from the VM, and the class from the status.
func (c *Controller) ensureFinalizer(ctx context.Context, p *pass) error {
	unknown := mayHaveUnknownVM(p.object) && p.seen.machine.Spec.ProviderID == ""
	if unknown {
		if err := c.engine.Recall(ctx, c.vm(p)); err != nil {
			p.did.vmCondition = conditionFalse(outcome.Reason(err), failureMessage(err))
			return err
		}
	}
	// The UID that would stand in for an owner id would be taken for a real one after the next move.
	keepsLooking := false
	if stripped(p.object) && p.object.Spec.ProviderID != "" {
		if err := c.engine.Recall(ctx, c.vm(p)); err != nil {
			if err := c.callFailed(p, err); err != nil {
				return err
			}
			keepsLooking = true
		}
	}
	return c.patch(ctx, p, func(o *infrav1.MCMMachine) {
		if from := madeFrom(o); from != "" {
			machinev1.SetAnnotation(o, infrav1.MadeFromAnnotation, from)
		}
		if unknown && !createStarted(o) && !provisioned(o) {
			machinev1.SetAnnotation(o, machinev1.CreateAttemptAnnotation, vm.AttemptUnknown)
		}
		controllerutil.AddFinalizer(o, machinev1.MCMMachineFinalizer)
		if !keepsLooking {
			machinev1.SetAnnotation(o, machinev1.OwnerIDAnnotation, machinev1.OwnerID(p.object))
		}
		if o.Spec.ProviderID == "" && p.seen.machine.Spec.ProviderID != "" {
			o.Spec.ProviderID = p.seen.machine.Spec.ProviderID
		}
	})
}

// stripped reports whether an MCMMachine has a finalizer and no owner id: they are written together.
func stripped(o *infrav1.MCMMachine) bool {
	return slices.Contains(o.Finalizers, machinev1.MCMMachineFinalizer) && o.Annotations[machinev1.OwnerIDAnnotation] == ""
}

// mayHaveUnknownVM reports whether a VM may have been created for an MCMMachine that knows neither its providerID
// nor, because somebody has stripped it, all of what was recorded before: owner id, attempt and class are
// written together.
func mayHaveUnknownVM(o *infrav1.MCMMachine) bool {
	adopted := slices.Contains(o.Finalizers, machinev1.MCMMachineFinalizer) || madeFrom(o) != "" || provisioned(o)
	lacks := o.Annotations[machinev1.OwnerIDAnnotation] == "" || !createStarted(o) && madeFrom(o) != ""
	return o.Spec.ProviderID == "" && adopted && lacks
}

// patch applies change to metadata and spec, and writes what differs, if anything
// does. It fails on a stale object.
func (c *Controller) patch(ctx context.Context, p *pass, change func(*infrav1.MCMMachine)) error {
	changed, err := patch.Change(ctx, c.Client, p.object, vm.CarryScope(p.did.scope, change))
	p.object = changed
	return err
}

// write persists the status that follows from p, if it differs and the object has
// not changed since it was read: conditions are replaced as a whole, and others
// write some too, e.g. the runtime extension how an update in place has ended.
func (c *Controller) write(ctx context.Context, p *pass) error {
	if p.did.finalizerRemoved {
		return nil
	}
	status := report(p)
	if equality.Semantic.DeepEqual(status, p.object.Status) {
		return nil
	}
	changed := p.object.DeepCopy()
	changed.Status = status
	if err := patch.Status(ctx, c.Client, p.object, changed); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	p.object = changed
	return nil
}

// updateLookups applies change to what is remembered of a machine, and returns it.
func (c *Controller) updateLookups(o *infrav1.MCMMachine, change func(*lookups)) lookups {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	n := c.lookups[key]
	if n.uid != o.UID {
		n = lookups{uid: o.UID} // another one had that name
	}
	change(&n)
	c.lookups[key] = n
	return n
}

func (c *Controller) forgetLookups(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lookups, key)
}
