package mcmexternalcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

// scope is what one reconcile has seen, and what it makes of it.
type scope struct {
	now      time.Time
	cp       *controlplanev1.MCMExternalControlPlane
	cluster  *clusterv1.Cluster  // nil until one owns the object
	secret   *corev1.Secret      // the Cluster's kubeconfig; nil if there is none
	machines []clusterv1.Machine // of the Cluster
	paused   string              // why this object is to be left alone; empty if it is not

	connected bool          // there is a connection to the API server
	answered  time.Duration // since it answered last; negative if it never did

	version    string // of the API server, as it reports it
	versionErr error  // why that is not known

	made    *kubeconfig.Connection // of the Cluster's kubeconfig; nil if none was made
	problem *problem               // with the kubeconfig; nil if it is as it should be
	failed  bool                   // that is not known: an error has ended the work on it
	wait    time.Duration
}

// problem is why there is no kubeconfig.
type problem struct {
	reason, message string
	bad             bool // somebody has to correct something
}

// Error names the field and the remedy.
func (p *problem) Error() string { return p.message }

func wrong(reason, format string, args ...any) error {
	return &problem{reason, fmt.Sprintf(format, args...), true}
}

func wait(reason, format string, args ...any) error {
	return &problem{reason, fmt.Sprintf(format, args...), false}
}

// observe reads all that a decision needs, from the cache, and asks the API server of
// the Cluster for its version. Without anything to do it returns nil.
func (c *Controller) observe(ctx context.Context, key client.ObjectKey) (*scope, error) {
	cp := &controlplanev1.MCMExternalControlPlane{}
	if err := c.Client.Get(ctx, key, cp); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !capi.Watched(cp, c.WatchFilter) {
		return nil, nil //nolint:nilnil // nothing to do is not an error
	}
	cluster, _, err := capi.ClusterOf(ctx, c.Client, cp)
	if err != nil {
		return nil, err
	}
	s := &scope{
		now: c.Clock.Now(), cp: cp, cluster: cluster, paused: capi.Paused(cluster, cp), answered: -1,
		versionErr: clustercache.ErrClusterNotConnected,
	}
	if cluster == nil {
		return s, nil
	}
	secret := &corev1.Secret{}
	err = c.Client.Get(ctx, s.secretKey(), secret)
	switch {
	case err == nil:
		s.secret = secret
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read Secret %s: %w", s.secretKey(), err)
	}
	var machines clusterv1.MachineList
	if err := c.Client.List(ctx, &machines, client.InNamespace(cp.Namespace),
		client.MatchingFields{machinesByCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list Machines of Cluster: %w", err)
	}
	s.machines = machines.Items
	c.observeConnection(ctx, s)
	c.observeVersion(ctx, s)
	return s, nil
}

// observeConnection asks the connections, which probe the API server by
// themselves.
func (c *Controller) observeConnection(ctx context.Context, s *scope) {
	_, err := c.Clusters.GetReader(ctx, client.ObjectKeyFromObject(s.cluster))
	s.connected = err == nil
	if at := c.Clusters.GetHealthCheckingState(ctx,
		client.ObjectKeyFromObject(s.cluster)).LastProbeSuccessTime; !at.IsZero() {
		s.answered = max(s.now.Sub(at), 0)
	}
}

// secretKey is where the kubeconfig of the Cluster is.
// Source: Cluster API contract v1beta2, control plane, "Cluster kubeconfig management".
func (s *scope) secretKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Name + kubeconfig.Suffix}
}

// reconnecting reports whether the API server has answered a moment ago: a connection
// that is opened again is no outage.
func (s *scope) reconnecting() bool {
	return !s.connected && s.answered >= 0 && s.answered < silence
}

// mine reports whether the kubeconfig Secret is this object's. The owner reference
// alone does not say it, since it may have been lost in a restore.
func (s *scope) mine() bool {
	owner := metav1.GetControllerOf(s.secret)
	if owner != nil {
		return owner.Kind == kind && owner.Name == s.cp.Name
	}
	return s.secret.Type == clusterv1.ClusterSecretType && s.secret.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name
}

// override is the endpoint that the user wants; zero if it was filled in here.
func (s *scope) override() clusterv1.APIEndpoint {
	e := s.cp.Spec.ControlPlaneEndpoint
	if !e.IsZero() && e.String() == s.cp.Annotations[controlplanev1.FilledEndpointAnnotation] {
		return clusterv1.APIEndpoint{}
	}
	return e
}
