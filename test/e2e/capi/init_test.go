package capi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deploymentArgs returns the arguments of the container named manager.
func deploymentArgs(ctx context.Context, cl client.Client, p provider) ([]string, error) {
	var d appsv1.Deployment
	if err := cl.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.deployment}, &d); err != nil {
		return nil, err
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == "manager" {
			return expanded(c), nil
		}
	}
	return nil, fmt.Errorf("%s has no container named manager", p.deployment)
}

// expanded are the arguments of a container with the variables of its environment, but
// for those that the kubelet fills in.
func expanded(c corev1.Container) []string {
	var pairs []string
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			pairs = append(pairs, "$("+e.Name+")", e.Value)
		}
	}
	var args []string
	for _, arg := range c.Args {
		args = append(args, strings.NewReplacer(pairs...).Replace(arg))
	}
	return args
}

// checkInit: clusterctl has installed our providers from files alone.
func checkInit(t *testing.T, m *management) {
	t.Helper()
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := m.cl.List(t.Context(), &crds, client.HasLabels{"clusterctl.cluster.x-k8s.io"}); err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, crd := range crds.Items {
		switch crd.Spec.Group {
		case "machine.sapcloud.io":
			if crd.Spec.Names.Kind != "MachineClass" {
				t.Errorf("clusterctl init has installed %s: the native API is opt-in", crd.Name)
			}
			ours++
		case "infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io":
			if crd.Labels["cluster.x-k8s.io/v1beta2"] != "v1alpha1" {
				t.Errorf("%s has no label with the contract that it keeps", crd.Name)
			}
			ours++
		}
	}
	if ours != 11 {
		t.Errorf("clusterctl init has installed %d CRDs of ours, want 11", ours)
	}
}
