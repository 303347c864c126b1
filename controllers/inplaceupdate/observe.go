package inplaceupdate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// update is what is known of one Machine that is updated. All of it is read from
// the API servers: a cache may not show what the last call has written, and the
// request is only believed to name a Machine, since anybody who reaches the port
// can send one. Core has written what it asks for before it asks.
type update struct {
	now      time.Time
	machine  *clusterv1.Machine
	infra    *infrav1.MCMMachine
	config   *bootstrapv1.MCMConfig // nil: the boot data is not from one
	made     string                 // spec that the boot data was made from; empty if that is not known
	cluster  client.Client          // the workload cluster
	node     *corev1.Node
	target   string // what the agent is to bring about
	agent    abilities
	agentErr error // why it is not known what the agent can do
}

// observe reads what the update of the Machine with that key depends on. Where
// something is missing, the answer says so. There is no update, and nothing to
// say, of a Machine that core has not marked as being updated.
func (e *Extension) observe(ctx context.Context, key client.ObjectKey) (*update, answer, error) {
	u := &update{now: e.Clock.Now(), machine: &clusterv1.Machine{}}
	if err := e.Live.Get(ctx, key, u.machine); err != nil {
		return nil, answer{}, fmt.Errorf("read Machine %s: %w", key, err)
	}
	if _, marked := u.machine.Annotations[clusterv1.UpdateInProgressAnnotation]; !marked {
		return nil, answer{}, nil
	}
	if a, err := e.readInfra(ctx, u); err != nil || a != (answer{}) {
		return nil, a, err
	}
	if err := e.readBootstrap(ctx, u); err != nil {
		return nil, answer{}, err
	}
	var err error
	if u.target, err = targetOf(u); err != nil {
		return nil, answer{}, err
	}
	u.agent, u.agentErr = abilitiesOf(u.machine.Annotations)
	a, err := e.readNode(ctx, u)
	return u, a, err
}

// readInfra reads the MCMMachine.
func (e *Extension) readInfra(ctx context.Context, u *update) (answer, error) {
	ref := u.machine.Spec.InfrastructureRef
	if ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "MCMMachine" {
		return failed(infrav1.ReasonUpdateImpossible,
			"The infrastructure of Machine %s is a %s: this extension updates MCMMachines only; limit it with "+
				"spec.namespaceSelector of its ExtensionConfig", u.machine.Name, ref.Kind), nil
	}
	u.infra = &infrav1.MCMMachine{}
	key := client.ObjectKey{Namespace: u.machine.Namespace, Name: ref.Name}
	err := e.Live.Get(ctx, key, u.infra)
	switch {
	case apierrors.IsNotFound(err):
		return waiting(last, "MCMMachine %s does not exist", key.Name), nil
	case err != nil:
		return answer{}, fmt.Errorf("read MCMMachine %s: %w", key, err)
	case !u.machine.DeletionTimestamp.IsZero(), !u.infra.DeletionTimestamp.IsZero():
		return waiting(last, "The Machine is being deleted"), nil
	}
	return answer{}, nil
}

// readBootstrap reads the MCMConfig, and what the boot data was made from. Of
// other bootstrap providers nothing is known, and nothing is promised.
func (e *Extension) readBootstrap(ctx context.Context, u *update) error {
	boot := u.machine.Spec.Bootstrap
	if boot.ConfigRef.APIGroup != bootstrapv1.GroupVersion.Group || boot.ConfigRef.Kind != "MCMConfig" {
		return nil
	}
	config := &bootstrapv1.MCMConfig{}
	key := client.ObjectKey{Namespace: u.machine.Namespace, Name: boot.ConfigRef.Name}
	if err := e.Live.Get(ctx, key, config); err != nil {
		return fmt.Errorf("read MCMConfig %s: %w", key, err)
	}
	u.config = config
	if boot.DataSecretName == nil {
		return nil
	}
	var data corev1.Secret
	key.Name = *boot.DataSecretName
	if err := e.Live.Get(ctx, key, &data); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Secret %s: %w", key, err)
	}
	u.made = data.Annotations[bootstrapv1.MadeFromAnnotation]
	return nil
}

// readNode reads the Node that core has found for the Machine.
func (e *Extension) readNode(ctx context.Context, u *update) (answer, error) {
	var err error
	if u.cluster, err = e.Clusters.GetUncachedClient(ctx, client.ObjectKey{
		Namespace: u.machine.Namespace,
		Name:      u.machine.Spec.ClusterName,
	}); err != nil {
		return answer{}, fmt.Errorf("connect to Cluster %s: %w", u.machine.Spec.ClusterName, err)
	}
	name := u.machine.Status.NodeRef.Name
	if name == "" {
		return waiting(last, "The Machine has no Node yet"), nil
	}
	u.node = &corev1.Node{}
	err = u.cluster.Get(ctx, client.ObjectKey{Name: name}, u.node)
	switch {
	case apierrors.IsNotFound(err):
		return waiting(last, "Node %s does not exist; a MachineHealthCheck replaces a Machine that has lost its Node",
			name), nil
	case err != nil:
		return answer{}, fmt.Errorf("read Node %s: %w", name, err)
	case u.node.Spec.ProviderID != u.machine.Spec.ProviderID:
		return waiting(last, "Node %s belongs to VM %q, the Machine to VM %q", name, u.node.Spec.ProviderID,
			u.machine.Spec.ProviderID), nil
	}
	return answer{}, nil
}

// condition of the MCMMachine; nil if it has none of that type. Nothing is
// decided from it.
func (u *update) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(u.infra.Status.Conditions, kind)
}

// encode is what is written down of a bootstrap spec.
func encode(spec bootstrapv1.MCMConfigSpec) (string, error) {
	text, err := json.Marshal(spec)
	return string(text), err
}
