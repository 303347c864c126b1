package inframachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
)

// nodeDeletionTimeout is how long the removal of a Node is tried when a Cluster goes.
const nodeDeletionTimeout = 5 * time.Minute

// syncNode makes the Node as spec.nodeTemplate asks, with one write if it is not.
// Without a connection to the workload cluster there is nothing to do: the
// connection, and then the Node, wake the machine.
func (c *Controller) syncNode(ctx context.Context, f *facts) error {
	if c.Clusters == nil || f.object.Spec.ProviderID == "" {
		return nil
	}
	workload, err := c.connect(ctx, f)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return nil
	}
	if err != nil {
		return err
	}
	node, err := nodeOf(ctx, workload, f)
	if err != nil || node == nil {
		return err
	}
	return c.applyTemplate(ctx, f, workload, node)
}

// connect returns the workload cluster, whose Nodes wake their machines from then on.
func (c *Controller) connect(ctx context.Context, f *facts) (client.Client, error) {
	workload, err := c.Clusters.GetClient(ctx, client.ObjectKeyFromObject(f.cluster))
	if err != nil {
		return nil, fmt.Errorf("connect to Cluster %s: %w", f.cluster.Name, err)
	}
	return workload, c.watchNodes(ctx, f)
}

// applyTemplate writes the Node, and says how that went.
func (c *Controller) applyTemplate(ctx context.Context, f *facts, workload client.Writer, node *corev1.Node) error {
	want, problems := desired(node, &f.object.Spec.NodeTemplate)
	err := write(ctx, workload, node, want)
	invalid := templateProblems(f, problems)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		f.nodeCondition = conditionFalse(infrav1.ReasonNodeRefused,
			fmt.Sprintf("The API server refuses what spec.nodeTemplate asks for: %v; correct the field that is named there",
				err))
		requeueAfter(f, longRetry)
		return nil
	case err != nil:
		return client.IgnoreNotFound(err)
	case invalid != "":
		f.nodeCondition = conditionFalse(infrav1.ReasonNodeTemplateInvalid, invalid)
	case empty(&f.object.Spec.NodeTemplate):
		f.nodeConditionObsolete = true
	default:
		f.nodeCondition = conditionTrue(infrav1.ReasonNodeSynced)
	}
	return nil
}

// nodeOf returns the machine's Node: that which core has found, or which carries
// the machine's providerID; nil if there is none.
func nodeOf(ctx context.Context, workload client.Reader, f *facts) (*corev1.Node, error) {
	if f.machine != nil && f.machine.Status.NodeRef.IsDefined() {
		node := &corev1.Node{}
		err := workload.Get(ctx, client.ObjectKey{Name: f.machine.Status.NodeRef.Name}, node)
		if err == nil && node.Spec.ProviderID == f.object.Spec.ProviderID {
			return node.DeepCopy(), nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read Node %s: %w", f.machine.Status.NodeRef.Name, err)
		}
	}
	var list corev1.NodeList
	if err := workload.List(ctx, &list, client.MatchingFields{index.NodeByProviderID: f.object.Spec.ProviderID}); err != nil {
		return nil, fmt.Errorf("look up the Node of VM %s: %w", f.object.Spec.ProviderID, err)
	}
	if len(list.Items) != 1 {
		return nil, nil //nolint:nilnil // a Node that nobody can name is none
	}
	return list.Items[0].DeepCopy(), nil
}

// write writes what differs between node and want.
func write(ctx context.Context, workload client.Writer, node, want *corev1.Node) error {
	if equality.Semantic.DeepEqual(node, want) {
		return nil
	}
	if err := target.PatchNode(ctx, workload, node, want); err != nil {
		return fmt.Errorf("write Node %s: %w", node.Name, err)
	}
	return nil
}

// removeNode deletes the Node of a machine whose Cluster is being deleted: core
// leaves it behind then. Where the workload cluster does not answer, it stays.
func (c *Controller) removeNode(ctx context.Context, f *facts) error {
	if c.Clusters == nil || f.vmRetained || f.cluster == nil || f.cluster.DeletionTimestamp.IsZero() ||
		f.object.Spec.ProviderID == "" {
		return nil
	}
	err := c.deleteNode(ctx, f)
	if err == nil || errors.Is(err, clustercache.ErrClusterNotConnected) {
		return nil
	}
	if f.now.Sub(f.object.DeletionTimestamp.Time) < nodeDeletionTimeout {
		return err
	}
	warn(f, eventNodeLeft, "The Node of VM "+f.object.Spec.ProviderID+" could not be deleted and is left: "+
		capi.Clip(err.Error()))
	return nil
}

func (c *Controller) deleteNode(ctx context.Context, f *facts) error {
	workload, err := c.Clusters.GetClient(ctx, client.ObjectKeyFromObject(f.cluster))
	if err != nil {
		return err
	}
	node, err := nodeOf(ctx, workload, f)
	if err != nil || node == nil {
		return err
	}
	opts := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}}
	if err := workload.Delete(ctx, node, opts); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return nil
}
