package integration

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// reader is a user who has the shipped ClusterRole and nothing else.
type reader struct {
	*env
	kubeconfig string
	flags      []string
	dir        string // where the plugin runs; empty is that of the test
}

// reading binds config/rbac/reader_role.yaml in a cluster to a new user, and returns its kubeconfig.
func (s *suite) reading(in *cluster.Cluster, admin client.Client) string {
	s.Helper()
	root, err := cluster.Root()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(in.ApplyFile(s.Context(), filepath.Join(root, "config", "rbac", "reader_role.yaml"))).To(Succeed())
	s.Expect(admin.Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubectl-mcm-reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	})).To(Succeed())
	kubeconfig, err := in.KubeconfigFor("reader")
	s.Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// mcm runs the plugin as the reader, and returns what it prints and its exit code.
func (r *reader) mcm(ctx context.Context, args ...string) (string, int) {
	r.Helper()
	args = append(args, "-n", r.namespace, "--kubeconfig", r.kubeconfig)
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "kubectl-mcm"), append(args, r.flags...)...)
	cmd.Dir = r.dir
	var warnings strings.Builder
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		r.Fatal(err)
	}
	return string(out) + warnings.String(), cmd.ProcessState.ExitCode()
}

// explains waits, for a minute, until why names this concern for an object, and returns it.
func (r *reader) explains(object string, concern explain.Concern, words ...string) *explain.Finding {
	r.Helper()
	var e explain.Explanation
	began := time.Now()
	err := stack.Until(r.Context(), time.Minute, func(context.Context) error {
		text, code := r.mcm(r.Context(), "why", object, "-o", "json") // not ctx: ctx may have ended by the last answer
		e = explain.Explanation{}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return fmt.Errorf("exit code %d: %s", code, text)
		}
		if e.Missing == nil || e.Missing.Concern != concern {
			return fmt.Errorf("missing is %+v, want concern %s", e.Missing, concern)
		}
		for _, word := range words {
			if !strings.Contains(e.Missing.Message, word) {
				return fmt.Errorf("message %q lacks %q", e.Missing.Message, word)
			}
		}
		if want := map[bool]int{true: 4, false: 3}[e.Missing.NeedsPerson]; code != want {
			return stack.Fatal(fmt.Errorf("exit code %d, want %d", code, want))
		}
		return nil
	})
	r.Expect(err).NotTo(HaveOccurred())
	r.Logf("%s: %s after %s: %s", object, concern, time.Since(began).Round(time.Second), e.Missing.Message)
	r.Expect(e.Missing.Remedy).NotTo(BeEmpty())
	r.Expect(e.Missing.Next).NotTo(BeEmpty())
	r.Expect(e.APIVersion).To(Equal(explain.Version))
	return e.Missing
}

// TestWhy has pools that are broken in five ways. why names the cause and the remedy of each
// within a minute, to a user with the shipped role.
func TestWhy(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Controllers: cluster.Controllers("disruption-controller")},
		"--machine-safety-outage-protection=false")
	limited := account("why-quota")
	limited.VMQuota = 1
	s.Expect(s.Cloud.SetAccounts(t.Context(), account("why-class"), account("why-key"), account("why-budget"), limited,
		account("why-capacity"), account("why-name"), account("garden"), account("orchard"))).To(Succeed())
	s.Expect(s.Cloud.SetCapacity(t.Context(), "gpu", 0)).To(Succeed())
	kubeconfig := s.reading(s.Cluster, s.Client)
	for name, env := range map[string]func(*reader){
		"why-class": wrongClassField, "why-key": refusedCredentials, "why-budget": budgetBlocksDrain,
		"why-quota": usedUpQuota, "why-capacity": exhaustedCapacity, "why-name": nodeOfAnotherName, "garden": captures,
		"orchard": mishapCaptures,
	} {
		t.Run(name, func(t *testing.T) { env(&reader{env: s.env(t, name, nil), kubeconfig: kubeconfig}) })
	}
}

func wrongClassField(r *reader) {
	r.class(func(c *machinev1.MachineClass, _ *corev1.Secret) { r.specField(c, "region", "nowhere-1") })
	r.pool(1)
	found := r.explains("machinedeployment/"+r.name, explain.ClassField, "region")
	r.Expect(found.NeedsPerson).To(BeTrue())
	r.Expect(found.Commands).To(ContainElement("kubectl edit machineclasses.machine.sapcloud.io/why-class -n default"))
}

func refusedCredentials(r *reader) {
	r.class(func(_ *machinev1.MachineClass, secret *corev1.Secret) { secret.Data["secretKey"] = []byte("expired") })
	r.pool(1)
	found := r.explains("machinedeployment/"+r.name, explain.Credentials)
	r.Expect(found.NeedsPerson).To(BeTrue())
	r.Expect(found.Commands).To(ContainElement("kubectl edit secret why-key -n default"))
	text, _ := r.mcm(r.Context(), "why", r.name)
	r.Expect(text).NotTo(ContainSubstring("key of"), "no secret is printed")
}

func budgetBlocksDrain(r *reader) {
	r.class()
	m := r.single("why-budget-1")
	r.phase(m, machinev1.MachineRunning)
	labels := map[string]string{"app": r.name}
	pod := r.bound(m)
	r.Expect(r.Edit(r.Context(), pod, func() { pod.Labels = labels })).To(Succeed())
	r.eventually("the pod runs", func(ctx context.Context) error {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: r.meta(r.name)}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	budget.Spec.MinAvailable = new(intstr.FromInt32(1))
	r.Expect(r.Client.Create(r.Context(), budget)).To(Succeed())
	r.eventually("the budget counts", func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if budget.Status.ExpectedPods != 1 || budget.Status.DisruptionsAllowed != 0 {
			return fmt.Errorf("%+v", budget.Status)
		}
		return nil
	})
	r.Expect(r.Client.Delete(r.Context(), m)).To(Succeed())
	found := r.explains("machine/"+m.Name, explain.Drain, budget.Name)
	r.Expect(found.NextTime).NotTo(BeNil(), "the drain timeout ends it")
	r.Expect(found.Commands).To(ContainElement("kubectl get poddisruptionbudgets -A"))
	r.Expect(r.Edit(r.Context(), pod, func() { pod.Finalizers = nil })).To(Succeed())
	r.Expect(r.Client.Delete(r.Context(), budget)).To(Succeed())
	r.gone(m)
	text, code := r.mcm(r.Context(), "why", "machine/"+m.Name)
	r.Expect(code).To(Equal(1), "an object that is gone is no finding")
	r.Expect(text).To(ContainSubstring("no such object"))
}

func usedUpQuota(r *reader) {
	r.class()
	r.pool(2)
	r.explains("machinedeployment/"+r.name, explain.Quota, "1 of 2 machines available")
}

func exhaustedCapacity(r *reader) {
	r.class(func(c *machinev1.MachineClass, _ *corev1.Secret) {
		r.specField(c, "instanceType", "gpu")
		c.NodeTemplate.InstanceType = "gpu"
	})
	r.pool(1)
	r.explains("machinedeployment/"+r.name, explain.Capacity, "gpu")
}

// nodeOfAnotherName: the VM has joined, and the machine waits for a Node that never comes.
func nodeOfAnotherName(r *reader) {
	r.class(func(_ *machinev1.MachineClass, secret *corev1.Secret) {
		data := strings.ReplaceAll(string(secret.Data[machinev1.UserDataKey]), "nodeName: "+machinev1.MachineNamePlaceholder,
			"nodeName: localhost")
		secret.Data[machinev1.UserDataKey] = []byte(data)
	})
	m := r.single("why-name-1")
	r.phase(m, machinev1.MachinePending)
	found := r.explains("machine/"+m.Name, explain.Join, "localhost")
	r.Expect(found.Reason).To(Equal("NodeOfAnotherName"))
}

// TestWhyAPIServer stops the API server with the nodes. why names it, before and after the manager
// has noticed, for machines that exist and for one that is to come.
func TestWhyAPIServer(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	target := cluster.ForTest(t, cluster.Options{
		Manifests: []string{filepath.Join(root, "config", "samples", "sim", "bootstrap-rbac.yaml")},
	})
	su := startWithout(t, stack.Options{Controllers: []string{}, Cloud: []string{
		"--latency=20ms", "--boot-time=500ms", "--delete-time=200ms", "--kubeconfig=" + target.Kubeconfig(),
	}})
	su.Expect(su.Cloud.SetAccounts(t.Context(), account("why-target"))).To(Succeed())
	s := su.env(t, "why-target", nil)
	nodes, err := client.New(target.Config(), client.Options{})
	s.Expect(err).NotTo(HaveOccurred())
	r := &reader{
		env: s, kubeconfig: su.reading(su.Cluster, su.Client),
		flags: []string{"--target-kubeconfig", su.reading(target, nodes)},
	}
	s.class(func(_ *machinev1.MachineClass, secret *corev1.Secret) {
		secret.Data[machinev1.UserDataKey] = fmt.Appendf(nil, "server: %s\ncaData: %s\ntoken: %s\nnodeName: %s\n",
			target.URL(), base64.StdEncoding.EncodeToString(target.CA()), machinev1.BootstrapTokenPlaceholder,
			machinev1.MachineNamePlaceholder)
	})
	_, err = s.StartManager("--target-kubeconfig="+target.Kubeconfig(),
		"--machine-safety-apiserver-statuscheck-timeout=1s", "--machine-safety-apiserver-statuscheck-period=1s")
	s.Expect(err).NotTo(HaveOccurred())
	d := s.pool(1)
	m := s.runningOn(nodes, 1)[0]
	text, code := r.mcm(s.Context(), "why", "machine/"+m.Name)
	s.Expect(code).To(BeZero(), text)
	s.Expect(text).To(ContainSubstring("Nothing is missing."))
	s.Expect(text).NotTo(ContainSubstring("Warning"), "the role suffices in both clusters")

	s.Expect(target.KillAPIServer()).To(Succeed())
	found := r.explains("machine/"+m.Name, explain.APIServer, "Nodes cannot be read")
	s.Expect(found.Commands).To(ContainElement("kubectl --kubeconfig TARGET get --raw /readyz"))
	s.Expect(s.Edit(s.Context(), d, func() { d.Spec.Replicas = 2 })).To(Succeed())
	r.explains("machinedeployment/"+s.name, explain.APIServer)
	s.Expect(target.StartAPIServer(s.Context())).To(Succeed())
	s.runningOn(nodes, 2)
}
