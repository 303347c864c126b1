package mcmremediation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// Options are the manager's flags as far as remediations go.
type Options struct {
	// WatchFilter is the value of Cluster API's watch label that objects must carry; empty is all objects.
	WatchFilter string
	// IgnoreOutages reboots machines that became unhealthy together, too.
	IgnoreOutages bool
	// OutageLimit is for how long an outage protects machines; 0 is 2 hours.
	OutageLimit time.Duration
}

// Deps are what a Controller needs; all are required.
type Deps struct {
	Client  client.Client // management cluster, reads from a cache
	Live    client.Reader // reads from the API server
	Clouds  *cloud.Registry
	Clock   clock.PassiveClock
	Events  record.EventRecorder
	Options Options
}

// Controller remediates Machines.
type Controller struct {
	Deps
	classes *class.Resolver
	own     *fresh.Client // Client, which reads its own writes
}

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	if d.Options.OutageLimit <= 0 {
		d.Options.OutageLimit = brake.OutageLimit
	}
	own := fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock}, &infrav1.MCMRemediation{})
	d.Client = own
	return &Controller{Deps: d, own: own, classes: class.New(d.Clouds)}
}

// Reconcile brings a remediation one observation closer to its end. The request names the
// MCMRemediation and the Machine, which have the same name.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &infrav1.MCMRemediation{}
	err := c.Client.Get(ctx, req.NamespacedName, object)
	switch {
	case apierrors.IsNotFound(err):
		return outcome.Of(0, c.clearMachine(ctx, req.NamespacedName))
	case err != nil:
		return outcome.Of(0, err)
	case !object.DeletionTimestamp.IsZero(), !capi.Watched(object, c.Options.WatchFilter), capi.Moving(object):
		return reconcile.Result{}, nil
	}
	p, err := c.observe(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	err = c.act(ctx, p)
	if werr := c.write(ctx, p); werr != nil {
		return outcome.Of(0, werr)
	}
	return outcome.Of(p.did.requeue, err)
}

// act takes the first step that applies.
func (c *Controller) act(ctx context.Context, p *pass) error {
	for _, step := range []func(context.Context, *pass) (bool, error){
		c.leaveAlone, c.recordCooldown, c.finish, c.hold, c.wait, c.handOver, c.reboot,
	} {
		if done, err := step(ctx, p); done || err != nil {
			return err
		}
	}
	return nil
}

// write persists the status that follows from p, shows it on the Machine, and emits an Event,
// if anything has changed.
func (c *Controller) write(ctx context.Context, p *pass) error {
	if err := c.markMachine(ctx, p); err != nil {
		return err
	}
	status := report(p)
	if equality.Semantic.DeepEqual(status, p.object.Status) {
		return nil
	}
	was := meta.FindStatusCondition(p.object.Status.Conditions, infrav1.RemediatedCondition)
	is := meta.FindStatusCondition(status.Conditions, infrav1.RemediatedCondition)
	changed := p.object.DeepCopy()
	changed.Status = status
	if err := patch.Status(ctx, c.Client, p.object, changed); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	if is == nil || was != nil && was.Reason == is.Reason && p.did.event == "" {
		return nil
	}
	kind := corev1.EventTypeNormal
	if p.did.failed {
		kind = corev1.EventTypeWarning
	}
	c.Events.Event(changed, kind, is.Reason, is.Message)
	return nil
}
