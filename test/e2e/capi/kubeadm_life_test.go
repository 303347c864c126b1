package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeadmLife is the life of a Cluster of the default flavor with classes of its own.
func kubeadmLife(t *testing.T, k *kubeadmCluster) {
	t.Helper()
	k.apply(t, "sim")
	k.until(t, "three machines of the control plane and two workers", k.settled(oldKubernetes, 3, 2))
	k.spread(t)
	k.healthChecks(t)
	k.lose(t, "control-plane", "node")
	k.upgrade(t)
	k.spread(t)
	k.resize(t, newKubernetes, 1, 3)
	k.gone(t)
}

// healthChecks make MachineHealthChecks for both kinds of machines.
func (k *kubeadmCluster) healthChecks(t *testing.T) {
	t.Helper()
	for name, labels := range map[string]map[string]string{
		"control-plane": {clusterv1.MachineControlPlaneLabel: ""},
		"md-0":          {clusterv1.MachineDeploymentNameLabel: k.name + "-md-0"},
	} {
		check := &clusterv1.MachineHealthCheck{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.name + "-" + name},
			Spec: clusterv1.MachineHealthCheckSpec{
				ClusterName: k.name, Selector: metav1.LabelSelector{MatchLabels: labels},
				Checks: clusterv1.MachineHealthCheckChecks{
					UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
						{Type: "Ready", Status: "Unknown", TimeoutSeconds: ptr.To[int32](2)},
					},
				},
			},
		}
		if err := k.m.cl.Create(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
}

// lose stops a VM of each role: other machines take their places.
func (k *kubeadmCluster) lose(t *testing.T, roles ...string) {
	t.Helper()
	vms, err := simulated{k.m.Cloud, k.name}.all(t.Context(), sim.KindVM)
	if err != nil {
		t.Fatal(err)
	}
	lost := map[string]sim.Resource{}
	for _, role := range roles {
		for _, vm := range vms { // the first of the control plane is the one that leads etcd
			if vm.Tags["kubernetes.io/role/"+role] != "" && (lost[role].ID == "" || vm.Seq < lost[role].Seq) {
				lost[role] = vm
			}
		}
		if err := k.m.Cloud.StopVM(t.Context(), lost[role].ID); err != nil {
			t.Fatal(err)
		}
	}
	k.until(t, fmt.Sprintf("machines in place of those of roles %v that stopped", roles), func(ctx context.Context) error {
		now, err := k.ours(ctx)
		if err != nil {
			return err
		}
		for _, vm := range lost {
			if _, there := now[vm.Name()]; there {
				return fmt.Errorf("VM %s is still there", vm.Name())
			}
		}
		return k.settled(oldKubernetes, 3, 2)(ctx)
	})
}

// upgrade raises the version of control plane and workers. Both need machines of an
// image with that version.
func (k *kubeadmCluster) upgrade(t *testing.T) {
	t.Helper()
	names := map[string]string{}
	for _, role := range []string{"control-plane", "md-0"} {
		names[role] = k.successor(t, k.name+"-"+role)
	}
	kcp, err := k.controlPlane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := kcp.DeepCopy()
	kcp.Spec.Version = newKubernetes
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = names["control-plane"]
	if err := k.m.cl.Patch(t.Context(), kcp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	k.until(t, "the control plane is upgraded", func(ctx context.Context) error {
		version, err := k.inside.Version(ctx)
		if err == nil && version != newKubernetes {
			err = fmt.Errorf("kubeadm's ClusterConfiguration has %s", version)
		}
		if err != nil {
			return err
		}
		return k.scaled(ctx, 3, 2)
	})
	k.change(t, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.Version = newKubernetes
		md.Spec.Template.Spec.InfrastructureRef.Name = names["md-0"]
	})
	k.until(t, "the workers are upgraded", k.settled(newKubernetes, 3, 2))
}

// successor makes a template and a class like those of a name, with the image of
// the new version, and returns the template's name.
func (k *kubeadmCluster) successor(t *testing.T, name string) string {
	t.Helper()
	template := &infrav1.MCMMachineTemplate{}
	if err := k.m.cl.Get(t.Context(), k.key(name), template); err != nil {
		t.Fatal(err)
	}
	next := &infrav1.MCMMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: name + "-v2"}, Spec: template.Spec,
	}
	next.Spec.Template.Spec.MachineClassRef.Name = k.newClass(t, name)
	if err := k.m.cl.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	return next.Name
}

// newClass makes a class like that of a name, with the image of the new version.
func (k *kubeadmCluster) newClass(t *testing.T, name string) string {
	t.Helper()
	class := &machinev1.MachineClass{}
	if err := k.m.cl.Get(t.Context(), k.key(name), class); err != nil {
		t.Fatal(err)
	}
	class.ObjectMeta = metav1.ObjectMeta{Namespace: k.namespace, Name: name + "-v2"}
	changed(t, class, k.next)
	if err := k.m.cl.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	return class.Name
}

// changed sets fields of a class's providerSpec, each named by its path: "spec.imageName".
func changed(t *testing.T, class *machinev1.MachineClass, fields map[string]any) {
	t.Helper()
	var spec map[string]any
	err := json.Unmarshal(class.ProviderSpec.Raw, &spec)
	for path, value := range fields {
		if err == nil {
			err = unstructured.SetNestedField(spec, value, strings.Split(path, ".")...)
		}
	}
	if err == nil {
		class.ProviderSpec.Raw, err = json.Marshal(spec)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// resize scales both.
func (k *kubeadmCluster) resize(t *testing.T, version string, controlPlane, workers int32) {
	t.Helper()
	kcp, err := k.controlPlane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := kcp.DeepCopy()
	kcp.Spec.Replicas = &controlPlane
	if err := k.m.cl.Patch(t.Context(), kcp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	k.scale(t, workers)
	k.until(t, "both are scaled", k.settled(version, int(controlPlane), int(workers)))
}

// classes makes the classes of control plane and workers that flavors without a cloud
// refer to.
func (k *kubeadmCluster) classes(t *testing.T) {
	t.Helper()
	variables := map[string]string{"CONTROL_PLANE_MACHINE_CLASS_NAME": "control-plane", "MACHINE_CLASS_NAME": "workers"}
	for _, name := range variables {
		class, secret := k.m.Class(name, "small")
		class.Namespace, secret.Namespace, class.SecretRef.Namespace = k.namespace, k.namespace, k.namespace
		changed(t, class, map[string]any{
			"image": imagePrefix + oldKubernetes, "zone": "", "zones": []any{"sim-1a", "sim-1b", "sim-1c"},
			"tags": map[string]any{"kubernetes.io/cluster/" + k.name: "1", "kubernetes.io/role/" + name: "1"},
		})
		for _, o := range []client.Object{secret, class} {
			if err := k.m.cl.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	maps.Copy(k.variables, variables)
}

// kubeadmOtherLife is a short life of a Cluster of the default flavor, with classes
// that are there before.
func kubeadmOtherLife(t *testing.T, k *kubeadmCluster) {
	t.Helper()
	k.classes(t)
	k.apply(t, "")
	k.until(t, "three machines and two workers of classes that were there", k.settled(oldKubernetes, 3, 2))
	k.spread(t)
	k.gone(t)
}

// kubeadmClassLife is the life of a Cluster of ClusterClass mcm.
func kubeadmClassLife(t *testing.T, k *kubeadmCluster) {
	t.Helper()
	k.classes(t)
	k.apply(t, "topology")
	k.until(t, "three machines and two workers of a ClusterClass", k.settled(oldKubernetes, 3, 2))
	k.spread(t)
	next := map[string]string{
		"controlPlaneMachineClassName": k.newClass(t, "control-plane"), "machineClassName": k.newClass(t, "workers"),
	}
	k.topology(t, func(of *clusterv1.Topology) {
		of.Version = newKubernetes
		for i := range of.Variables {
			if class, found := next[of.Variables[i].Name]; found {
				of.Variables[i].Value.Raw = []byte(strconv.Quote(class))
			}
		}
	})
	k.until(t, "the Cluster of a ClusterClass is upgraded", k.settled(newKubernetes, 3, 2))
	k.spread(t)
	k.topology(t, func(of *clusterv1.Topology) {
		of.Workers.MachineDeployments[0].Replicas = ptr.To[int32](1)
	})
	k.until(t, "one worker less of a ClusterClass", k.settled(newKubernetes, 3, 1))
	k.gone(t)
}

// topology changes the topology of the Cluster.
func (k *kubeadmCluster) topology(t *testing.T, change func(*clusterv1.Topology)) {
	t.Helper()
	c := &clusterv1.Cluster{}
	if err := k.m.cl.Get(t.Context(), k.key(k.name), c); err != nil {
		t.Fatal(err)
	}
	before := c.DeepCopy()
	change(&c.Spec.Topology)
	if err := k.m.cl.Patch(t.Context(), c, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
