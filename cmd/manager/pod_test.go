package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// asManager makes this test binary the manager.
const asManager = "TEST_AS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const shoot = "shoot--a--b"

// The containers of Gardener's pod, by the name of their programs.
const (
	firstContainer = "machine-controller-manager"
	sidecar        = binary
)

// gardenersPorts is locked by the test that has them.
var gardenersPorts sync.Mutex

// pod is Gardener's pod: two processes in one network namespace.
type pod struct {
	t          *testing.T
	dir        string
	admin      client.Client
	args       map[string][]string
	ports      map[string]string
	containers map[string]*process.Process
	starts     int
}

// gardenersArguments are what Gardener gives to its two containers, except for where
// the kubeconfigs are: here no pod has them.
func gardenersArguments(control, target string) map[string][]string {
	return map[string][]string{
		firstContainer: {
			"--control-kubeconfig=" + control, "--machine-safety-overshooting-period=1m", "--namespace=" + shoot, "--port=10258",
			"--safety-up=2", "--safety-down=1", "--target-kubeconfig=" + target, "--concurrent-syncs=30", "--kube-api-qps=150",
			"--kube-api-burst=200", "--v=3",
		},
		sidecar: {
			"--control-kubeconfig=" + control, "--kube-api-qps=100", "--kube-api-burst=200", "--machine-creation-timeout=20m",
			"--machine-drain-timeout=2h", "--machine-health-timeout=10m", "--machine-safety-apiserver-statuscheck-timeout=30s",
			"--machine-safety-apiserver-statuscheck-period=1m", "--machine-safety-orphan-vms-period=30m", "--namespace=" + shoot,
			"--port=10259", "--target-kubeconfig=" + target, "--v=3",
		},
	}
}

// newPod returns a pod whose containers do not run yet, a cluster with Gardener's permissions
// for it, and a pool without machines.
func newPod(t *testing.T) *pod {
	t.Helper()
	manifests, err := filepath.Glob("../../config/crd/machine.sapcloud.io_*.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	c := cluster.ForTest(t, cluster.Options{Manifests: append(manifests, "testdata/gardener_permissions.yaml",
		"../../config/target-cluster")}) // which limits what Gardener's account may create in a shoot
	p := &pod{
		t: t, dir: t.TempDir(), containers: map[string]*process.Process{},
		ports: map[string]string{firstContainer: "10258", sidecar: "10259"},
	}
	control, err := c.KubeconfigFor("system:serviceaccount:" + shoot + ":machine-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	target, err := c.KubeconfigFor("system:serviceaccount:kube-system:machine-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	p.args = gardenersArguments(control, target)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range p.args {
		if err := os.Symlink(program, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if p.admin, err = client.New(c.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	p.createPool()
	return p
}

func (p *pod) createPool() {
	p.t.Helper()
	s := sim.DefaultSettings()
	server := httptest.NewServer(sim.Handler(sim.New(sim.Options{Clock: clock.RealClock{}, Settings: s}), nil))
	p.t.Cleanup(server.Close)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: shoot, Name: name} }
	secret := &corev1.Secret{ObjectMeta: meta("secret"), Data: map[string][]byte{
		"userData":  []byte("token: <<BOOTSTRAP_TOKEN>>\npassword: " + userDataCanary + "\n"),
		"accountID": []byte(s.Accounts[0].ID), "secretKey": []byte(s.Accounts[0].SecretKeys[0]),
	}}
	class := &machinev1.MachineClass{
		ObjectMeta: meta("class"), Provider: "sim",
		SecretRef: &corev1.SecretReference{Namespace: shoot, Name: "secret"},
	}
	class.ProviderSpec.Raw = fmt.Appendf(nil, `{"endpoint":%q,"region":%q,"zone":%q,"instanceType":%q,"image":%q,
		"tags":{"kubernetes.io/cluster/sim":"1","kubernetes.io/role/node":"1"}}`,
		server.URL, s.Zones[0].Region, s.Zones[0].Name, s.InstanceTypes[0].Name, s.Images[0].ID)
	labels := map[string]string{"name": "pool"}
	pool := &machinev1.MachineDeployment{ObjectMeta: meta("pool")}
	pool.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	pool.Spec.Strategy.Type = machinev1.RecreateStrategyType
	pool.Spec.Template.Labels = labels
	pool.Spec.Template.Spec.Class = machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "class"}
	for _, o := range []client.Object{secret, class, pool} {
		if err := p.admin.Create(p.t.Context(), o); err != nil {
			p.t.Fatal(err)
		}
	}
}

// start starts a container and waits until the kubelet's probe finds it alive.
func (p *pod) start(name string, more ...string) {
	p.t.Helper()
	p.starts++
	p.containers[name] = process.ForTest(p.t, p.dir, process.Command{
		Name: fmt.Sprintf("%s-%d", name, p.starts), Program: filepath.Join(p.dir, name),
		Args: append(slices.Clone(p.args[name]), more...), Env: []string{asManager + "=1"},
	})
	p.containers[name].RequireReady(p.t, "http://127.0.0.1:"+p.ports[name]+"/healthz")
}

func (p *pod) kill(name string) {
	p.t.Helper()
	if err := p.containers[name].Kill(); err != nil {
		p.t.Fatal(err)
	}
}

// get returns what a container serves, empty if nothing.
func (p *pod) get(ctx context.Context, name, path string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+p.ports[name]+path, http.NoBody)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// await waits until is returns "", what is missing otherwise.
func (p *pod) await(within time.Duration, is func(ctx context.Context) string) {
	p.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(p.t.Context(), 100*time.Millisecond, within, true,
		func(ctx context.Context) (bool, error) {
			last = is(ctx)
			return last == "", nil
		})
	if err != nil {
		p.t.Fatalf("after %s: %s", within, last)
	}
}

// requireWork waits until one container leads while the other one stands by, and has
// the pool made that large by it.
func (p *pod) requireWork(leader string, replicas int) {
	p.t.Helper()
	standby := firstContainer
	if leader == firstContainer {
		standby = sidecar
	}
	p.await(time.Minute, func(ctx context.Context) string {
		if state := p.get(ctx, leader, "/leader-election"); state != "leading" {
			return fmt.Sprintf("%s is %q, and should lead", leader, state)
		}
		if !p.containers[standby].Ended() && p.get(ctx, standby, "/leader-election") == "leading" {
			return standby + " leads, too"
		}
		return ""
	})
	p.requireMachines(replicas)
}

// requireMachines scales the pool, and waits for its machines and their VMs.
func (p *pod) requireMachines(replicas int) {
	p.t.Helper()
	p.scale(replicas)
	p.await(time.Minute, func(ctx context.Context) string {
		all, made := p.machines(ctx), 0
		for i := range all {
			if all[i].Spec.ProviderID != "" {
				made++
			}
		}
		if made != replicas || len(all) != replicas {
			return fmt.Sprintf("%d machines, %d with a VM, want %d", len(all), made, replicas)
		}
		return ""
	})
}

// scale asks for that many machines.
func (p *pod) scale(replicas int) {
	p.t.Helper()
	pool := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: shoot, Name: "pool"}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := p.admin.Patch(p.t.Context(), pool, patch); err != nil {
		p.t.Fatal(err)
	}
}

// machines are those of the pool.
func (p *pod) machines(ctx context.Context) []machinev1.Machine {
	p.t.Helper()
	list := &machinev1.MachineList{}
	if err := p.admin.List(ctx, list, client.InNamespace(shoot)); err != nil {
		p.t.Fatal(err)
	}
	return list.Items
}

// join plays the kubelets of all machines: their nodes become ready, and the machines Running.
func (p *pod) join() {
	p.t.Helper()
	for _, m := range p.machines(p.t.Context()) {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: m.Labels[machinev1.NodeLabel]},
			Spec:       corev1.NodeSpec{ProviderID: m.Spec.ProviderID},
		}
		if err := p.admin.Create(p.t.Context(), node); err != nil {
			p.t.Fatal(err)
		}
		ready := node.DeepCopy()
		ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := p.admin.Status().Patch(p.t.Context(), ready, client.MergeFrom(node)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.await(time.Minute, func(ctx context.Context) string {
		for _, m := range p.machines(ctx) {
			if m.Status.CurrentStatus.Phase != machinev1.MachineRunning {
				return m.Name + " is " + string(m.Status.CurrentStatus.Phase)
			}
		}
		return ""
	})
}

// requireAlive checks what Gardener probes and scrapes: each port has the metrics of its
// container, from whichever of them leads.
func (p *pod) requireAlive() {
	p.t.Helper()
	has := map[string][]string{
		firstContainer: {"mcm_machine_deployment_info{", "mcm_machine_set_info_spec_replicas{", "process_open_fds"},
		sidecar:        {"mcm_machine_info{", "mcm_cloud_api_driver_request_duration_seconds_count{", "process_open_fds"},
	}
	for name := range p.containers {
		if p.containers[name].Ended() || p.get(p.t.Context(), name, "/healthz") == "" {
			p.t.Fatalf("%s is not alive", name)
		}
		p.await(10*time.Second, func(ctx context.Context) string {
			body := p.get(ctx, name, "/metrics")
			for of, metrics := range has {
				for _, m := range metrics {
					if own := of == name || m == "process_open_fds"; strings.Contains(body, m) != own {
						return fmt.Sprintf("%s in the metrics of %s: %t, want %t", m, name, !own, own)
					}
				}
			}
			if strings.Contains(body, `code="403"`) {
				return "Gardener's role lacks a right that the manager uses"
			}
			return ""
		})
	}
}
