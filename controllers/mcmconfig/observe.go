package mcmconfig

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// scope is what one reconcile has observed and decided.
type scope struct {
	now     time.Time
	config  *bootstrapv1.MCMConfig
	machine *clusterv1.Machine // nil until one owns the config
	cluster *clusterv1.Cluster // nil if it is not known
	secret  *corev1.Secret     // with the data; nil if there is none
	paused  string             // why the object is paused; empty if it is not

	created bool   // the data exists, or has been used
	reason  string // why not, or what is wrong
	message string
	invalid bool // the user has to correct something
	wait    time.Duration
}

// observe reads all that a decision needs, from the cache. Without anything to
// do it returns nil.
func (c *Controller) observe(ctx context.Context, key client.ObjectKey) (*scope, error) {
	config := &bootstrapv1.MCMConfig{}
	if err := c.Client.Get(ctx, key, config); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() || !capi.Watched(config, c.WatchFilter) {
		return nil, nil //nolint:nilnil // nothing to do is not an error
	}
	s := &scope{now: c.Clock.Now(), config: config}
	var err error
	if s.machine, err = capi.MachineOf(ctx, c.Client, config); err != nil {
		return nil, err
	}
	if s.cluster, _, err = capi.ClusterOf(ctx, c.Client, config); err != nil {
		return nil, err
	}
	if s.secret, err = c.secretAt(ctx, key); err != nil {
		return nil, err
	}
	s.paused = capi.Paused(s.cluster, config)
	return s, nil
}

// secretAt returns the Secret of that key, nil if there is none.
func (c *Controller) secretAt(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return secret, nil
}

// mine reports whether the data Secret belongs to the config: it has Cluster API's type,
// and no other object controls it. It may have lost its owner reference in a restore.
func (s *scope) mine() bool {
	owner := metav1.GetControllerOf(s.secret)
	return s.secret.Type == clusterv1.ClusterSecretType && (owner == nil || owner.Kind == kind &&
		owner.Name == s.config.Name)
}

// begun reports whether the Machine has its VM, as far as Cluster API knows.
func (s *scope) begun() bool {
	return s.machine != nil && (s.machine.Spec.ProviderID != "" || s.joined())
}

// joined reports whether the Machine has its Node.
func (s *scope) joined() bool { return s.machine != nil && s.machine.Status.NodeRef.IsDefined() }

// open reports whether the data may be created now, and records what it waits for.
// Source: Cluster API contract v1beta2, bootstrap config.
func (s *scope) open() bool {
	switch {
	case !s.machine.DeletionTimestamp.IsZero():
		s.waitFor(bootstrapv1.ReasonWaitingForMachine, "Machine %q is being deleted", s.machine.Name)
	case s.cluster == nil:
		s.waitFor(bootstrapv1.ReasonWaitingForCluster, "there is no Cluster %q yet", s.machine.Spec.ClusterName)
	case s.cluster.Status.Initialization.InfrastructureProvisioned == nil ||
		!*s.cluster.Status.Initialization.InfrastructureProvisioned:
		s.waitFor(bootstrapv1.ReasonWaitingForInfra, "the infrastructure of Cluster %q is not provisioned yet",
			s.cluster.Name)
	case !util.IsControlPlaneMachine(s.machine) &&
		!conditions.IsTrue(s.cluster, clusterv1.ClusterControlPlaneInitializedCondition):
		s.waitFor(bootstrapv1.ReasonWaitingForControlPlane,
			"the control plane of Cluster %q is not initialized yet; one that runs elsewhere needs an MCMExternalControlPlane "+
				"as spec.controlPlaneRef", s.cluster.Name)
	default:
		return true
	}
	return false
}

// waitFor records what the config waits for.
func (s *scope) waitFor(reason, format string, args ...any) {
	s.reason, s.message = reason, fmt.Sprintf(format, args...)
}

// refuse records what the user has to correct.
func (s *scope) refuse(reason, format string, args ...any) {
	s.waitFor(reason, format, args...)
	s.invalid = true
}

// clusterKey is where the Cluster is.
func (s *scope) clusterKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.config.Namespace, Name: s.machine.Spec.ClusterName}
}

// nodeName is the name that the node will register with: that of the VM, which
// is the infrastructure machine's.
func (s *scope) nodeName() string {
	if name := s.machine.Spec.InfrastructureRef.Name; name != "" {
		return name
	}
	return s.machine.Name
}

// ownerID is the durable id that tokens are derived from: that of the data once
// there is some, so that a move does not change it.
func (s *scope) ownerID() string {
	if s.secret != nil && s.secret.Annotations[machinev1.OwnerIDAnnotation] != "" {
		return s.secret.Annotations[machinev1.OwnerIDAnnotation]
	}
	return string(s.config.UID)
}

// attempt is the number of the token that the data holds, 0 if there is none to
// look after: it holds none, or that one has done its duty.
func (s *scope) attempt() int {
	n, err := strconv.Atoi(s.secret.Annotations[machinev1.CreateAttemptAnnotation])
	if err != nil {
		return 0
	}
	return max(n, 0)
}
