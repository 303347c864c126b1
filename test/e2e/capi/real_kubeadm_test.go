package capi

import (
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/octaviatest"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/guestcloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A kubeadmGuests is a Cluster whose control plane, made by kubeadm init, and whose worker are
// real guests of an OpenStack. This machine reaches them through a proxy.
type kubeadmGuests struct {
	*guestCluster
	octavia         *octaviatest.Balancer
	keystone, proxy string // their URLs
	kubeconfig      string // a file
}

// TestRealControlPlane takes a Cluster of flavor openstack through its life in which nothing is
// played but the cloud controller manager and Octavia: Cluster API's own kubeadm providers
// make a KubeadmControlPlane of one and a worker, which run kubeadm init and kubeadm join in
// guests of a real Nova. It is the only test of its package while it runs: the managers find
// the proxy in the environment.
func TestRealControlPlane(t *testing.T) {
	image := guestcloud.RequireControlPlane(t)
	a := require(t)
	began := time.Now()
	k := newKubeadmGuests(t, image)
	t.Setenv("HTTPS_PROXY", k.proxy)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl, "--bootstrap", "kubeadm:"+core, "--control-plane", "kubeadm:"+core)
	m.startUpstream(t, bootstrapManager, "capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-manager",
		"MachinePool=false")
	m.startUpstream(t, controlPlaneManager, "capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-manager",
		"MachinePool=false,ClusterTopology=true")
	m.startProviders(t)
	t.Logf("%6.1f s  cloud and management cluster run", time.Since(began).Seconds())
	k.pool = &pool{m: m, ctl: ctl, namespace: "kubeadm-guests", name: "guests"}
	m.namespace(t, k.namespace)

	began = time.Now()
	k.apply(t)
	k.initialized(t, began)
	k.joined(t, began, "md-0")
	k.complete(t, began)
	k.show(t)
	k.compare(t)
	k.compareIDs(t)
	k.end(t)
	if members := k.octavia.Members(apiServerPool); len(members) > 0 {
		t.Errorf("the load balancer still has members %+v", members)
	}
	m.permissions(t, "capi-kubeadm-bootstrap-system:capi-kubeadm-bootstrap-manager",
		"capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager")
	t.Logf("%6.1f s  everything", time.Since(began).Seconds())
}

// newKubeadmGuests starts the cloud, with an Octavia whose members get connections.
func newKubeadmGuests(t *testing.T, image string) *kubeadmGuests {
	t.Helper()
	k := &kubeadmGuests{guestCluster: &guestCluster{}, octavia: octaviatest.New(apiServerPool)}
	k.cloud = guestcloud.ForControlPlane(t, image, func() (members []string) {
		for _, m := range k.octavia.Members(apiServerPool) {
			members = append(members, net.JoinHostPort(m.Address, fmt.Sprint(m.Port)))
		}
		return members
	})
	octavia := httptest.NewServer(k.octavia)
	t.Cleanup(octavia.Close)
	k.keystone = keystoneWith(t, k.cloud.URL("keystone"), octavia.URL)
	k.proxy = k.cloud.Proxy(t)
	return k
}

// apply applies flavor openstack with a control plane of one and a worker, changed as little as
// the rig allows.
func (k *kubeadmGuests) apply(t *testing.T) {
	t.Helper()
	p := k.cloud.Project
	all := k.m.generate(t, k.ctl, "openstack", k.namespace, k.name, map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": guestcloud.BalancerIP, "CONTROL_PLANE_ENDPOINT_PORT": guestcloud.BalancerPort,
		"CONTROL_PLANE_ZONE_1": openstack.ZoneReal, "CONTROL_PLANE_ZONE_2": "none", "CONTROL_PLANE_ZONE_3": "none",
		"OPENSTACK_API_SERVER_POOL_ID": apiServerPool, "OPENSTACK_IMAGE_NAME": openstack.Guest,
		"OPENSTACK_REGION": openstack.Region, "OPENSTACK_AVAILABILITY_ZONE": openstack.ZoneReal,
		"OPENSTACK_FLAVOR_NAME": guestcloud.Large, "OPENSTACK_CONTROL_PLANE_FLAVOR_NAME": guestcloud.ControlPlane,
		"OPENSTACK_SSH_KEY_NAME": openstack.KeyName, "OPENSTACK_NETWORK_ID": p.Network,
		"OPENSTACK_AUTH_URL": k.keystone + "/v3", "OPENSTACK_TENANT_NAME": p.Name, "OPENSTACK_USERNAME": p.User,
		"OPENSTACK_PASSWORD": p.Password,
	}, "--control-plane-machine-count", "1", "--worker-machine-count", "1")
	k.adjust(t, all)
	for _, o := range all.pick("KubeadmControlPlane") {
		path := []string{"spec", "kubeadmConfigSpec", "files"}
		files, _, err := unstructured.NestedSlice(o.Object, path...)
		if err == nil {
			err = unstructured.SetNestedSlice(o.Object, append(files, probePatches()...), path...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := k.m.Cluster.Apply(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// adjust makes the changes to the flavor that the rig needs: it has one zone with guests,
// neither DHCP nor a metadata service, no DNS for CoreDNS to ask, no registry, and little time.
func (k *kubeadmGuests) adjust(t *testing.T, all rendered) {
	t.Helper()
	const spec = "spec.kubeadmConfigSpec."
	for _, change := range []struct {
		kind, path string
		value      any
	}{
		{"MCMCluster", "spec.failureDomains", []any{map[string]any{"name": openstack.ZoneReal, "controlPlane": true}}},
		{"MachineClass", "providerSpec.spec.useConfigDrive", true},
		{"KubeadmControlPlane", spec + "initConfiguration.skipPhases", []any{"addon/coredns"}},
		{"KubeadmControlPlane", spec + "initConfiguration.nodeRegistration.imagePullPolicy", "Never"},
		{"KubeadmControlPlane", spec + "initConfiguration.patches.directory", patches},
		{"KubeadmControlPlane", spec + "clusterConfiguration.controllerManager.extraArgs", withoutElection()},
		{"KubeadmControlPlane", spec + "clusterConfiguration.scheduler.extraArgs", withoutElection()},
		{"KubeadmControlPlane", spec + "initConfiguration.timeouts", patience()},
		{"KubeadmControlPlane", spec + "joinConfiguration.timeouts", patience()}, // they have to be equal
		{"KubeadmConfigTemplate", "spec.template.spec.joinConfiguration.timeouts", patience()},
	} {
		for _, o := range all.pick(change.kind) {
			if err := unstructured.SetNestedField(o.Object, change.value, strings.Split(change.path, ".")...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// patches is the folder with kubeadm's patches.
const patches = "/etc/kubernetes/patches"

// probePatches have the kubelet ask seldom, instead of four times a second, and wait for what
// answers late on an emulated processor, instead of starting it again, which takes longer.
func probePatches() []any {
	const ready = ", readinessProbe: {periodSeconds: 30, timeoutSeconds: 60}"
	var files []any
	for name, more := range map[string]string{
		"etcd": ready, "kube-apiserver": ready, "kube-controller-manager": "", "kube-scheduler": ready,
	} {
		files = append(files, map[string]any{
			"path": patches + "/" + name + "+strategic.yaml",
			"content": "spec: {containers: [{name: " + name + more +
				", livenessProbe: {periodSeconds: 60, failureThreshold: 100}, startupProbe: {failureThreshold: 200}}]}\n",
		})
	}
	return files
}

// withoutElection has the one of its kind act without a lease. It would end, and start again,
// whenever the API server takes ten seconds to renew that.
func withoutElection() []any { return []any{map[string]any{"name": "leader-elect", "value": "false"}} }

// patience are the timeouts of kubeadm for an emulated processor that others use, too.
func patience() map[string]any {
	long := int64(slow.Seconds())
	return map[string]any{
		"controlPlaneComponentHealthCheckSeconds": long, "kubeletHealthCheckSeconds": long,
		"kubernetesAPICallSeconds": long, "tlsBootstrapSeconds": long, "discoverySeconds": long,
	}
}
