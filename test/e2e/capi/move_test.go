package capi

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// lives are all VMs that there ever were, and whether they were asked to go.
func (p *pool) lives(ctx context.Context) (map[string]bool, error) {
	ledger, err := p.nodes.Cloud.Ledger(ctx, "vm")
	lives := map[string]bool{}
	for _, vm := range ledger {
		lives[vm.ID] = vm.Deleting.IsZero()
	}
	return lives, err
}

// move moves the Cluster to another management cluster. No VM is made or goes
// for it, and everything that a later change needs has come along.
func (p *pool) move(t *testing.T, to *management, workers int) *pool {
	t.Helper()
	to.namespace(t, p.namespace)
	before, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.ctl.must(t, nil, "move", "-n", p.namespace, "--kubeconfig", p.m.Cluster.Kubeconfig(), "--to-kubeconfig", to.Cluster.Kubeconfig())
	moved := *p
	moved.m = to
	moved.until(t, "the moved Cluster is available", moved.available)
	moved.until(t, "its workers are", moved.settled(workers))
	p.until(t, "nothing is left where it was", func(ctx context.Context) error {
		for _, list := range []client.ObjectList{&machinev1.MachineClassList{}, &infrav1.MCMMachineList{}, &infrav1.MCMClusterList{}, &infrav1.MCMMachineTemplateList{}} {
			if err := p.m.cl.List(ctx, list, client.InNamespace(p.namespace)); err != nil {
				return err
			}
			if n := length(list); n > 0 {
				return fmt.Errorf("%d in %T", n, list)
			}
		}
		return nil
	})
	after, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the move has touched VMs (-before +after):\n%s", diff)
	}
	return &moved
}

func length(list client.ObjectList) int {
	switch l := list.(type) {
	case *machinev1.MachineClassList:
		return len(l.Items)
	case *infrav1.MCMMachineList:
		return len(l.Items)
	case *infrav1.MCMClusterList:
		return len(l.Items)
	case *infrav1.MCMMachineTemplateList:
		return len(l.Items)
	}
	return 0
}
