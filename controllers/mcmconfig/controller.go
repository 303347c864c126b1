// Package mcmconfig turns user data into the boot data of machines: it fills in
// the placeholders, makes and looks after the bootstrap token, and writes the
// Secret that Cluster API hands to the infrastructure.
//
// The bytes of that Secret are what a VM is created with, so they change as
// seldom as can be: a token that gets old is given more time in the workload
// cluster, and the data that holds it stays as it is. Only a token that has
// gone, before any VM was made, leads to new data.
package mcmconfig

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Name of the controller.
const Name = "mcmconfig"

const (
	kind                 = "MCMConfig"
	defaultTokenLifetime = 20 * time.Minute // MCM's creation timeout
	staleRetry           = time.Second      // the newer version arrives by watch; this only guards against a lost event
	forbiddenRetry       = time.Minute      // rights are given without a word to us
)

// Deps are what the controller needs; all are required unless said otherwise.
type Deps struct {
	Client   client.Client // reads from a cache with Indexes and those of index.Classes
	Clusters clustercache.ClusterCache
	Classes  *class.Resolver
	Clock    clock.PassiveClock
	Rand     io.Reader // makes bootstrap tokens
	Events   record.EventRecorder
	// WatchFilter is the value of the label that objects must have; empty is no filter.
	WatchFilter string
	// TokenLifetime is how long a bootstrap token lives beyond its last extension;
	// 0 is 20 minutes.
	TokenLifetime time.Duration
	// TokenExtraGroups are the groups of bootstrap tokens, separated by commas; may be empty.
	TokenExtraGroups string
}

// Controller keeps the data Secret of a MCMConfig.
type Controller struct {
	Deps
	written fresh.Marks // of statuses
}

// New returns a Controller.
func New(d Deps) *Controller {
	if d.TokenLifetime <= 0 {
		d.TokenLifetime = defaultTokenLifetime
	}
	return &Controller{Deps: d}
}

// Reconcile makes the data Secret of a MCMConfig once all that it needs is
// there, keeps its token alive until the node has joined, and says what it waits
// for. A paused MCMConfig, or one that is being deleted, is left alone: what
// belongs to it goes with it.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, err := c.observe(ctx, req.NamespacedName)
	if err != nil || f == nil {
		return outcome.Of(0, err)
	}
	if c.written.Stale(f.config) { // what is seen now would be compared with what was said before
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	if f.paused == "" {
		err = c.act(ctx, f)
	}
	return outcome.Of(f.wait, errors.Join(err, c.report(ctx, f)))
}

// act does the one thing that is next.
func (c *Controller) act(ctx context.Context, f *facts) error {
	switch {
	case f.secret != nil && !f.mine():
		f.refuse(bootstrapv1.ReasonDataSecretNameTaken,
			"metadata.name: Secret %q exists and is not this object's; remove it, or name this object differently", f.config.Name)
		return nil
	case f.secret != nil:
		return c.keep(ctx, f)
	case f.machine == nil:
		f.waitFor(bootstrapv1.ReasonWaitingForMachine, "no Machine owns this object yet")
		return nil
	case f.begun():
		f.created = true // its VM has all that it will ever get
		return nil
	case !f.open():
		return nil
	}
	return c.create(ctx, f)
}
