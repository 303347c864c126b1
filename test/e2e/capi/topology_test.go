package capi

import (
	"context"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// checkTopology: a Cluster of ClusterClass mcm becomes what the class says. Its
// kubeadm kinds have no controller here.
func checkTopology(t *testing.T, m *management, ctl clusterctl) {
	t.Helper()
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := m.cl.List(t.Context(), &crds); err != nil {
		t.Fatal(err)
	}
	for i := range crds.Items {
		crd := &crds.Items[i]
		if _, labelled := crd.Labels["cluster.x-k8s.io/v1beta2"]; labelled || crd.Spec.Versions[0].Name == "v1alpha1" {
			continue
		}
		before := crd.DeepCopy()
		metav1.SetMetaDataLabel(&crd.ObjectMeta, "cluster.x-k8s.io/v1beta2", "v1beta2") // as kubeadm's bundles do
		if err := m.cl.Patch(t.Context(), crd, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	const namespace, name = "topology", "c9"
	m.namespace(t, namespace)
	all := m.generate(t, ctl, "topology", namespace, name, settings(), "--control-plane-machine-count", "3",
		"--worker-machine-count", "2")
	if err := m.Cluster.Apply(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := stack.Until(t.Context(), wait, func(ctx context.Context) error {
		if err := m.cl.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		return condition(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
	})
	if err != nil {
		t.Fatal(err)
	}
	infra := &infrav1.MCMCluster{}
	if err := m.cl.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: cluster.Spec.InfrastructureRef.Name},
		infra); err != nil {
		t.Fatal(err)
	}
	if got := infra.Spec.ControlPlaneEndpoint; got.Host != "192.0.2.1" || got.Port != 6443 {
		t.Errorf("the MCMCluster has endpoint %v", got)
	}
	var templates infrav1.MCMMachineTemplateList
	if err := m.cl.List(t.Context(), &templates, client.InNamespace(namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		t.Fatal(err)
	}
	for i := range templates.Items {
		if got := templates.Items[i].Spec.Template.Spec.MachineClassRef.Name; got != "existing" {
			t.Errorf("MCMMachineTemplate %s is of class %s", templates.Items[i].Name, got)
		}
	}
	if len(templates.Items) != 2 {
		t.Errorf("%d MCMMachineTemplates, want one for the control plane and one for the workers", len(templates.Items))
	}
	if err := m.cl.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

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
