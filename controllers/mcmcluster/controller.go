// Package mcmcluster reconciles MCMClusters. It creates nothing in the cloud: it
// reports that machines may be created, and in which failure domains, and keeps the
// finalizer of an MCMCluster until its machines are gone.
package mcmcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

const (
	waitRetry = 30 * time.Second // the machines' own deletions wake their cluster at once

	eventDeletionWaits = "DeletionWaits"
)

// Deps are what a Controller needs; all are required but WatchFilter.
type Deps struct {
	Client  client.Client // reads from a cache with the indexes of index.Infrastructure
	Live    client.Reader // reads from the API server
	Classes *class.Resolver
	Clock   clock.PassiveClock
	Events  record.EventRecorder
	// WatchFilter is the value of Cluster API's watch label that objects must carry; empty is all objects.
	WatchFilter string
}

// Controller reconciles MCMClusters.
type Controller struct {
	Deps
	own *fresh.Client // Client, which reads its own writes
}

// New returns a Controller that has seen nothing yet.
func New(d Deps) *Controller {
	own := fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock}, &infrav1.MCMCluster{})
	d.Client = own
	return &Controller{Deps: d, own: own}
}

// scope is what one reconcile has observed.
type scope struct {
	now      time.Time
	before   *infrav1.MCMCluster // as read; never modified
	object   *infrav1.MCMCluster // as it is after what this pass has written
	cluster  *clusterv1.Cluster  // nil: there is none, or it is not known
	named    string              // name of the Cluster, empty if nothing names one
	paused   string              // why it is paused; empty if it is not
	domains  domains
	access   access
	left     []string // names of the MCMMachines that a deletion waits for, sorted
	released bool
}

// Reconcile updates the status of an MCMCluster, and removes its finalizer when none of
// its machines is left. It does nothing for one that is managed externally.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &infrav1.MCMCluster{}
	if err := c.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return outcome.Of(0, client.IgnoreNotFound(err))
	}
	if capi.Externally(object) || !capi.Watched(object, c.WatchFilter) {
		return reconcile.Result{}, nil
	}
	s := &scope{now: c.Clock.Now(), before: object, object: object.DeepCopy()}
	wait, err := c.act(ctx, s)
	if err != nil {
		return outcome.Of(0, err)
	}
	return outcome.Of(wait, errors.Join(s.access.unknown, c.write(ctx, s)))
}

// act finds the Cluster of the object, and takes the one action that follows.
func (c *Controller) act(ctx context.Context, s *scope) (time.Duration, error) {
	var err error
	if s.cluster, s.named, err = capi.ClusterOf(ctx, c.Client, s.object); err != nil {
		return 0, err
	}
	s.paused = capi.Paused(s.cluster, s.object)
	switch {
	case s.paused != "", capi.Moving(s.object):
		return 0, nil
	case !s.object.DeletionTimestamp.IsZero():
		return c.leave(ctx, s)
	case s.cluster == nil:
		return 0, nil // its owner reference wakes it
	}
	if s.domains, err = c.domainsOf(ctx, s); err != nil {
		return 0, err
	}
	s.access = c.accessTo(ctx, s.cluster)
	return s.domains.adopting, c.claim(ctx, s)
}

// claim adds the finalizer and the owner ID to the object.
func (c *Controller) claim(ctx context.Context, s *scope) error {
	changed := s.object.DeepCopy()
	controllerutil.AddFinalizer(changed, machinev1.MCMClusterFinalizer)
	machinev1.SetAnnotation(changed, machinev1.OwnerIDAnnotation, machinev1.OwnerID(s.object))
	if equality.Semantic.DeepEqual(changed.ObjectMeta, s.object.ObjectMeta) {
		return nil
	}
	if err := patch.Object(ctx, c.Client, s.object, changed); err != nil {
		return err
	}
	s.object = changed
	return nil
}

// leave removes the finalizer when no machine of the Cluster is left. The API server has
// to confirm that: a machine that the cache does not show yet needs this object.
func (c *Controller) leave(ctx context.Context, s *scope) (time.Duration, error) {
	if !slices.Contains(s.object.Finalizers, machinev1.MCMClusterFinalizer) {
		return 0, nil
	}
	if s.named != "" {
		inCluster := client.MatchingFields{index.MCMMachineByCluster: s.named}
		if err := c.machines(ctx, c.Client, s, inCluster); err != nil {
			return 0, err
		}
		if len(s.left) == 0 {
			if err := c.machines(ctx, c.Live, s, client.MatchingLabels{clusterv1.ClusterNameLabel: s.named}); err != nil {
				return 0, err
			}
		}
	}
	if len(s.left) > 0 {
		return waitRetry, nil
	}
	if err := patch.RemoveFinalizer(ctx, c.Client, s.object.DeepCopy(), machinev1.MCMClusterFinalizer); err != nil {
		return 0, err
	}
	s.released = true
	return 0, nil
}

// machines records the MCMMachines that r shows.
func (c *Controller) machines(ctx context.Context, r client.Reader, s *scope, which client.ListOption) error {
	var list infrav1.MCMMachineList
	if err := r.List(ctx, &list, client.InNamespace(s.object.Namespace), which); err != nil {
		return fmt.Errorf("look up MCMMachines of Cluster %s: %w", s.named, err)
	}
	for i := range list.Items {
		s.left = append(s.left, list.Items[i].Name)
	}
	slices.Sort(s.left)
	return nil
}

// write writes the status if it has changed.
func (c *Controller) write(ctx context.Context, s *scope) error {
	if s.released {
		return nil
	}
	status := report(s)
	if equality.Semantic.DeepEqual(status, s.object.Status) {
		return nil
	}
	changed := s.object.DeepCopy()
	changed.Status = status
	if err := patch.Status(ctx, c.Client, s.object, changed); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	c.announce(s, status)
	return nil
}

// announce emits an Event for what a deletion waits for, and for a kubeconfig that somebody has to
// correct, once.
func (c *Controller) announce(s *scope, status infrav1.MCMClusterStatus) {
	is := meta.FindStatusCondition(status.Conditions, clusterv1.DeletingCondition)
	if is != nil && isNews(s, is) && len(s.left) > 0 {
		c.Events.Event(s.object, corev1.EventTypeNormal, eventDeletionWaits, is.Message)
	}
	is = meta.FindStatusCondition(status.Conditions, infrav1.KubeconfigSafeCondition)
	if is != nil && isNews(s, is) && is.Status == metav1.ConditionFalse {
		c.Events.Event(s.object, corev1.EventTypeWarning, is.Reason, is.Message)
	}
}

// isNews reports whether the object had no such condition, or one with another message.
func isNews(s *scope, is *metav1.Condition) bool {
	was := meta.FindStatusCondition(s.before.Status.Conditions, is.Type)
	return was == nil || was.Message != is.Message
}

// waitsFor returns what a deletion waits for.
func waitsFor(left []string) string {
	const most = 5
	text := strings.Join(left[:min(len(left), most)], ", ")
	if len(left) > most {
		text += fmt.Sprintf(" and %d more", len(left)-most)
	}
	return fmt.Sprintf("%d MCMMachines of the Cluster still exist: %s", len(left), text)
}
