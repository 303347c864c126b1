// Package mcmexternalcontrolplane represents a control plane that somebody else runs: it
// provides the kubeconfig of the Cluster, and reports whether the API server answers, so
// that Cluster API can drain, watch and move the machines of the Cluster.
//
// The user provides the kubeconfig in a Secret. Where the machines join the management
// cluster itself, the controller creates the kubeconfig, for a ServiceAccount.
package mcmexternalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// controllerName is the name of the controller.
const controllerName = "mcmexternalcontrolplane"

const (
	kind           = "MCMExternalControlPlane"
	tokenLifetime  = 24 * time.Hour   // of self-hosted Clusters
	staleRetry     = time.Second      // the newer version arrives by watch; this only guards against a lost event
	renewRetry     = 30 * time.Second // a token is renewed long before it expires
	forbiddenRetry = time.Minute      // no event reports that permissions were granted
	silence        = time.Minute      // opening a connection again takes less
)

// Roles are the names of the ClusterRoles that a ServiceAccount of a self-hosted
// Cluster is bound to. Their rules are those of config/rbac/workload_role.yaml.
type Roles struct {
	Workload string // in the whole cluster
	Tokens   string // in kube-system
}

// DefaultRoles are the names in config/rbac/workload_role.yaml.
func DefaultRoles() Roles {
	return Roles{"capmcm-workload", "capmcm-workload-tokens"}
}

// Deps are what the controller needs; all are required unless said otherwise.
type Deps struct {
	Client   client.Client // reads from a cache with Indexes
	Live     client.Reader // reads from the API server: what belongs to self-hosted Clusters is not watched
	Clusters clustercache.ClusterCache
	Config   *rest.Config // of the management cluster, as this process reaches it
	Clock    clock.PassiveClock
	Events   record.EventRecorder
	// WatchFilter is the value of the label that objects must have; empty is no filter.
	WatchFilter string
	// Roles; the zero value is DefaultRoles.
	Roles Roles
}

// Controller keeps the kubeconfig of a Cluster with an external control plane up to date.
type Controller struct {
	Deps
	own *fresh.Client // Client, which reads its own writes
}

// New returns a Controller.
func New(d Deps) *Controller {
	if d.Roles == (Roles{}) {
		d.Roles = DefaultRoles()
	}
	own := fresh.NewClient(fresh.ClientDeps{Client: d.Client, Live: d.Live, Clock: d.Clock},
		&controlplanev1.MCMExternalControlPlane{})
	d.Client = own
	return &Controller{Deps: d, own: own}
}

// Reconcile updates the kubeconfig Secret, and reports whether the API server answers.
// It does nothing for an object that is paused: after a move, the source must not remove
// anything.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := c.observe(ctx, req.NamespacedName)
	if err != nil || s == nil {
		return outcome.Of(0, err)
	}
	switch {
	case s.paused != "":
		return outcome.Of(0, c.report(ctx, s))
	case !s.cp.DeletionTimestamp.IsZero():
		return c.leave(ctx, s)
	}
	err = s.recordOutcome(c.act(ctx, s))
	return outcome.Of(s.wait, errors.Join(err, c.report(ctx, s)))
}

// recordOutcome records how act has ended, and returns an error that is retried with
// back-off.
func (s *scope) recordOutcome(err error) error {
	if p, told := errors.AsType[*problem](err); told {
		s.problem = p
		return nil
	}
	if apierrors.IsForbidden(err) {
		s.problem = &problem{controlplanev1.ReasonForbidden, s.forbidden(err), true}
		s.wait = forbiddenRetry
		return nil
	}
	s.failed = err != nil
	return err
}

// forbidden names what the API server refused, and how to give the permissions to it. Admission and
// quotas refuse with the same status, so permissions are only the likely cause.
func (s *scope) forbidden(err error) string {
	if !isTrue(s.cp.Spec.SelfHosted) && s.cp.Annotations[controlplanev1.HomeAnnotation] == "" {
		return fmt.Sprintf("the API server refused: %s; if it is for a lack of permissions, bind ClusterRole "+
			"capmcm-control-plane-manager to this manager (tried again every %s)", err, forbiddenRetry)
	}
	return fmt.Sprintf("spec.selfHosted: the API server refused: %s; if it is for a lack of permissions, which are "+
		"opt-in: kubectl apply -f self-hosted-cluster.yaml && kubectl apply -n %s -f self-hosted-namespace.yaml, both of "+
		"the release; with the Helm chart, add this namespace to clusterAPI.selfHosted.namespaces (tried again every %s)",
		err, s.cp.Namespace, forbiddenRetry)
}

// act creates what is missing.
func (c *Controller) act(ctx context.Context, s *scope) error {
	if err := c.claim(ctx, s); err != nil {
		return err
	}
	if s.cluster == nil {
		if err := c.unclaim(ctx, s); err != nil {
			return err
		}
		return wait(controlplanev1.ReasonWaitingForCluster,
			"no Cluster owns this object yet; name it in spec.controlPlaneRef of one")
	}
	made, err := c.kubeconfig(ctx, s)
	if err != nil {
		return err
	}
	if err := c.store(ctx, s, made); err != nil {
		return err
	}
	s.made = &made.Connection
	if err := c.fillEndpoint(ctx, s, made); err != nil {
		return err
	}
	return c.unclaim(ctx, s)
}

// unclaim removes the identity of an object that is self-hosted no longer. Until its
// new kubeconfig is stored, the Cluster uses the one with that identity.
func (c *Controller) unclaim(ctx context.Context, s *scope) error {
	if isTrue(s.cp.Spec.SelfHosted) || s.cp.Annotations[controlplanev1.HomeAnnotation] == "" {
		return nil
	}
	if err := c.removeIdentity(ctx, s); err != nil {
		return err
	}
	return c.patch(ctx, s, func(cp *controlplanev1.MCMExternalControlPlane) {
		machinev1.SetOrRemoveAnnotation(cp, controlplanev1.HomeAnnotation, "")
	})
}

// claim adds the finalizer to the object, before anything is created for it.
func (c *Controller) claim(ctx context.Context, s *scope) error {
	home := s.cp.Annotations[controlplanev1.HomeAnnotation]
	if isTrue(s.cp.Spec.SelfHosted) && home == "" {
		here, err := c.here(ctx)
		if err != nil {
			return err
		}
		// Without the permissions there is nothing to remove later, so the object gets no finalizer.
		if err := c.mayMakeIdentity(ctx, s.cp); err != nil {
			return err
		}
		home = here
	}
	return c.patch(ctx, s, func(cp *controlplanev1.MCMExternalControlPlane) {
		controllerutil.AddFinalizer(cp, machinev1.MCMExternalControlPlaneFinalizer)
		machinev1.SetOrRemoveAnnotation(cp, controlplanev1.HomeAnnotation, home)
	})
}

// kubeconfig returns the kubeconfig that the Cluster should have.
func (c *Controller) kubeconfig(ctx context.Context, s *scope) (access, error) {
	if !s.override().IsZero() && !s.override().IsValid() {
		return access{}, wrong(machinev1.ReasonInvalidSpec, "spec.controlPlaneEndpoint: set both host and port, or none")
	}
	if s.secret != nil && !s.mine() {
		return access{}, wrong(controlplanev1.ReasonSecretNameTaken,
			"Secret %q has the name of the Cluster's kubeconfig and was not created for this object; remove it, or "+
				"rename it and set "+
				"spec.kubeconfigSecretRef.name", s.secret.Name)
	}
	selfHosted := isTrue(s.cp.Spec.SelfHosted)
	switch ref := s.cp.Spec.KubeconfigSecretRef; {
	case selfHosted == (ref != nil):
		return access{}, wrong(machinev1.ReasonInvalidSpec,
			"spec.kubeconfigSecretRef, spec.selfHosted: set exactly one of them")
	case selfHosted:
		return c.ownKubeconfig(ctx, s)
	default:
		return c.givenKubeconfig(ctx, s, ref.Name)
	}
}

// patch applies change to the object, and writes it if it has changed.
func (c *Controller) patch(ctx context.Context, s *scope, change func(*controlplanev1.MCMExternalControlPlane)) error {
	status := s.cp.Status
	changed, err := patch.Change(ctx, c.Client, s.cp, change)
	if err != nil {
		return fmt.Errorf("write MCMExternalControlPlane: %w", err)
	}
	changed.Status = status
	s.cp = changed
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
