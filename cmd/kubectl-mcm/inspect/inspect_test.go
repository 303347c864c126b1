package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// builder is an API server with these objects.
func builder(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
}

// run runs a command in namespace garden.
func run(t *testing.T, api client.Reader, args ...string) (string, error) {
	t.Helper()
	root := &cobra.Command{Use: "kubectl-mcm", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringP("output", "o", "table", "that of commands that write")
	root.AddCommand(Commands(Deps{
		Connect: func() (Clusters, error) { return Clusters{Control: api, Target: api, Namespace: "garden"}, nil },
		Now:     func() time.Time { return now },
	})...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// before is the metadata of an object that was created some minutes ago.
func before(minutes int) func(client.Object) {
	return func(o client.Object) {
		o.SetNamespace("garden")
		o.SetCreationTimestamp(metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute)))
	}
}

func owned(kind string, owner client.Object) func(client.Object) {
	return func(o client.Object) {
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true),
		}})
	}
}

func with[T client.Object](o T, change ...func(client.Object)) T {
	for _, f := range change {
		f(o)
	}
	return o
}

func unready(kind, reason, message string) *machinev1.Progress {
	return &machinev1.Progress{Conditions: []metav1.Condition{{
		Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now.Add(-3 * time.Minute)),
	}}}
}

// nativePool is a deployment of three: two are Running, the cloud has no capacity for the third.
func nativePool() []client.Object {
	d := with(fixture.MachineDeployment("workers", "workers-v1", 3, fixture.RollingUpdate("1", "1")), before(60))
	d.UID, d.Labels = "uid-d", map[string]string{"team": "a"}
	d.Status.AvailableReplicas, d.Status.UpdatedReplicas = 2, 3
	s := with(&machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers-abcde", UID: "uid-s"}}, before(60),
		owned(machinev1.MachineDeploymentKind, d))
	s.Spec.Replicas, s.Status.AvailableReplicas, s.Spec.Template = 3, 2, d.Spec.Template
	old := with(&machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers-old", UID: "uid-o"}}, before(600),
		owned(machinev1.MachineDeploymentKind, d))
	objects := []client.Object{d, s, old, with(&machinev1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Name: "workers-v1"}, SecretRef: &corev1.SecretReference{Name: "workers-secret"},
	}, before(60))}
	for _, name := range []string{"workers-abcde-1", "workers-abcde-2"} {
		m := with(fixture.Machine(name, "workers-v1"), before(55), owned(machinev1.MachineSetKind, s))
		m.UID = types.UID("uid-" + name)
		m.Labels = map[string]string{machinev1.NodeLabel: "node-" + name, machinev1.NameLabel: "workers"}
		m.Spec.ProviderID = "sim:///sim-1/" + name
		m.Status.CurrentStatus.Phase = machinev1.MachineRunning
		m.Status.CurrentStatus.LastUpdateTime = metav1.NewTime(now.Add(-50 * time.Minute))
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name}}
		before(50)(n)
		n.Namespace = ""
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, m, n)
	}
	m := with(fixture.Machine("workers-abcde-3", "workers-v1"), before(5), owned(machinev1.MachineSetKind, s))
	m.UID = "uid-3"
	m.Status.CurrentStatus.Phase = machinev1.MachineCrashLoopBackOff
	m.Status.Progress = unready(machinev1.ConditionVMReady, machinev1.ReasonCapacityExhausted,
		"create VM in zone sim-1a of type small: no capacity left")
	event := with(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "event-1"}, InvolvedObject: corev1.ObjectReference{UID: "uid-workers-abcde-1"},
		Reason: "Joined", Message: "VM joined", LastTimestamp: metav1.NewTime(now.Add(-50 * time.Minute)),
		Source: corev1.EventSource{Component: "machine-controller-manager"}, Count: 1,
	}, before(50))
	return append(objects, m, event)
}

// clusterAPIPool is a Cluster with a MachineDeployment of one, whose credentials are refused.
func clusterAPIPool() []client.Object {
	c := with(fixture.Cluster("prod"), before(90))
	c.UID = "uid-c"
	c.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"},
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized"},
	}
	infra := with(fixture.MCMCluster("prod"), before(90), owned("Cluster", c))
	infra.UID = "uid-ic"
	infra.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	d := with(&clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "blue", UID: "uid-bd"}}, before(80),
		owned("Cluster", c))
	d.Spec.ClusterName, d.Spec.Replicas, d.Status.UpToDateReplicas = "prod", ptr.To[int32](1), ptr.To[int32](1)
	s := with(&clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "blue-xyz", UID: "uid-bs"}}, before(80),
		owned("MachineDeployment", d))
	s.Spec.ClusterName, s.Spec.Replicas = "prod", ptr.To[int32](1)
	m := with(fixture.CAPIMachine("blue-xyz-1", "prod"), before(10), owned("MachineSet", s))
	m.UID, m.Status.Phase = "uid-bm", "Provisioning"
	im := with(fixture.MCMMachine("blue-xyz-1", "prod", "blue-v1"), before(10), owned("Machine", m))
	im.UID = "uid-bi"
	im.Status.Conditions = []metav1.Condition{{
		Type: infrav1.VMProvisionedCondition, Status: metav1.ConditionFalse, Reason: machinev1.ReasonCredentialsRefused,
		Message:            "create VM: the key of account demo is revoked",
		LastTransitionTime: metav1.NewTime(now.Add(-9 * time.Minute)),
	}}
	boot := with(fixture.MCMConfig("blue-xyz-1", "prod", "boot"), before(10), owned("Machine", m))
	boot.UID = "uid-bb"
	boot.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: bootstrapv1.ReasonDataSecretAvailable,
		LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Minute)),
	}}
	return []client.Object{c, infra, d, s, m, im, boot}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args string
		code int
	}{
		"tree":          {"tree", 0},
		"tree-all":      {"tree workers --all", 0},
		"tree-wide":     {"tree -o wide -A", 0},
		"tree-machine":  {"tree workers-abcde-3 --no-headers", 0},
		"tree-name":     {"tree workers -o name", 0},
		"tree-select":   {"tree -l team=a", 0},
		"why-machine":   {"why machine/workers-abcde-3", exitWaits},
		"why-node":      {"why node/node-workers-abcde-1", 0},
		"why-pool":      {"why mcd/workers --no-headers", exitWaits},
		"why-capi":      {"why mcmmachine/blue-xyz-1", exitPerson},
		"why-cluster":   {"why prod", exitPerson},
		"why-json":      {"why machine/workers-abcde-3 -o json", exitWaits},
		"top":           {"top", 0},
		"top-wide":      {"top -A -o wide", 0},
		"top-columns":   {"top -o custom-columns=POOL:.object.name,WAITING:.waiting[*].reason", 0},
		"trace":         {"timeline machine/workers-abcde-1 -o chrome-trace", 0},
		"timeline":      {"timeline machine/workers-abcde-1", 0},
		"timeline-yaml": {"timeline mc/workers-abcde-3 -o yaml", 0},
		"why-selector":  {"why machines.machine.sapcloud.io -l name=workers -o name", 0},
		"why-yaml":      {"why cluster/prod machinedeployments.machine.sapcloud.io/workers -o yaml", exitPerson},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := builder(t, append(nativePool(), clusterAPIPool()...)...).Build()
			got, err := run(t, api, strings.Fields(tc.args)...)
			if code, _ := errors.AsType[output.ExitCodeError](err); int(code) != tc.code || err != nil && tc.code == 0 {
				t.Errorf("error %v, want exit code %d", err, tc.code)
			}
			compare(t, name, got)
		})
	}
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if strings.Contains(got, "\x1b") {
		t.Error("colours, although the output is no terminal")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct{ args, want string }{
		"a pool that does not exist":     {"tree workers nobody", "nobody: no pool has that name"},
		"a format that no printer has":   {"tree -o xml", `output format "xml"`},
		"a selector that cannot be read": {"tree -l a=b=c", "--selector="},
		"a name with a selector":         {"why machine/workers-abcde-3 -l a=b", "with --selector name a kind"},
		"labels that no object has":      {"why machine -l a=b", "machine with labels a=b: no such object"},
		"metrics without a manager":      {"top --metrics-url http://127.0.0.1:1/metrics", "--metrics-url="},
		"a pool to top":                  {"top nobody", "nobody: no pool has that name"},
		"an object that does not exist":  {"why machine/nobody", "machine/nobody: no such object"},
		"a name that no object has":      {"why nobody", "nobody: no such object"},
		"a kind that is not known":       {"why pod/web", `kind "pod" is not known`},
		"the other API":                  {"why machine.cluster.x-k8s.io/workers-abcde-3", "no such object"},
		"nothing named":                  {"why", "requires at least 1 arg"},
		"a timeline of two":              {"timeline workers workers-abcde", "accepts 1 arg"},
		"a timeline of none":             {"timeline nobody", "no such object"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, builder(t, nativePool()...).Build(), strings.Fields(tc.args)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if _, code := errors.AsType[output.ExitCodeError](err); code {
				t.Error("a failure looks like a finding")
			}
		})
	}
}

// TestVersionedOutput: programs find the version, and fields by JSONPath.
func TestVersionedOutput(t *testing.T) {
	t.Parallel()
	api := builder(t, nativePool()...).Build()
	for args, kind := range map[string]string{
		"tree -o json": "Tree", "why workers -o json": "Explanation", "why workers workers-abcde -o json": "ExplanationList",
	} {
		out, _ := run(t, api, strings.Fields(args)...)
		var head metav1.TypeMeta
		if err := json.Unmarshal([]byte(out), &head); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		if head.APIVersion != "cli.mcm.cluster.x-k8s.io/v1alpha1" || head.Kind != kind {
			t.Errorf("%s: %+v, want kind %s", args, head, kind)
		}
	}
	if out, _ := run(t, api, "why", "workers", "-o", "jsonpath={.missing.concern}"); out != "Capacity" {
		t.Errorf("JSONPath finds %q", out)
	}
}

// forbidding is an API server that refuses to list some kinds.
func forbidding(t *testing.T, refused func(client.ObjectList) bool, objects ...client.Object) client.Reader {
	t.Helper()
	return builder(t, objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if refused(list) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no right"))
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

// TestFewerRights: what may not be read is left out and told; without anything it fails.
func TestFewerRights(t *testing.T) {
	t.Parallel()
	nodes := forbidding(t, func(l client.ObjectList) bool { _, is := l.(*corev1.NodeList); return is }, nativePool()...)
	out, err := run(t, nodes, "tree", "workers", "--all")
	if err != nil || !strings.Contains(out, "Warning: not read: Nodes") || !strings.Contains(out, "/workers-abcde-1") {
		t.Errorf("error %v, want the machines and a warning about Nodes:\n%s", err, out)
	}
	all := forbidding(t, func(client.ObjectList) bool { return true }, nativePool()...)
	if _, err := run(t, all, "tree"); err == nil || !strings.Contains(err.Error(), "no right") {
		t.Errorf("error %v, want what is not allowed", err)
	}
}
