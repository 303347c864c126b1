package capi

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/guestcloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slow bounds each step of guests: the processor is emulated, and the machine may have much
// other work.
const slow = 25 * time.Minute

// A guestCluster is a Cluster whose workers are real guests of an OpenStack. Its control plane
// is external: an API server of this machine, into which the guests join with kubeadm.
type guestCluster struct {
	*pool
	api   *cluster.Cluster
	nodes client.Client // of api
	cloud *guestcloud.Cloud
}

// TestRealGuests takes two pools through their life in which nothing is played but the cloud
// controller manager: workers of flavor openstack-health-check, which boot with an MCMConfig, and
// workers that boot with a KubeadmConfig of Cluster API's own bootstrap provider. Both run
// kubeadm join in a guest of a real Nova. A MachineHealthCheck replaces a guest whose kubelet
// has been stopped.
func TestRealGuests(t *testing.T) {
	turn := queue.add(10)
	t.Parallel()
	turn.await(t)
	image := guestcloud.Require(t)
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl, "--bootstrap", "kubeadm:"+core)
	m.startUpstream(t, bootstrapManager, "capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-manager",
		"MachinePool=false")
	m.startProviders(t)
	g := newGuestCluster(t, m, ctl, image)
	began := time.Now()
	g.apply(t)
	g.joined(t, began, "md-0")
	g.joined(t, began, "kubeadm")
	g.compare(t)

	g.resize(t, "kubeadm", 0)
	g.replaced(t)
	g.end(t)
	m.permissions(t, "capi-kubeadm-bootstrap-system:capi-kubeadm-bootstrap-manager")
	t.Logf("%6.1f s  everything", time.Since(began).Seconds())
}

// newGuestCluster starts what a Cluster of guests needs: control plane, cloud, kubeconfig.
func newGuestCluster(t *testing.T, m *management, ctl clusterctl, image string) *guestCluster {
	t.Helper()
	g := &guestCluster{pool: &pool{m: m, ctl: ctl, namespace: "guests", name: "guests"}}
	g.api = cluster.ForTest(t, cluster.Options{Controllers: cluster.Controllers(
		"certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller",
		"bootstrap-signer-controller", "root-ca-certificate-publisher-controller", "node-lifecycle-controller",
		"taint-eviction-controller", "pod-garbage-collector-controller", "disruption-controller")})
	var err error
	if g.nodes, err = client.New(g.api.Config(), client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	g.cloud = guestcloud.ForTest(t, image, g.api.URL())
	g.readyForKubeadm(t, image)
	m.namespace(t, g.namespace)
	externalKubeconfig(t, m, g.api, g.nodes, g.namespace, g.name)
	g.authority(t)
	go g.playCloudController(t.Context())
	return g
}

// readyForKubeadm puts into the cluster what kubeadm join reads, with kubeadm itself.
func (g *guestCluster) readyForKubeadm(t *testing.T, image string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeadm.yaml")
	text, err := os.ReadFile(filepath.Join("testdata", "kubeadm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	kubeadm := filepath.Join(filepath.Dir(image), "bin", "kubeadm")
	for _, phase := range []string{"upload-config kubeadm", "upload-config kubelet", "bootstrap-token"} {
		args := append([]string{"init", "phase"}, strings.Fields(phase)...)
		args = append(args, "--config", config, "--kubeconfig", g.api.Kubeconfig())
		cmd := exec.CommandContext(t.Context(), kubeadm, args...)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubeadm init phase %s: %v\n%s", phase, err, said)
		}
	}
	// kubeadm has written down the address that this machine uses.
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}}
	if err := g.nodes.Get(t.Context(), client.ObjectKeyFromObject(info), info); err != nil {
		t.Fatal(err)
	}
	before := info.DeepCopy()
	info.Data["kubeconfig"] = strings.ReplaceAll(info.Data["kubeconfig"], g.api.URL(), "https://"+guestcloud.ServiceIP+":443")
	if err := g.nodes.Patch(t.Context(), info, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// authority gives the Cluster the Secret with the CA, which Cluster API's bootstrap provider
// asks for. Of an external control plane nothing has the key, and workers do not need it.
func (g *guestCluster) authority(t *testing.T) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.namespace, Name: g.name + "-ca", Labels: map[string]string{clusterv1.ClusterNameLabel: g.name},
		},
		Data: map[string][]byte{"tls.crt": g.api.CA(), "tls.key": []byte("of the external control plane")},
	}
	if err := g.m.cl.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// caHash is the hash of the CA's key, as kubeadm join wants it.
func (g *guestCluster) caHash(t *testing.T) string {
	t.Helper()
	block, _ := pem.Decode(g.api.CA())
	if block == nil {
		t.Fatal("the CA is no PEM")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(hash[:])
}

// playCloudController writes onto Nodes what OpenStack's cloud controller manager does: the
// addresses, the providerID, and that the node is initialized.
func (g *guestCluster) playCloudController(ctx context.Context) {
	_ = stack.Until(ctx, 24*time.Hour, func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := g.nodes.List(ctx, &nodes); err != nil {
			return err
		}
		for i := range nodes.Items {
			if nodes.Items[i].Spec.ProviderID == "" {
				_ = g.initialize(ctx, &nodes.Items[i]) // the next round tries again
			}
		}
		return errors.New("the test goes on")
	})
}

func (g *guestCluster) initialize(ctx context.Context, node *corev1.Node) error {
	server, err := g.server(ctx, node.Name)
	if err != nil {
		return err
	}
	if err := g.address(ctx, node, server); err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Spec.ProviderID = "openstack:///" + server.ID
	var taints []corev1.Taint
	for _, taint := range node.Spec.Taints {
		if taint.Key != "node.cloudprovider.kubernetes.io/uninitialized" {
			taints = append(taints, taint)
		}
	}
	node.Spec.Taints = taints
	return g.nodes.Patch(ctx, node, client.MergeFrom(before))
}

// address writes the addresses of a server onto its Node. The API server finds kubelets by them.
func (g *guestCluster) address(ctx context.Context, node *corev1.Node, server openstack.Server) error {
	ports, err := g.cloud.Project.LivePorts(ctx)
	if err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: server.Name}}
	for _, port := range ports {
		if port.Device != server.ID {
			continue
		}
		for _, ip := range port.IPs {
			node.Status.Addresses = append(node.Status.Addresses,
				corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.IP})
		}
	}
	return g.nodes.Status().Patch(ctx, node, client.MergeFrom(before))
}

// server returns the one server of a name.
func (g *guestCluster) server(ctx context.Context, name string) (openstack.Server, error) {
	servers, err := g.cloud.Project.Live(ctx)
	for _, server := range servers {
		if server.Name == name {
			return server, nil
		}
	}
	return openstack.Server{}, fmt.Errorf("no server %s, %w", name, err)
}

// apply applies the flavor with a pool of one, and a second pool that boots with Cluster API's
// own bootstrap provider.
func (g *guestCluster) apply(t *testing.T) {
	t.Helper()
	p := g.cloud.Project
	all := g.m.generate(t, g.ctl, "openstack-health-check", g.namespace, g.name, map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": guestcloud.ServiceIP, "CONTROL_PLANE_ENDPOINT_PORT": "443",
		"CONTROL_PLANE_CA_CERT_HASH": g.caHash(t),
		"OPENSTACK_IMAGE_NAME":       openstack.Guest, "OPENSTACK_REGION": openstack.Region,
		"OPENSTACK_AVAILABILITY_ZONE": openstack.ZoneReal, "OPENSTACK_FLAVOR_NAME": guestcloud.Large,
		"OPENSTACK_SSH_KEY_NAME": openstack.KeyName, "OPENSTACK_NETWORK_ID": p.Network,
		"OPENSTACK_AUTH_URL": p.AuthURL(), "OPENSTACK_TENANT_NAME": p.Name, "OPENSTACK_USERNAME": p.User,
		"OPENSTACK_PASSWORD": p.Password, "MACHINE_HEALTH_TIMEOUT_SECONDS": "60",
		"MACHINE_HEALTH_MAX_UNHEALTHY": "100%", "MACHINE_CREATION_TIMEOUT_SECONDS": fmt.Sprint(int(slow.Seconds())),
	}, "--worker-machine-count", "1")
	for _, class := range all.pick("MachineClass") {
		// The rig has neither DHCP nor a metadata service.
		if err := unstructured.SetNestedField(class.Object, true, "providerSpec", "spec", "useConfigDrive"); err != nil {
			t.Fatal(err)
		}
	}
	all = append(all, g.kubeadmPool(t, all.pick("MachineDeployment")[0])...)
	if err := g.m.Cluster.Apply(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// kubeadmPool is a copy of a MachineDeployment that boots with a KubeadmConfig.
func (g *guestCluster) kubeadmPool(t *testing.T, like *unstructured.Unstructured) rendered {
	t.Helper()
	const kind = "KubeadmConfigTemplate"
	name := g.name + "-kubeadm"
	deployment := like.DeepCopy()
	deployment.SetName(name)
	err := unstructured.SetNestedMap(deployment.Object, map[string]any{
		"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": kind, "name": name,
	}, "spec", "template", "spec", "bootstrap", "configRef")
	if err != nil {
		t.Fatal(err)
	}
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": g.namespace},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"joinConfiguration": map[string]any{
			"discovery": map[string]any{"bootstrapToken": map[string]any{"apiServerEndpoint": guestcloud.ServiceIP + ":443"}},
			"nodeRegistration": map[string]any{
				"name":             "{{ v1.local_hostname }}",
				"kubeletExtraArgs": []any{map[string]any{"name": "cloud-provider", "value": "external"}},
			},
		}}}},
	}}
	return rendered{config, deployment}
}
