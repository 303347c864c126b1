package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

const samples = "../../config/samples/sim/"

// suite is a control plane that all tests share, each with a cloud of its own.
type suite struct {
	*testing.T
	cluster    *cluster.Cluster
	kubeconfig string // of simcloud, with the permissions of the samples
	client     kubernetes.Interface
}

func TestSimcloud(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{Manifests: []string{samples + "bootstrap-rbac.yaml", samples +
		"simcloud-rbac.yaml"}})
	kubeconfig, err := c.KubeconfigFor("simcloud", "simcloud")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*suite){
		"Node": testNode, "Pods": testPods, "TokenTooLate": testTokenTooLate, "Behaviour": testBehaviour,
		"Restart": testRestart, "ForeignNode": testForeignNode, "LostVM": testLostVM,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&suite{T: t, cluster: c, kubeconfig: kubeconfig, client: client})
		})
	}
}

// simcloud is a running one.
type simcloud struct {
	s        *suite
	endpoint string
	stop     func()
}

// start runs simcloud until the test ends or stop is called.
func (s *suite) start(args ...string) *simcloud {
	s.Helper()
	file := filepath.Join(s.TempDir(), "address")
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, append([]string{"--address-file=" + file, "--kubeconfig=" + s.kubeconfig, "--lease-period=1s"},
			args...))
	}()
	out := &simcloud{s: s}
	stopped := false
	out.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("simcloud ended: %v", err)
		}
	}
	s.Cleanup(out.stop)
	s.until("simcloud listens", func() error {
		text, err := os.ReadFile(filepath.Clean(file))
		out.endpoint = "http://" + strings.TrimSpace(string(text))
		return err
	})
	return out
}

// until calls f until it returns nil.
func (s *suite) until(what string, f func() error) {
	s.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.Fatalf("%s: not in time: %v", what, err)
		}
	}
}

// token makes a bootstrap token, in one of the tests' own ids.
func (s *suite) token(id string) string {
	s.Helper()
	const secret = "0123456789abcdef"
	_, err := s.client.CoreV1().Secrets("kube-system").Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return id + "." + secret
}

// userData is that of the sample, with more lines.
func (s *suite) userData(name, token string, more ...string) []byte {
	return []byte(fmt.Sprintf("#cloud-config\nserver: %s\ncaData: %s\ntoken: %s\nnodeName: %s\n%s\n",
		s.cluster.URL(), base64.StdEncoding.EncodeToString(s.cluster.CA()), token, name, strings.Join(more, "\n")))
}

// create makes a VM as the manager does, over the network.
func (c *simcloud) create(name string, userData []byte) cloud.VM {
	c.s.Helper()
	account, class := c.account()
	vm, err := account.Create(c.s.Context(), cloud.CreateRequest{
		Ref: cloud.Ref{Name: name, OwnerID: "owner-" + name, Class: class}, Token: "token-" + name, UserData: userData,
	})
	if err != nil {
		c.s.Fatal(err)
	}
	return vm
}

func (c *simcloud) remove(vm cloud.VM) {
	c.s.Helper()
	account, class := c.account()
	if _, err := account.Delete(c.s.Context(), cloud.Ref{
		Name: vm.Name, ProviderID: vm.ProviderID,
		Class: class,
	}); err != nil {
		c.s.Fatal(err)
	}
}

func (c *simcloud) account() (cloud.Account, cloud.Class) {
	c.s.Helper()
	d := sim.NewDriver(nil)
	class, problems := d.Parse(cloud.ClassInput{Spec: []byte(fmt.Sprintf(`{"endpoint":%q,"region":"sim-1","zone":"sim-1b",
		"instanceType":"gpu","image":"linux-1",
		"tags":{"kubernetes.io/cluster/a":"1","kubernetes.io/role/b":"1"}}`, c.endpoint))})
	if len(problems) > 0 {
		c.s.Fatal(problems)
	}
	account, err := d.Open(c.s.Context(), class, cloud.Credentials{
		"accountID": []byte("demo"),
		"secretKey": []byte("demo-secret"),
	})
	if err != nil {
		c.s.Fatal(err)
	}
	return account, class
}

// admin calls an endpoint of the cloud's owner, which has to succeed.
func (c *simcloud) admin(method, path, body string, out any) {
	c.s.Helper()
	status, text := c.ask(method, path, body)
	if status != http.StatusOK {
		c.s.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(text, out); err != nil {
		c.s.Fatal(err)
	}
}

// ask sends a request and returns the status and the answer.
func (c *simcloud) ask(method, path, body string) (int, []byte) {
	c.s.Helper()
	req, err := http.NewRequestWithContext(c.s.Context(), method, c.endpoint+path, strings.NewReader(body))
	if err != nil {
		c.s.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.s.Fatal(err)
	}
	return resp.StatusCode, text
}

func (c *simcloud) console(id string) string {
	c.s.Helper()
	var lines []sim.ConsoleLine
	c.admin(http.MethodGet, "/admin/vms/"+id+"/console", "", &lines)
	var all []string
	for _, l := range lines {
		all = append(all, l.Text)
	}
	return strings.Join(all, "\n")
}

func (s *suite) node(name string) (*corev1.Node, error) {
	return s.client.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
}

// condition waits until a node has a condition of that status.
func (s *suite) condition(name string, kind corev1.NodeConditionType, want corev1.ConditionStatus) {
	s.Helper()
	s.until(fmt.Sprintf("node %s has %s=%s", name, kind, want), func() error {
		node, err := s.node(name)
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == kind && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", node.Status.Conditions)
	})
}

// nodeGone waits until there is no such node.
func (s *suite) nodeGone(name string) {
	s.Helper()
	s.until("node "+name+" is gone", func() error {
		_, err := s.node(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

func testNode(s *suite) {
	c := s.start("--boot-time=200ms", "--delete-time=100ms", "--node-ready-delay=300ms")
	vm := c.create("node-a", s.userData("node-a", s.token("aaaaaa"), "labels: {team: a}",
		"taints: [{key: k, value: v, effect: NoSchedule}]"))
	if vm.State != cloud.StatePending {
		s.Errorf("a new VM is %v, want pending", vm.State)
	}
	s.condition("node-a", corev1.NodeReady, corev1.ConditionFalse)
	s.condition("node-a", corev1.NodeReady, corev1.ConditionTrue)
	node, err := s.node("node-a")
	if err != nil {
		s.Fatal(err)
	}
	if node.Spec.ProviderID != "sim:///sim-1b/"+vm.ID {
		s.Errorf("providerID %q, want the node's form of %s", node.Spec.ProviderID, vm.ID)
	}
	for key, want := range map[string]string{
		"team": "a", "kubernetes.io/hostname": "node-a", "kubernetes.io/arch": "amd64",
		"node.kubernetes.io/instance-type": "gpu",
		"topology.kubernetes.io/zone":      "sim-1b", "topology.kubernetes.io/region": "sim-1",
	} {
		if node.Labels[key] != want {
			s.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
	if gpus := node.Status.Capacity["nvidia.com/gpu"]; gpus.Cmp(resource.MustParse("1")) != 0 {
		s.Errorf("capacity %v, want 1 GPU", node.Status.Capacity)
	}
	found := false
	for _, taint := range node.Spec.Taints {
		found = found || taint == corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	}
	if !found {
		s.Errorf("taints %v, want that of the user data", node.Spec.Taints)
	}
	s.leaseMoves("node-a")
	c.remove(vm)
	s.nodeGone("node-a")
}

// leaseMoves waits until a node's lease was renewed twice.
func (s *suite) leaseMoves(name string) {
	s.Helper()
	seen := map[int64]bool{}
	s.until("the lease is renewed", func() error {
		lease, err := s.client.CoordinationV1().Leases("kube-node-lease").Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if seen[lease.Spec.RenewTime.UnixMicro()] = true; len(seen) < 3 {
			return fmt.Errorf("renewed at %v", seen)
		}
		return nil
	})
}

func testPods(s *suite) {
	c := s.start()
	vm := c.create("node-p", s.userData("node-p", s.token("pppppp")))
	ctx, pods := s.Context(), s.client.CoreV1().Pods("default")
	bound := func(name string) {
		s.Helper()
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName: "node-p", AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: ptr.To[int64](600),
				Containers: []corev1.Container{{Name: "c", Image: "i"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
	}
	// The service account controller does not run here.
	_, err := s.client.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.Fatal(err)
	}
	bound("p1")
	runs := func() error {
		pod, err := pods.Get(ctx, "p1", metav1.GetOptions{})
		if err == nil && !ready(pod) {
			err = fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return err
	}
	s.until("the pod runs", runs)
	gone := func() error {
		_, err := pods.Get(ctx, "p1", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	}
	c.admin(http.MethodPatch, "/admin/vms/"+vm.ID+"/kubelet", `{"pods":false}`, nil)
	if err := pods.Delete(ctx, "p1", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	if err := gone(); err == nil {
		s.Error("a pod of 600 seconds' grace went although its kubelet does not look after pods")
	}
	c.admin(http.MethodPatch, "/admin/vms/"+vm.ID+"/kubelet", `{"pods":true}`, nil)
	s.until("the pod is gone", gone)
}
