// Package mcmmachinetemplate reports the capacity of the nodes of an
// MCMMachineTemplate, so that an autoscaler can scale from zero, and templates that were
// edited in place, which existing machines do not follow.
package mcmmachinetemplate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

const slowestRetry = 3 * time.Minute // after errors that pass

// Deps are what a Controller needs; all are required but WatchFilter and Fallback.
type Deps struct {
	Client client.Client // reads from a cache with the indexes of index.Infrastructure
	Live   client.Reader // reads from the API server
	Clouds *cloud.Registry
	Clock  clock.PassiveClock
	Events record.EventRecorder
	// WatchFilter is the value of Cluster API's watch label that objects must carry; empty is all objects.
	WatchFilter string
	// Fallback is what is known of exhausted classes; nil: nothing.
	Fallback *fallback.Memory
}

// Controller keeps the status of MCMMachineTemplates.
type Controller struct {
	Deps
	classes *class.Resolver
	own     *fresh.Client // Client, which reads its own writes
}

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	own := fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock}, &infrav1.MCMMachineTemplate{})
	d.Client = own
	return &Controller{Deps: d, own: own, classes: class.New(d.Clouds)}
}

// scope is what one reconcile has seen.
type scope struct {
	now       time.Time
	object    *infrav1.MCMMachineTemplate // as it is after what this pass has written
	paused    string                      // why it is to be left alone
	edited    bool                        // the spec is not the one that was seen first
	class     string                      // that the next machine gets
	capacity  corev1.ResourceList         // nil: unknown
	info      infrav1.NodeInfo
	condition metav1.Condition // CapacityKnown; without a Type, nothing is known yet
	fromCloud bool             // its message is the cloud's, which changes from call to call
}

// Reconcile updates the status of an MCMMachineTemplate.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &infrav1.MCMMachineTemplate{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return outcome.Of(0, client.IgnoreNotFound(err))
	}
	switch {
	case !object.DeletionTimestamp.IsZero(), !capi.Watched(object, c.WatchFilter), capi.Moving(object):
		return reconcile.Result{}, nil
	case capi.OwnedByClusterClass(object):
		// A status from before the ClusterClass owned it means nothing.
		_, err := c.save(ctx, object, infrav1.MCMMachineTemplateStatus{})
		return outcome.Of(0, err)
	}
	s := &scope{now: c.Clock.Now(), object: object.DeepCopy()}
	wait, err := c.act(ctx, s)
	if err != nil {
		return outcome.Of(0, err)
	}
	return outcome.Of(wait, c.write(ctx, s))
}

func (c *Controller) act(ctx context.Context, s *scope) (time.Duration, error) {
	cluster, _, err := capi.ClusterOf(ctx, c.Client, s.object)
	if err != nil {
		return 0, err
	}
	if s.paused = capi.Paused(cluster, s.object); s.paused != "" {
		return 0, nil
	}
	if err := c.compare(ctx, s); err != nil {
		return 0, err
	}
	return c.findCapacity(ctx, s)
}

// compare records the spec as it was first observed, and whether it has changed since.
func (c *Controller) compare(ctx context.Context, s *scope) error {
	edited, first, err := capi.Edited(s.object, s.object.Spec)
	if s.edited = edited; err != nil || first == "" {
		return err
	}
	changed := s.object.DeepCopy()
	machinev1.SetAnnotation(changed, infrav1.SpecHashAnnotation, first)
	if err := patch.Object(ctx, c.Client, s.object, changed); err != nil {
		return err
	}
	s.object = changed
	return nil
}

// findCapacity finds the capacity of the next node: in the class that it will have, else from the cloud.
func (c *Controller) findCapacity(ctx context.Context, s *scope) (time.Duration, error) {
	names := s.object.Spec.Template.Spec.ClassNames()
	all, err := fallback.Candidates(ctx, c.Client, c.classes.ResolveForTemplate,
		fallback.Pool{Namespace: s.object.Namespace, Classes: names})
	if err != nil {
		return 0, err
	}
	coming := c.Fallback.Coming(all, s.object.Status.MachineClassName)
	s.class = coming.Name
	wait := c.capacityOf(ctx, s, coming.Resolved)
	if coming.Name != names[0] && s.condition.Status == metav1.ConditionTrue {
		s.condition.Message = fmt.Sprintf("capacity of MachineClass %s, since the cloud has refused the classes before it",
			coming.Name)
	}
	return wait, nil
}

// capacityOf finds the capacity of the nodes of a class, and returns when it is worth another look.
func (c *Controller) capacityOf(ctx context.Context, s *scope, resolved class.Resolved) time.Duration {
	if found, info, ok := ofClass(resolved); ok {
		s.setCapacity(found, info, infrav1.ReasonCapacityOfClass)
		return 0
	}
	found, err := c.ask(ctx, resolved)
	if err == nil {
		capacity, info, problem := ofCloud(found)
		if problem == "" {
			s.setCapacity(capacity, info, infrav1.ReasonCapacityOfCloud)
			return 0
		}
		err = cloud.Errorf(cloud.Unknown, "look up capacity", "InvalidCapacity", "%s", problem)
	}
	s.fromCloud = cloud.CodeOf(err) != cloud.Invalid
	s.condition = metav1.Condition{
		Type: infrav1.CapacityKnownCondition, Status: metav1.ConditionFalse, Reason: reasonOf(err),
		Message: err.Error() + "; correct that, or set nodeTemplate of the MachineClass",
	}
	return max(outcome.After(err, 0), slowestRetry)
}

func (c *Controller) ask(ctx context.Context, r class.Resolved) (cloud.Capacity, error) {
	account, err := r.Account(ctx)
	if err != nil {
		return cloud.Capacity{}, err
	}
	return account.Capacity(ctx, r.Class)
}

func (s *scope) setCapacity(capacity corev1.ResourceList, info infrav1.NodeInfo, reason string) {
	s.capacity, s.info = capacity, info
	s.condition = metav1.Condition{Type: infrav1.CapacityKnownCondition, Status: metav1.ConditionTrue, Reason: reason}
}

// write writes the status if it has changed, and emits an Event for what the user has to
// correct.
func (c *Controller) write(ctx context.Context, s *scope) error {
	status := report(s)
	changed, err := c.save(ctx, s.object, status)
	if err != nil || changed == nil {
		return err
	}
	was := meta.FindStatusCondition(s.object.Status.Conditions, clusterv1.ReadyCondition)
	is := meta.FindStatusCondition(status.Conditions, clusterv1.ReadyCondition)
	if is != nil && is.Status == metav1.ConditionFalse && (was == nil || was.Reason != is.Reason) {
		c.Events.Event(changed, corev1.EventTypeWarning, is.Reason, is.Message)
	}
	return nil
}

// save writes a status, if it differs, and returns the object as it is then; nil
// if nothing was written.
func (c *Controller) save(ctx context.Context, object *infrav1.MCMMachineTemplate,
	status infrav1.MCMMachineTemplateStatus,
) (*infrav1.MCMMachineTemplate, error) {
	if equality.Semantic.DeepEqual(status, object.Status) {
		return nil, nil //nolint:nilnil // nothing written is no failure
	}
	changed := object.DeepCopy()
	changed.Status = status
	if err := patch.Status(ctx, c.Client, object, changed); err != nil {
		return nil, client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	return changed, nil
}

// reasonOf returns the condition reason for a lookup that failed.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.Invalid && e.Reason != "" {
		return e.Reason
	}
	return outcome.Reason(err)
}
