package capi

import (
	"fmt"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// classLife is the life of a Cluster of ClusterClass mcm-workers.
func classLife(t *testing.T, p *pool) {
	t.Helper()
	class, secret := p.nodes.Class("existing", "small")
	class.Namespace, secret.Namespace, class.SecretRef.Namespace = p.namespace, p.namespace, p.namespace
	for _, o := range []client.Object{secret, class} {
		if err := p.m.cl.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	p.variables["MACHINE_CLASS_NAME"], p.variables["SELF_HOSTED"] = class.Name, "true"
	p.apply(t, "topology-workers", 2)
	p.until(t, "two workers of a ClusterClass", p.settled(2))
	p.until(t, "the Cluster of a ClusterClass is available", p.available)
	c := &clusterv1.Cluster{}
	if err := p.m.cl.Get(t.Context(), p.key(p.name), c); err != nil {
		t.Fatal(err)
	}
	before := c.DeepCopy()
	c.Spec.Topology.Workers.MachineDeployments[0].Replicas = new(int32(3))
	if err := p.m.cl.Patch(t.Context(), c, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.until(t, "one more worker of a ClusterClass", p.settled(3))
	p.remove(t)
}

// only returns the one object of a list.
func only[T any](all []T) (*T, error) {
	if len(all) != 1 {
		return nil, fmt.Errorf("%d objects, want 1", len(all))
	}
	return &all[0], nil
}
