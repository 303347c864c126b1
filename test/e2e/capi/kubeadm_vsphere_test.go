package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/vcentertest"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// vSphere is a vCenter, in which a resource pool is a zone.
type vSphere struct {
	*vcentertest.VCenter
	guests    *guests.Guests
	variables map[string]string // of the Cluster
}

// vSphereLife is that of a Cluster whose endpoint kube-vip holds.
func vSphereLife(t *testing.T, m *management, ctl clusterctl) {
	t.Helper()
	center, err := vcentertest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(center.Close)
	v := &vSphere{VCenter: center}
	if err := v.AddPools(t.Context(), "zone-1", "zone-2", "zone-3"); err != nil {
		t.Fatal(err)
	}
	k := newCloudCluster(t, m, ctl, "vsphere", v, func(all *guests.Guests) { v.guests = all })
	v.variables = k.variables
	k.shortLife(t, "vsphere")
}

// Variables are those of flavor vsphere.
func (v *vSphere) Variables() map[string]string {
	all := map[string]string{
		"VSPHERE_SERVER": v.Host(), "VSPHERE_USERNAME": vcentertest.User, "VSPHERE_PASSWORD": vcentertest.Password,
		"VSPHERE_INSECURE_SSL": "true", "VSPHERE_DATACENTER": vcentertest.Datacenter,
		"VSPHERE_RESOURCE_POOL": vcentertest.Pool, "VSPHERE_DATASTORE": vcentertest.Datastore,
		"VSPHERE_FOLDER": vcentertest.Folder, "VSPHERE_CONTROL_PLANE_FOLDER": vcentertest.Folder,
		"VSPHERE_TEMPLATE": vcentertest.Template, "VSPHERE_NETWORK": vcentertest.Network,
	}
	for _, n := range []string{"1", "2", "3"} {
		all["CONTROL_PLANE_ZONE_"+n] = "zone-" + n
		all["VSPHERE_CONTROL_PLANE_RESOURCE_POOL_"+n] = vcentertest.Pool + "/zone-" + n
	}
	return all
}

// VMs returns the VMs of the folder. What they know of themselves is in guestinfo.metadata.
func (v *vSphere) VMs(ctx context.Context) ([]guests.VM, error) {
	all, err := v.Guests(ctx)
	var vms []guests.VM
	for _, g := range all {
		var metadata struct {
			InstanceID string `json:"instance-id"`
			Hostname   string `json:"local-hostname"`
		}
		if g.On {
			if err := json.Unmarshal(g.Metadata, &metadata); err != nil {
				return nil, fmt.Errorf("metadata of VM %s: %w", g.Name, err)
			}
		}
		vms = append(vms, guests.VM{
			ID: g.ID, Name: g.Name, Version: oldKubernetes, NodeName: g.Name, ProviderID: "vsphere://" + g.ID, Running: g.On,
			Metadata: guests.Metadata{
				InstanceID: metadata.InstanceID, Hostname: metadata.Hostname, Zone: g.Pool,
				Source: map[string]string{"instance_id": metadata.InstanceID, "local_hostname": metadata.Hostname},
			},
		})
	}
	return vms, err
}

// UserData returns what a VM boots with.
func (v *vSphere) UserData(ctx context.Context, id string) ([]byte, error) {
	all, err := v.Guests(ctx)
	for _, g := range all {
		if g.ID == id {
			return g.UserData, err
		}
	}
	return nil, fmt.Errorf("VM %s: it is gone, %w", id, err)
}

// Members returns the VMs that run and have kube-vip as a static pod, for the address of the
// Cluster.
func (v *vSphere) Members(ctx context.Context) ([]string, error) {
	all, err := v.VMs(ctx)
	var ids []string
	for _, vm := range all {
		manifest, there := v.guests.Files(vm.ID)[kubeVIPManifest]
		if !there || !vm.Running {
			continue
		}
		if err := v.checkKubeVIP(manifest); err != nil {
			return nil, fmt.Errorf("%s of VM %s: %w", kubeVIPManifest, vm.Name, err)
		}
		ids = append(ids, vm.ID)
	}
	return ids, err
}

const kubeVIPManifest = "/etc/kubernetes/manifests/kube-vip.yaml"

// checkKubeVIP: a kubelet takes the manifest, and kube-vip in it the address.
func (v *vSphere) checkKubeVIP(manifest string) error {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		return err
	}
	if len(pod.Spec.Containers) != 1 || !pod.Spec.HostNetwork || pod.Namespace != "kube-system" {
		return errors.New("it is no pod of kube-system with one container in the network of the machine")
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["address"] != v.variables["CONTROL_PLANE_ENDPOINT_HOST"] ||
		env["port"] != v.variables["CONTROL_PLANE_ENDPOINT_PORT"] || env["cp_enable"] != "true" || env["vip_arp"] != "true" {
		return fmt.Errorf("kube-vip has %v, and the Cluster %v", env, v.variables)
	}
	return nil
}

// Settled: the control plane's VMs have kube-vip, and no others.
func (v *vSphere) Settled(ctx context.Context, controlPlane []string) error {
	return membersAre(ctx, v, controlPlane)
}

// Left names the VMs in the folder.
func (v *vSphere) Left(ctx context.Context) ([]string, error) {
	all, err := v.Guests(ctx)
	var left []string
	for _, g := range all {
		left = append(left, "VM "+g.Name)
	}
	return left, err
}
