package mcmmachine

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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/nodetemplate"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/internal/kubeconfig"
)

// nodeDeletionTimeout is how long the removal of a Node is tried when a Cluster goes.
const nodeDeletionTimeout = 5 * time.Minute

// syncNode makes the Node as spec.nodeTemplate asks, with one write if it is not.
// Without a connection to the workload cluster there is nothing to do: the
// connection, and then the Node, wake the machine.
func (c *Controller) syncNode(ctx context.Context, p *pass) error {
	if c.Clusters == nil || p.object.Spec.ProviderID == "" {
		return nil
	}
	workload, err := c.connect(ctx, p)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		c.tellRefused(ctx, p)
		return nil
	}
	if err != nil {
		return err
	}
	node, err := nodeOf(ctx, workload, p)
	if err != nil || node == nil {
		return err
	}
	return c.applyTemplate(ctx, p, workload, node)
}

// tellRefused reports that the Node cannot be written since the kubeconfig of the Cluster is refused, if
// that is why there is no connection.
func (c *Controller) tellRefused(ctx context.Context, p *pass) {
	if empty(&p.object.Spec.NodeTemplate) {
		return
	}
	if refused := kubeconfig.Refused(ctx, c.Client, client.ObjectKeyFromObject(p.seen.cluster)); refused != nil {
		p.did.nodeCondition = conditionFalse(infrav1.ReasonKubeconfigRefused, fmt.Sprintf(
			"there is no connection to the workload cluster, since its kubeconfig is not used: %v (the connection is tried "+
				"again every 30s)", refused))
	}
}

// connect returns the workload cluster, whose Nodes wake their machines from then on.
func (c *Controller) connect(ctx context.Context, p *pass) (client.Client, error) {
	workload, err := c.Clusters.GetClient(ctx, client.ObjectKeyFromObject(p.seen.cluster))
	if err != nil {
		return nil, fmt.Errorf("connect to Cluster %s: %w", p.seen.cluster.Name, err)
	}
	return workload, c.watchNodes(ctx, p)
}

// applyTemplate writes the Node, and reports the result.
func (c *Controller) applyTemplate(ctx context.Context, p *pass, workload client.Writer, node *corev1.Node) error {
	want, problems := nodetemplate.ApplyMCMMachine(node, &p.object.Spec.NodeTemplate)
	err := write(ctx, workload, node, want)
	for _, found := range problems {
		if found.Note { // a repaired record of what was applied
			warn(p, eventInvalidNote, found.Text)
		}
	}
	invalid := nodetemplate.Invalid(problems)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		p.did.nodeCondition = conditionFalse(infrav1.ReasonNodeRefused,
			fmt.Sprintf("The API server refuses what spec.nodeTemplate asks for: %v; correct the field that is named there",
				err))
		requeueAfter(p, longRetry)
		return nil
	case err != nil:
		return client.IgnoreNotFound(err)
	case invalid != "":
		p.did.nodeCondition = conditionFalse(infrav1.ReasonNodeTemplateInvalid, invalid)
	case empty(&p.object.Spec.NodeTemplate):
		p.did.nodeConditionObsolete = true
	default:
		p.did.nodeCondition = conditionTrue(infrav1.ReasonNodeSynced)
	}
	return nil
}

// nodeOf returns the machine's Node: that which core has found, or which carries
// the machine's providerID; nil if there is none.
func nodeOf(ctx context.Context, workload client.Reader, p *pass) (*corev1.Node, error) {
	if p.seen.machine != nil && p.seen.machine.Status.NodeRef.IsDefined() {
		node := &corev1.Node{}
		err := workload.Get(ctx, client.ObjectKey{Name: p.seen.machine.Status.NodeRef.Name}, node)
		if err == nil && node.Spec.ProviderID == p.object.Spec.ProviderID {
			return node.DeepCopy(), nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read Node %s: %w", p.seen.machine.Status.NodeRef.Name, err)
		}
	}
	var list corev1.NodeList
	same := client.MatchingFields{index.NodeByProviderID: p.object.Spec.ProviderID}
	if err := workload.List(ctx, &list, same); err != nil {
		return nil, fmt.Errorf("look up the Node of VM %s: %w", p.object.Spec.ProviderID, err)
	}
	if len(list.Items) != 1 {
		return nil, nil //nolint:nilnil // an ambiguous Node is none
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
func (c *Controller) removeNode(ctx context.Context, p *pass) error {
	if c.Clusters == nil || p.did.vmRetained || p.seen.cluster == nil || p.seen.cluster.DeletionTimestamp.IsZero() ||
		p.object.Spec.ProviderID == "" {
		return nil
	}
	err := c.deleteNode(ctx, p)
	if err == nil || errors.Is(err, clustercache.ErrClusterNotConnected) {
		return nil
	}
	if p.seen.now.Sub(p.object.DeletionTimestamp.Time) < nodeDeletionTimeout {
		return err
	}
	warn(p, eventNodeLeft, "The Node of VM "+p.object.Spec.ProviderID+" could not be deleted and is left: "+
		message.Truncate(err.Error(), message.Limit))
	return nil
}

func (c *Controller) deleteNode(ctx context.Context, p *pass) error {
	workload, err := c.Clusters.GetClient(ctx, client.ObjectKeyFromObject(p.seen.cluster))
	if err != nil {
		return err
	}
	node, err := nodeOf(ctx, workload, p)
	if err != nil || node == nil {
		return err
	}
	opts := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}}
	if err := workload.Delete(ctx, node, opts); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return nil
}

func empty(t *infrav1.NodeTemplate) bool {
	return len(t.Labels) == 0 && len(t.Annotations) == 0 && len(t.Taints) == 0
}
