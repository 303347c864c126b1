package guests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmapi "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/util/secret"
)

// vms is a cloud with these VMs, by their user data.
type vms struct {
	all  []VM
	data map[string]string
}

func (v *vms) VMs(context.Context) ([]VM, error) { return v.all, nil }

func (v *vms) UserData(_ context.Context, id string) ([]byte, error) { return []byte(v.data[id]), nil }

func (v *vms) add(data, version string) {
	id := fmt.Sprintf("vm-%d", len(v.all))
	v.all = append(v.all, VM{
		ID: id, Version: version, ProviderID: sim.ProviderID("z", id), Running: true,
		Metadata: Metadata{InstanceID: id, Hostname: "host-" + id, Zone: "z"},
	})
	v.data[id] = data
}

// env is a cluster with one machine of the control plane, and what more need.
type env struct {
	vms    *vms
	guests *Guests
	at     *Cluster
	ca     secret.Certificates
	hash   string
}

const (
	token   = "abcdef.0123456789abcdef"
	release = "v1.36.3"
)

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{vms: &vms{data: map[string]string{}}}
	var err error
	if w.guests, err = New(t.Context(), w.vms); err != nil {
		t.Fatal(err)
	}
	if w.at, err = w.guests.Add("c", process.PortForTest(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.guests.mux.Shutdown(context.WithoutCancel(t.Context())) })
	if w.ca, err = authoritiesOf(); err != nil {
		t.Fatal(err)
	}
	hashes, err := w.ca.GetByPurpose(secret.ClusterCA).Hashes()
	if err != nil {
		t.Fatal(err)
	}
	w.hash = hashes[0]
	return w
}

// authoritiesOf makes those of a cluster once for all tests: their keys take time.
var authoritiesOf = sync.OnceValues(newAuthorities)

func newAuthorities() (secret.Certificates, error) {
	all := secret.NewCertificatesForInitialControlPlane(&kubeadmapi.ClusterConfiguration{})
	return all, all.Generate()
}

// init is the boot data of the first machine, as Cluster API's bootstrap provider
// writes it.
func (w *env) init(t *testing.T) string {
	t.Helper()
	text, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		Certificates: w.ca,
		ClusterConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: " +
			w.at.endpoint + "\nkubernetesVersion: " + release,
		InitConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  taints: null",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w *env) joinConfiguration() string {
	return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n" +
		"    apiServerEndpoint: " + w.at.endpoint + "\n    token: " + token + "\n    caCertHashes:\n    - " + w.hash +
		"\nnodeRegistration:\n  taints: null\n  kubeletExtraArgs:\n  - name: provider-id\n" +
		"    value: sim:///{{ v1.availability_zone }}/{{ v1.instance_id }}"
}

// join is the boot data of a worker, and promote that of a further machine of the
// control plane.
func (w *env) join(t *testing.T) string {
	t.Helper()
	text, err := cloudinit.NewNode(&cloudinit.NodeInput{JoinConfiguration: w.joinConfiguration()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w *env) promote(t *testing.T, ca secret.Certificates) string {
	t.Helper()
	text, err := cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{
		Certificates: ca, JoinConfiguration: w.joinConfiguration() + "\ncontrolPlane: {}",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allow makes the bootstrap token.
func (w *env) allow(t *testing.T, expires time.Time) {
	t.Helper()
	err := w.at.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "auth-extra-groups": []byte(nodeGroup),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
			"expiration": []byte(expires.Format(time.RFC3339)),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestGuestsJoin: what the bootstrap provider writes is taken, and the nodes are
// what kubeadm makes of it.
func TestGuestsJoin(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.vms.add(w.init(t), release)
	w.guests.look(t.Context(), w.vms.all)
	w.allow(t, time.Now().Add(time.Hour))
	w.vms.add(w.promote(t, w.ca), release)
	w.vms.add(w.join(t), release)
	w.guests.look(t.Context(), w.vms.all)
	if failures := w.guests.Failures(); len(failures) > 0 {
		t.Fatal(failures)
	}
	nodes, err := w.at.Nodes(t.Context())
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for i, node := range nodes {
		_, member := node.Labels[controlPlaneLabel]
		if want := i < 2; member != want || (len(node.Spec.Taints) == 1) != want {
			t.Errorf("%s has labels %v, taints %v", node.Name, node.Labels, node.Spec.Taints)
		}
	}
	if got := nodes[2].Spec.ProviderID; got != "sim:///z/vm-2" {
		t.Errorf("the worker has providerID %s", got)
	}
	members, err := w.at.etcdMembers(t.Context())
	if err != nil || len(members) != 2 {
		t.Errorf("etcd has %d members, %v", len(members), err)
	}
}

// TestGuestsRefuse: what cloud-init and kubeadm refuse does not come up.
func TestGuestsRefuse(t *testing.T) {
	t.Parallel()
	replace := func(old, with string) func(string) string {
		return func(text string) string {
			if !strings.Contains(text, old) {
				panic(errors.New("no " + old))
			}
			return strings.Replace(text, old, with, 1)
		}
	}
	first := map[string]struct {
		change func(string) string
		want   string
	}{
		"no cloud-config":    {replace("#cloud-config", "#!/bin/sh"), "no cloud-config"},
		"unknown key":        {replace("runcmd:", "runcmds:"), "unknown field"},
		"unknown version":    {replace("kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/v1beta2"), "this kubeadm reads"},
		"unknown field":      {replace("controlPlaneEndpoint", "controlPlaneEndpiont"), "unknown field"},
		"no authority":       {replace("/etc/kubernetes/pki/etcd/ca.key", "/tmp/ca.key"), "pki/etcd/ca"},
		"no key of accounts": {replace("/etc/kubernetes/pki/sa.pub", "/tmp/sa.pub"), "ServiceAccounts"},
		"other endpoint": {
			replace("controlPlaneEndpoint: 127.0.0.1", "controlPlaneEndpoint: 127.0.0.2"), "nothing is at",
		},
		"newer cluster":    {replace("kubernetesVersion: v1.36.3", "kubernetesVersion: v1.37.0"), "does not serve"},
		"unknown variable": {replace("#cloud-config", "#cloud-config\n# {{ ds.meta_data.rack }}"), "do not have"},
		"no kubeadm":       {replace("'kubeadm init", "'k3s server"), "not called"},
	}
	for name, tc := range first {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			w.vms.add(tc.change(w.init(t)), release)
			w.refused(t, tc.want)
		})
	}
	later := map[string]struct {
		want string
		add  func(t *testing.T, w *env)
	}{
		"no token": {"not found", func(t *testing.T, w *env) { w.vms.add(w.join(t), release) }},
		"expired token": {"expired", func(t *testing.T, w *env) {
			w.allow(t, time.Now().Add(-time.Minute))
			w.vms.add(w.join(t), release)
		}},
		"other pin": {"none of the pins", func(t *testing.T, w *env) {
			w.allow(t, time.Now().Add(time.Hour))
			w.hash = "sha256:" + strings.Repeat("0", 64)
			w.vms.add(w.join(t), release)
		}},
		"other authorities": {"not those of the cluster", func(t *testing.T, w *env) {
			other, err := newAuthorities()
			if err != nil {
				t.Fatal(err)
			}
			w.allow(t, time.Now().Add(time.Hour))
			w.vms.add(w.promote(t, other), release)
		}},
		"older image": {"does not serve", func(t *testing.T, w *env) {
			w.allow(t, time.Now().Add(time.Hour))
			w.vms.add(w.join(t), "v1.35.4")
		}},
		"second init": {"a cluster already", func(t *testing.T, w *env) { w.vms.add(w.init(t), release) }},
	}
	for name, tc := range later {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			w.vms.add(w.init(t), release)
			w.guests.look(t.Context(), w.vms.all)
			tc.add(t, w)
			w.refused(t, tc.want)
		})
	}
}

// refused: one guest did not come up, for a reason.
func (w *env) refused(t *testing.T, reason string) {
	t.Helper()
	w.guests.look(t.Context(), w.vms.all)
	if got := w.guests.Failures(); len(got) != 1 || !strings.Contains(got[0], reason) {
		t.Errorf("failures %q, want one with %q", got, reason)
	}
}
