package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"

	"example.com/outside/legacy"
	"example.com/outside/memory"
)

const (
	// account is who the Deployment in config/manager runs as: an own manager needs the same permissions.
	account   = "system:serviceaccount:machine-controller-manager:machine-controller-manager"
	namespace = "machine-controller-manager"
	key       = "key-of-the-journey"
)

// TestJourney takes a Machine of each driver from creation to deletion.
func TestJourney(t *testing.T) {
	t.Parallel()
	config := filepath.Join(os.Getenv("OUTSIDE_ROOT"), "config")
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{
		filepath.Join(config, "crd"), filepath.Join(config, "manager", "namespace.yaml"), filepath.Join(config, "rbac"),
	}})
	startManager(t, c)
	cloud := memory.NewServer(key)
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range []string{memory.Provider, legacy.Provider} {
		t.Run(provider, func(t *testing.T) {
			j := journey{client: admin, cloud: cloud, name: strings.ToLower(provider)}
			j.travel(t, provider, server.URL)
		})
	}
}

func startManager(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	kubeconfig, err := c.KubeconfigFor(account)
	if err != nil {
		t.Fatal(err)
	}
	process.ForTest(t, t.TempDir(), process.Command{
		Name: "manager", Program: os.Getenv("OUTSIDE_MANAGER"), Args: []string{
			"--control-kubeconfig=" + kubeconfig, "--target-kubeconfig=" + kubeconfig, "--namespace=" + namespace,
			"--address=127.0.0.1", fmt.Sprintf("--port=%d", process.PortForTest(t)), "--machine-controller-port=0",
		},
	})
}

// journey is one Machine with its class.
type journey struct {
	client client.Client
	cloud  *memory.Server
	name   string
}

func (j journey) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: j.name}
}

// travel creates the Machine, lets its node join, and deletes it.
func (j journey) travel(t *testing.T, provider, url string) {
	secret := &corev1.Secret{ObjectMeta: j.meta(), Data: map[string][]byte{
		"key": []byte(key), "userData": []byte("token: <<BOOTSTRAP_TOKEN>>\n"),
	}}
	class := &machinev1.MachineClass{
		ObjectMeta: j.meta(), Provider: provider,
		SecretRef: &corev1.SecretReference{Namespace: namespace, Name: j.name},
	}
	class.ProviderSpec.Raw = fmt.Appendf(nil, `{"url":%q,"type":"small","zone":"z1","cluster":%q,"role":"node"}`, url, j.name)
	machine := &machinev1.Machine{ObjectMeta: j.meta(), Spec: machinev1.MachineSpec{
		Class: machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: j.name},
	}}
	for _, o := range []client.Object{secret, class, machine} {
		if err := j.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	made := j.await(t, "its VM is recorded", func(m *machinev1.Machine) bool { return m.Spec.ProviderID != "" })
	vms := j.vms()
	if len(vms) != 1 || made.Spec.ProviderID != "memory:///"+vms[0].ID || strings.Contains(string(vms[0].UserData), "<<") {
		t.Fatalf("providerID %s, VMs %+v, want one of that id with finished boot data", made.Spec.ProviderID, vms)
	}
	if uid := vms[0].Tags[legacy.UIDTag]; provider == legacy.Provider && uid != string(made.UID) {
		t.Errorf("the driver was handed a Machine with UID %q, want %s", uid, made.UID)
	}
	j.join(t, made.Spec.ProviderID)
	j.await(t, "it runs", func(m *machinev1.Machine) bool {
		return m.Status.CurrentStatus.Phase == machinev1.MachineRunning
	})
	if err := j.client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	j.await(t, "it is gone", nil)
	if vms := j.vms(); len(vms) > 0 {
		t.Errorf("VMs are left: %+v", vms)
	}
}

// vms are the VMs of the machine.
func (j journey) vms() []memory.VM {
	var mine []memory.VM
	for _, vm := range j.cloud.VMs() {
		if vm.Name == j.name {
			mine = append(mine, vm)
		}
	}
	return mine
}

// join plays the kubelet.
func (j journey) join(t *testing.T, providerID string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: j.name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if err := j.client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	ready := node.DeepCopy()
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := j.client.Status().Patch(t.Context(), ready, client.MergeFrom(node)); err != nil {
		t.Fatal(err)
	}
}

// await reads the Machine again until it is so; nil waits until it is gone.
func (j journey) await(t *testing.T, what string, so func(*machinev1.Machine) bool) *machinev1.Machine {
	t.Helper()
	m := &machinev1.Machine{}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			m = &machinev1.Machine{}
			err := j.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: j.name}, m)
			if so == nil {
				return err != nil && client.IgnoreNotFound(err) == nil, nil
			}
			return err == nil && so(m), nil
		})
	if err != nil {
		t.Fatalf("%s: %v: %+v, VMs %+v", what, err, m.Status, j.vms())
	}
	return m
}
