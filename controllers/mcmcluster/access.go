package mcmcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

// access is what the kubeconfig of the Cluster allows. Whoever writes it looks at the objects of the
// Cluster, and not into the log of the connections that refuse it. The zero value is that there is none.
type access struct {
	found   *kubeconfig.Connection // nil: there is none, or it is refused
	refused *kubeconfig.RefusedError
	unknown error // the Secret could not be read, and the condition stays as it was
}

// accessTo looks at the kubeconfig of the Cluster.
func (c *Controller) accessTo(ctx context.Context, cluster *clusterv1.Cluster) access {
	found, err := kubeconfig.OfCluster(ctx, c.Client, client.ObjectKeyFromObject(cluster))
	if refused, is := errors.AsType[*kubeconfig.RefusedError](err); is {
		return access{refused: refused}
	}
	if err != nil || found.Cluster == nil {
		return access{unknown: err}
	}
	return access{found: &found}
}

// report sets the condition.
func (a access) report(conditions *[]metav1.Condition, cluster string, set func(metav1.Condition)) {
	is := metav1.Condition{Type: infrav1.KubeconfigSafeCondition, Status: metav1.ConditionFalse}
	switch {
	case a.unknown != nil:
		return
	case a.refused != nil:
		is.Reason, is.Message = infrav1.ReasonKubeconfigRefused, fmt.Sprintf(
			"the kubeconfig is not used: %v (the connection is tried again every 30s)", a.refused)
	case a.found == nil:
		meta.RemoveStatusCondition(conditions, infrav1.KubeconfigSafeCondition)
		return
	case a.found.Unverified() != "":
		is.Reason, is.Message = infrav1.ReasonServerNotVerified, fmt.Sprintf(
			"the API server need not prove who it is: %s in the kubeconfig of Secret %q; use https with "+
				"certificate-authority-data (it is used as it is)", a.found.Unverified(), cluster+kubeconfig.Suffix)
	default:
		is.Status, is.Reason = metav1.ConditionTrue, infrav1.ReasonKubeconfigSafe
	}
	set(is)
}

// ofSecret returns the MCMCluster of the Cluster whose kubeconfig a Secret has.
func (c *Controller) ofSecret(ctx context.Context, o client.Object) []reconcile.Request {
	name, is := strings.CutSuffix(o.GetName(), kubeconfig.Suffix)
	if !is {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: name}, cluster); err != nil {
		return nil // a Cluster that comes later wakes it
	}
	return ofCluster(ctx, cluster)
}
