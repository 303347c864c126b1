package machinedeployment

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// Deps are what a Controller needs; all are required but Target, Joining, PauseFailing and Fallback.
type Deps struct {
	// Client reads the control cluster from a cache that has the indexes of
	// controllers/internal/index, and writes to it.
	Client client.Client
	// Live reads the control cluster uncached, where a stale answer would harm:
	// before a set is created, resized or adopted, when the name of a new one is
	// taken, and before the finalizer is removed.
	Live client.Reader
	// Target is the cluster with the nodes; nil if there is none.
	Target *target.Cluster
	Clock  clock.PassiveClock
	Events record.EventRecorder
	// AnnotateDuringRollout keeps autoscalers from removing nodes during rollouts
	// (MCM flag --autoscaler-scaledown-annotation-during-rollout).
	AnnotateDuringRollout bool
	// Joining is how the creation timeout of deployments grows whose machines do not join
	// in time; its timeout is of those that set none. The zero value is that it does not.
	Joining joining.Policy
	// PauseFailing pauses a rollout after Joining.Cycles cycles in which no new machine joined.
	PauseFailing bool
	// Fallback is what is known of exhausted classes; nil: nothing.
	Fallback *fallback.Memory
}

// Controller rolls out the template of each MachineDeployment over its MachineSets. It is safe for
// concurrent use by different objects.
type Controller struct {
	Deps
	cache          client.Reader     // what Client reads from, however far it is behind
	own            *fresh.Client     // Client, which reads its own writes
	ownSets        *fresh.Dependents // the same for the sets
	gate           *hold.Gate
	batch          *watch.Batch // of reconciles that sets and machines ask for; nil without a manager
	prunedProgress patch.Dropped[*machinev1.Progress]
}

// New returns a Controller. It wraps d.Client so that the controller reads its own writes.
func New(d Deps) *Controller {
	sets := fresh.NewDependents(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock},
		&machinev1.MachineSet{})
	own := fresh.NewClient(fresh.ClientDeps{Client: sets, Live: d.Live, Clock: d.Clock},
		&machinev1.MachineDeployment{})
	cache := d.Client
	d.Client = own
	return &Controller{Deps: d, cache: cache, own: own, ownSets: sets, gate: hold.New(hold.Deps{
		Client: d.Client, Clock: d.Clock, Events: d.Events,
	})}
}

// Reconcile brings a MachineDeployment closer to its spec. It may be repeated at
// any time. Nothing is done about a deployment that is held for a migration, or
// that has a set or machine which is held.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	d := &machinev1.MachineDeployment{}
	if err := c.Client.Get(ctx, req.NamespacedName, d); err != nil {
		c.batch.Expect(req, 0)
		return outcome.Of(0, client.IgnoreNotFound(err))
	}
	if closed, err := c.gate.Answer(ctx, d); closed || err != nil {
		return outcome.Of(0, err)
	}
	if c.prunedProgress.Known() && d.Status.Progress == nil {
		d.Status.Progress = c.prunedProgress.Get(d.UID).DeepCopy()
	}
	s, err := c.observe(ctx, d)
	if err != nil {
		return outcome.Of(0, err)
	}
	c.batch.Expect(req, 1) // the next set that is whole
	acted := s.act(ctx)
	reported := s.report(ctx)
	return outcome.Of(s.requeue, errors.Join(acted, reported))
}

// act runs the steps. A step that is not ready ends the reconcile: the next step
// needs caches which show what this one has written.
func (s *scope) act(ctx context.Context) error {
	if !s.d.DeletionTimestamp.IsZero() {
		s.bounds, _ = rollout.BoundsOf(s.d) // only for the status; an invalid spec does not prevent deletion
		if s.waitForHold() {
			return nil
		}
		return s.deleteDeployment(ctx)
	}
	s.validate()
	if s.invalid || s.waitForHold() {
		return nil
	}
	steps := []func(context.Context) (bool, error){
		s.adoptSets, s.syncFreeze, s.offerCapacity, s.adaptCreationTimeout, s.pauseFailing, s.markForDeletion,
	}
	for _, step := range steps {
		if ready, err := step(ctx); err != nil || !ready {
			return err
		}
	}
	err := s.reconcileReplicas(ctx)
	return errors.Join(err, s.patchDeployment(ctx))
}

// reconcileReplicas runs the one step that the spec asks for.
func (s *scope) reconcileReplicas(ctx context.Context) error {
	current, others := s.setViews()
	switch rollout.NextStep(s.d, s.bounds, current, others) {
	case rollout.StepScale:
		return s.scale(ctx)
	case rollout.StepRollBack:
		return s.rollBack(ctx)
	case rollout.StepRollingUpdate:
		return s.rollingUpdate(ctx)
	case rollout.StepRecreate:
		return s.recreate(ctx)
	case rollout.StepInPlaceUpdate:
		return s.inPlaceUpdate(ctx)
	case rollout.StepNone:
	}
	return nil
}

func (s *scope) emitNormal(reason, format string, args ...any) {
	s.Events.Eventf(s.d, corev1.EventTypeNormal, reason, format, args...)
}

func (s *scope) emitWarning(reason, format string, args ...any) {
	s.Events.Eventf(s.d, corev1.EventTypeWarning, reason, format, args...)
}
