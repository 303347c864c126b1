package metrics

import (
	"context"
	"strconv"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// MCMMachines are the infrastructure machines.
func MCMMachines() ProviderKind {
	k := newProviderKind("MCMMachine", "mcm_mcmmachine", "provisioned", "1 once the VM has been created.",
		"cluster", "machine_class", "failure_domain", "provider_id")
	k.read = func(ctx context.Context, r client.Reader) ([]provided, error) {
		list := &infrav1.MCMMachineList{}
		if err := r.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		return each(list.Items, func(m *infrav1.MCMMachine) provided {
			class := m.Status.MachineClassName // one of several that the VM may be created from
			if class == "" {
				class = m.Spec.MachineClassRef.Name
			}
			return provided{
				object: m, done: m.Status.Initialization.Provisioned, conditions: m.Status.Conditions,
				info: []string{m.Labels[clusterv1.ClusterNameLabel], class, m.Status.FailureDomain, m.Spec.ProviderID},
			}
		}), nil
	}
	return k
}

// MCMClusters are the infrastructure of Clusters.
func MCMClusters() ProviderKind {
	k := newProviderKind("MCMCluster", "mcm_mcmcluster", "provisioned", "1 once machines may be created.", "cluster")
	k.read = func(ctx context.Context, r client.Reader) ([]provided, error) {
		list := &infrav1.MCMClusterList{}
		if err := r.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		return each(list.Items, func(c *infrav1.MCMCluster) provided {
			return provided{
				object: c, done: c.Status.Initialization.Provisioned, conditions: c.Status.Conditions,
				info: []string{c.Labels[clusterv1.ClusterNameLabel]},
			}
		}), nil
	}
	return k
}

// MCMExternalControlPlanes are the control planes that somebody else runs.
func MCMExternalControlPlanes() ProviderKind {
	k := newProviderKind("MCMExternalControlPlane", "mcm_mcmexternalcontrolplane", "initialized",
		"1 once the API server has answered.", "cluster", "version", "self_hosted")
	k.read = func(ctx context.Context, r client.Reader) ([]provided, error) {
		list := &controlplanev1.MCMExternalControlPlaneList{}
		if err := r.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		return each(list.Items, func(c *controlplanev1.MCMExternalControlPlane) provided {
			selfHosted := c.Spec.SelfHosted != nil && *c.Spec.SelfHosted
			return provided{
				object: c, done: c.Status.Initialization.ControlPlaneInitialized, conditions: c.Status.Conditions,
				info: []string{c.Labels[clusterv1.ClusterNameLabel], c.Status.Version, strconv.FormatBool(selfHosted)},
			}
		}), nil
	}
	return k
}

func each[T any](items []T, show func(*T) provided) []provided {
	all := make([]provided, 0, len(items))
	for i := range items {
		all = append(all, show(&items[i]))
	}
	return all
}
