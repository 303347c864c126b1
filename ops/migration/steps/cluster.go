package steps

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// ensureCluster makes the Cluster of the pool if there is none, and says what it waits for.
func (e *Engine) ensureCluster(ctx context.Context, m *move, s *migration.PoolState) (string, error) {
	if s.Cluster.Cluster == nil {
		for _, o := range clusterObjects(m.Pool.Namespace, m.options()) {
			if err := client.IgnoreAlreadyExists(e.Control.Create(ctx, o)); err != nil {
				return "", fmt.Errorf("make %s: %w", objects.Title(o), err)
			}
		}
		return "Cluster " + m.Cluster + " is being made", nil
	}
	c := s.Cluster.Cluster
	switch {
	case !c.DeletionTimestamp.IsZero():
		return "", fmt.Errorf("Cluster %s is being deleted", c.Name) //nolint:staticcheck // a kind's name
	case ptr.Deref(c.Spec.Paused, false):
		return fmt.Sprintf("Cluster %s is paused (spec.paused): unpause it", c.Name), nil
	case !ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false):
		return fmt.Sprintf("the infrastructure of Cluster %s is not provisioned", c.Name), nil
	case !ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false):
		return fmt.Sprintf("the control plane of Cluster %s has not answered yet", c.Name), nil
	}
	return "", nil
}

// clusterObjects are a Cluster whose control plane is somebody else's, and what it names.
func clusterObjects(namespace string, o migration.Options) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: o.Cluster}
	controlPlane := &controlplanev1.MCMExternalControlPlane{ObjectMeta: meta}
	if o.KubeconfigSecret != "" {
		controlPlane.Spec.KubeconfigSecretRef = &controlplanev1.NameReference{Name: o.KubeconfigSecret}
	} else {
		controlPlane.Spec.SelfHosted = new(true)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMCluster", Name: o.Cluster,
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "MCMExternalControlPlane", Name: o.Cluster,
	}
	return []client.Object{&infrav1.MCMCluster{ObjectMeta: meta}, controlPlane, cluster}
}
