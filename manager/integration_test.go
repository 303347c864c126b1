package manager

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestRun runs the manager against a real API server, with the permissions of
// config/rbac and nothing more.
func TestRun(t *testing.T) {
	t.Parallel()
	ctrl.SetLogger(klog.Background())
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{
		"../config/crd", "../config/manager/namespace.yaml",
		"../config/rbac",
	}})
	admin := adminClient(t, c)
	kubeconfig, err := c.KubeconfigFor(account)
	if err != nil {
		t.Fatal(err)
	}
	const leases = "machine-controller-manager"
	args := []string{
		"--control-kubeconfig=" + kubeconfig, "--target-kubeconfig=" + kubeconfig, "--namespace=",
		"--leader-elect-resource-namespace=" + leases,
		"--machine-safety-orphan-vms-period=1s", "--machine-safety-apiserver-statuscheck-period=1s",
		"--machine-safety-apiserver-statuscheck-timeout=1s",
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms",
	}
	traces := &collected{}
	leader := startTraced(t, traces.tracer(t), args...)
	leader.awaitReady(t)
	awaitHolders(t, admin, leases, true)
	leads := holder(t.Context(), t, admin, leases, machinev1.LeaseMachineController)

	standby := startTraced(t, traces.tracer(t), args...)
	standby.awaitReady(t)

	vms := sim.New(sim.Options{Clock: clock.RealClock{}, Settings: sim.DefaultSettings()})
	server := httptest.NewServer(sim.Handler(vms, nil))
	t.Cleanup(server.Close)
	objects := workload(server.URL)
	for _, o := range objects {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	awaitPhase(t, admin, machinev1.MachinePending)
	joinNodes(t, admin)
	awaitPhase(t, admin, machinev1.MachineRunning)
	eventually(t, time.Minute, func(ctx context.Context) string {
		events := &corev1.EventList{}
		if err := admin.List(ctx, events, client.InNamespace("work"),
			client.MatchingFields{"reason": machinev1.EventSuccessfulCreate}); err != nil {
			return err.Error()
		}
		if len(events.Items) == 0 {
			return "no core/v1 Event tells that a machine was created"
		}
		return ""
	})
	all, err := machines(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, leader, standby)

	leader.stop()
	if err := <-leader.ended; err != nil {
		t.Errorf("the leader ended with an error after it was asked to: %v", err)
	}
	eventually(t, 10*time.Second, func(ctx context.Context) string {
		if now := holder(ctx, t, admin, leases, machinev1.LeaseMachineController); now == leads || now == "" {
			return "the standby has not taken over: the lease is held by " + now
		}
		return ""
	})
	removeAll(t, admin, objects)
	checkEventsHaveTraces(t, admin, all) // a healthy machine has none before its deletion
	checkForbidden(t, standby)
	standby.stop()
	if err := <-standby.ended; err != nil {
		t.Errorf("the second leader ended with an error after it was asked to: %v", err)
	}
	awaitHolders(t, admin, leases, false)
	traces.check(t, all)

	robbed := start(t, args...)
	awaitHolders(t, admin, leases, true)
	for _, name := range []string{machinev1.LeaseMachineController, machinev1.LeaseMachineControllerManager} {
		steal(t, admin, leases, name)
	}
	select {
	case err := <-robbed.ended:
		if err == nil || !strings.Contains(err.Error(), "leader election lost") {
			t.Errorf("a leader without leases ended with %v, want an error: the process has to end at once", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a leader goes on although somebody else holds its leases")
	}
}

// checkMetrics looks at what both ports of both managers serve.
func checkMetrics(t *testing.T, leader, standby *running) {
	t.Helper()
	cases := map[string]struct {
		reason string
		port   int
		has    []string
		lacks  []string
	}{
		"Manager": {
			"sets and deployments are on the first port", leader.port,
			[]string{
				`mcm_machine_set_info_spec_replicas{name="`, `mcm_workqueue_adds_total{name="machineset"}`,
				"mcm_reflector_watches_total", "rest_client_requests_total",
			},
			[]string{"mcm_machine_info{"},
		},
		"MachineController": {
			"machines are on the second", leader.second,
			[]string{"mcm_machine_info{", "mcm_machine_controller_frozen 0", `mcm_workqueue_adds_total{name="machine"}`},
			[]string{"mcm_machine_set_info{"},
		},
		"Standby": {
			"a standby does not count the same machines again", standby.second,
			[]string{"mcm_workqueue_adds_total"},
			[]string{"mcm_machine_info{"},
		},
	}
	for name, tc := range cases {
		_, body := get(t.Context(), tc.port, "/metrics")
		for _, want := range tc.has {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %s: %s is missing", name, tc.reason, want)
			}
		}
		for _, not := range tc.lacks {
			if strings.Contains(body, not) {
				t.Errorf("%s: %s: %s is there", name, tc.reason, not)
			}
		}
	}
	for path, want := range map[string]string{"/healthz": "ok", "/configz": `"machine-drain-timeout":"2h0m0s"`} {
		if _, body := get(t.Context(), leader.second, path); !strings.Contains(body, want) {
			t.Errorf("%s is %q, want %q in it", path, body, want)
		}
	}
	if status, _ := get(t.Context(), leader.port, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("profiles are served without --profiling")
	}
}

// checkForbidden fails if the API server has refused anything: a right is missing.
func checkForbidden(t *testing.T, r *running) {
	t.Helper()
	_, body := get(t.Context(), r.port, "/metrics")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "rest_client_requests_total") && strings.Contains(line, `code="403"`) {
			t.Errorf("config/rbac lacks a right: %s", line)
		}
	}
}

func removeAll(t *testing.T, admin client.Client, objects []client.Object) {
	t.Helper()
	for i := len(objects) - 1; i > 0; i-- { // the namespace stays
		if err := admin.Delete(t.Context(), objects[i]); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, func(ctx context.Context) string {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(objects[i]), objects[i]); err == nil {
				return fmt.Sprintf("%T %s is still there: %v", objects[i], objects[i].GetName(), objects[i].GetFinalizers())
			}
			return ""
		})
	}
}

// workload is a deployment of two machines in a namespace of its own.
func workload(endpoint string) []client.Object {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "work", Name: name} }
	s := sim.DefaultSettings()
	secret := &corev1.Secret{ObjectMeta: meta("secret"), Data: map[string][]byte{
		"userData": []byte("token: <<BOOTSTRAP_TOKEN>>\n"), "accountID": []byte(s.Accounts[0].ID),
		"secretKey": []byte(s.Accounts[0].SecretKeys[0]),
	}}
	class := &machinev1.MachineClass{
		ObjectMeta: meta("class"), Provider: "sim",
		SecretRef: &corev1.SecretReference{Namespace: "work", Name: "secret"},
	}
	class.ProviderSpec.Raw = fmt.Appendf(nil, `{"endpoint":%q,"region":%q,"zone":%q,"instanceType":%q,"image":%q,
		"tags":{"kubernetes.io/cluster/sim":"1","kubernetes.io/role/node":"1"}}`,
		endpoint, s.Zones[0].Region, s.Zones[0].Name, s.InstanceTypes[0].Name, s.Images[0].ID)
	labels := map[string]string{"name": "pool"}
	deployment := &machinev1.MachineDeployment{ObjectMeta: meta("pool")}
	deployment.Spec = machinev1.MachineDeploymentSpec{
		Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: machinev1.MachineDeploymentStrategy{Type: machinev1.RecreateStrategyType},
	}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec.Class = machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "class"}
	deployment.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"from": "template"}
	return []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, secret, class, deployment}
}

func machines(ctx context.Context, admin client.Client) ([]machinev1.Machine, error) {
	list := &machinev1.MachineList{}
	err := admin.List(ctx, list, client.InNamespace("work"))
	return list.Items, err
}

// awaitPhase waits until both machines are that far.
func awaitPhase(t *testing.T, admin client.Client, phase machinev1.MachinePhase) {
	t.Helper()
	eventually(t, time.Minute, func(ctx context.Context) string {
		all, err := machines(ctx, admin)
		if err != nil {
			return err.Error()
		}
		for i := range all {
			if s := all[i].Status; s.CurrentStatus.Phase != phase {
				return fmt.Sprintf("%s is not %s: %+v %+v", all[i].Name, phase, s.CurrentStatus, s.LastOperation)
			}
		}
		if len(all) != 2 {
			return fmt.Sprintf("%d machines, want 2", len(all))
		}
		return ""
	})
}

// joinNodes plays the kubelets: a ready node and a pod on it for each machine.
func joinNodes(t *testing.T, admin client.Client) {
	t.Helper()
	all, err := machines(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		name := all[i].Labels[machinev1.NodeLabel]
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.NodeSpec{ProviderID: all[i].Spec.ProviderID},
		}
		if err := admin.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		ready := node.DeepCopy()
		ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := admin.Status().Patch(t.Context(), ready, client.MergeFrom(node)); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "on-" + name}}
		pod.Spec = corev1.PodSpec{
			NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			ServiceAccountName:           "default",
			AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		}
		if err := admin.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{})
	cases := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"NoFile":   {"a kubeconfig that is not there", []string{"--target-kubeconfig=/nonexistent"}, "--target-kubeconfig"},
		"NoCRDs":   {"an API server without our kinds", []string{"--target-kubeconfig=" + c.Kubeconfig()}, "apply the CRDs"},
		"NoServer": {"no API server", []string{"--target-kubeconfig=" + nowhere(t)}, "not healthy within 10s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := parse(tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			err = o.work(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

// nowhere is a kubeconfig of a server that does not answer.
func nowhere(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["x"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "x"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
