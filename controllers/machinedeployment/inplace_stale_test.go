package machinedeployment

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// unselectedNodes is a cache of Nodes that does not show yet which of them were selected.
type unselectedNodes struct{ client.Client }

// Get returns a Node as it was before it was selected.
func (c unselectedNodes) Get(ctx context.Context, key client.ObjectKey, o client.Object,
	opts ...client.GetOption,
) error {
	err := c.Client.Get(ctx, key, o, opts...)
	if node, ok := o.(*corev1.Node); ok {
		delete(node.Labels, machinev1.SelectedForUpdateLabel)
	}
	return err
}

// TestInPlaceGrowthOnStaleNodes: a machine is lost beside one that is being updated, which the cache of Nodes does not
// show yet. The new set gets no surge in its place: the updated one will move.
func TestInPlaceGrowthOnStaleNodes(t *testing.T) {
	t.Parallel()
	env := newInPlaceEnv(t, 2, machinev1.OrchestrationTypeAuto, 1, 0)
	env.changeSpec(class("v2"))
	env.until("one is updated", func() bool {
		updating, _ := env.selected()
		return len(updating) == 1
	})
	_, others := env.selected()
	env.terminate(&others[0])
	env.c.Target.Client = unselectedNodes{env.Client}
	env.pass()
	for _, m := range env.machines() {
		if !m.DeletionTimestamp.IsZero() {
			env.playMachine(&m) // it is gone
		}
	}
	env.playSets() // the old set observes that it is asked for one less
	env.pass()
	if got := env.set("v2").Spec.Replicas; got != 1 || env.set("v1").Spec.Replicas != 1 {
		t.Errorf("the new set is asked for %d machines, want 1\n%s", got, env.describe())
	}
}
