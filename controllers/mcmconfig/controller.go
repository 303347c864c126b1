// Package mcmconfig creates the bootstrap data of machines: it replaces the placeholders
// in the user data, creates and maintains the bootstrap token, and writes the Secret that
// Cluster API passes to the infrastructure provider.
//
// A VM is created with the bytes of that Secret, so they change as rarely as possible: a
// token that is about to expire is extended in the workload cluster, and the data does
// not change. Only if the token is gone before a VM was created, there is new data.
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

// controllerName is the name of the controller.
const controllerName = "mcmconfig"

const (
	kind = "MCMConfig"
	// tokenLifetime is how long a bootstrap token lives beyond its last extension: MCM's
	// creation timeout.
	tokenLifetime  = 20 * time.Minute
	staleRetry     = time.Second // the newer version arrives by watch; this only guards against a lost event
	forbiddenRetry = time.Minute // no event reports that permissions were granted
)

// Deps are what the controller needs; all are required unless said otherwise.
type Deps struct {
	Client   client.Client // reads from a cache with Indexes and those of index.Classes
	Live     client.Reader // reads from the API server
	Clusters clustercache.ClusterCache
	Classes  *class.Resolver
	Clock    clock.PassiveClock
	Rand     io.Reader // makes bootstrap tokens
	Events   record.EventRecorder
	// WatchFilter is the value of the label that objects must have; empty is no filter.
	WatchFilter string
	// TokenExtraGroups are the groups of bootstrap tokens, separated by commas; may be empty.
	TokenExtraGroups string
}

// Controller keeps the data Secret of an MCMConfig up to date.
type Controller struct {
	Deps
	own *fresh.Client // Client, which reads its own writes
}

// New returns a Controller.
func New(d Deps) *Controller {
	own := fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock}, &bootstrapv1.MCMConfig{})
	d.Client = own
	return &Controller{Deps: d, own: own}
}

// Reconcile creates the data Secret of an MCMConfig once all that it needs exists,
// extends its token until the node has joined, and reports what it waits for. It does
// nothing for an MCMConfig that is paused or being deleted: the garbage collector
// deletes its Secret.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := c.observe(ctx, req.NamespacedName)
	if err != nil || s == nil {
		return outcome.Of(0, err)
	}
	if s.paused == "" {
		err = c.act(ctx, s)
	}
	return outcome.Of(s.wait, errors.Join(err, c.report(ctx, s)))
}

// act takes the next step.
func (c *Controller) act(ctx context.Context, s *scope) error {
	switch {
	case s.secret != nil && !s.mine():
		s.refuse(bootstrapv1.ReasonDataSecretNameTaken,
			"metadata.name: Secret %q exists and was not created for this object; remove it, or rename this object",
			s.config.Name)
		return nil
	case s.secret != nil:
		return c.keep(ctx, s)
	case s.machine == nil:
		s.waitFor(bootstrapv1.ReasonWaitingForMachine, "no Machine owns this object yet")
		return nil
	case s.begun():
		s.created = true // the VM does not read the data again
		return nil
	case !s.open():
		return nil
	}
	return c.create(ctx, s)
}
