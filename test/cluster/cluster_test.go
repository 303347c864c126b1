package cluster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

const crds = "../../config/crd"

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func machine(name string) *machinev1.Machine { return fixture.Machine(name, "small") }

func TestObjectsSurviveAnAPIServerRestart(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{})
	if err := c.ApplyDir(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	admin := newClient(t, c.Config())
	if err := admin.Create(t.Context(), machine("m1")); err != nil {
		t.Fatalf("create right after ApplyDir: %v", err)
	}
	if err := c.StartAPIServer(t.Context()); !errors.Is(err, cluster.ErrAPIServerRuns) {
		t.Errorf("StartAPIServer while it runs: got %v, want %v", err, cluster.ErrAPIServerRuns)
	}
	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "m1"},
		&machinev1.Machine{}); err == nil {
		t.Error("a killed API server answered")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := &machinev1.Machine{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "m1"}, got); err != nil {
		t.Fatalf("with the old client after the restart: %v", err)
	}
	if got.Spec.Class.Name != "small" {
		t.Errorf("class %q, want small", got.Spec.Class.Name)
	}
}

func TestSuspendedAPIServerHangs(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{})
	admin := newClient(t, c.Config())
	if err := admin.List(t.Context(), &corev1.NamespaceList{}); err != nil {
		t.Fatalf("open the connection that is then suspended: %v", err)
	}
	if err := c.SuspendAPIServer(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := admin.List(short, &corev1.NamespaceList{}); err == nil || short.Err() == nil {
		t.Errorf("list while suspended: got %v before the deadline, want none until then", err)
	}
	if err := c.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := admin.List(t.Context(), &corev1.NamespaceList{}); err != nil {
		t.Errorf("list after the suspension: %v", err)
	}
}

func TestUsersAreToldApart(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{Audit: true, AuditUsers: []string{"the-manager"}, Manifests: []string{crds}})
	path, err := c.KubeconfigFor("the-manager", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	manager, admin := newClient(t, config), newClient(t, c.Config())
	if err := manager.Create(t.Context(), machine("before")); err != nil {
		t.Fatal(err)
	}
	from, err := c.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m1", "m2"} {
		if err := manager.Create(t.Context(), machine(name)); err != nil {
			t.Fatal(err)
		}
	}
	m := machine("m1")
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	if err := manager.Status().Patch(t.Context(), m, client.Merge); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), machine("m2")); err != nil {
		t.Fatal(err)
	}
	stranger, err := c.ConfigFor("somebody", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if err := newClient(t, stranger).Create(t.Context(), machine("m3")); err != nil {
		t.Fatal(err)
	}
	to, err := c.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strangers, err := c.Audit().Between(from, to, audit.User("somebody")); err != nil || len(strangers) > 0 {
		t.Errorf("the log has requests of a user that is not to be in it: %v (%v)", strangers, err)
	}
	if err := manager.Create(t.Context(), machine("after")); err != nil {
		t.Fatal(err)
	}
	entries, err := c.Audit().Between(from, to, audit.User("the-manager"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[audit.Key]int{
		{User: "the-manager", Verb: "create", Target: "machines.machine.sapcloud.io"}:       2,
		{User: "the-manager", Verb: "patch", Target: "machines.machine.sapcloud.io/status"}: 1,
	}
	if diff := cmp.Diff(want, audit.Count(entries)); diff != "" {
		t.Errorf("requests of the manager between the marks (-want +got):\n%s", diff)
	}
}

func TestPermissionsComeFromRBAC(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{})
	config, err := c.ConfigFor("system:serviceaccount:default:nobody", "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	err = newClient(t, config).List(t.Context(), &corev1.SecretList{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:nobody") {
		t.Errorf("list Secrets as a user without permissions: got %v, want forbidden for that user", err)
	}
}

func TestControllersCollectGarbage(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{Controllers: cluster.Controllers(), Manifests: []string{crds}})
	admin := newClient(t, c.Config())
	owner := machine("owner")
	if err := admin.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "owned", Namespace: "default",
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, machinev1.GroupVersion.WithKind(machinev1.MachineKind)),
		},
	}}
	if err := admin.Create(t.Context(), owned); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(owned), &corev1.Secret{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	if err != nil {
		t.Errorf("the Secret of a deleted Machine is still there: %v", err)
	}
}

func TestSeveralAtOnce(t *testing.T) {
	t.Parallel()
	a, b := cluster.ForTest(t, cluster.Options{}), cluster.ForTest(t, cluster.Options{})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-in-a"}}
	if err := newClient(t, a.Config()).Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := newClient(t, b.Config()).Get(t.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
		t.Errorf("get from b what was made in a: got %v, want not found", err)
	}
}

func TestFailedStartShowsTheLogAndLeavesNothing(t *testing.T) {
	cluster.Require(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := cluster.Start(t.Context(), cluster.Options{APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("start with a bad flag: got %v, want what the API server said", err)
	}
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestStopEndsEverything(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(c.Dir()); !os.IsNotExist(err) {
		t.Errorf("its folder: got %v, want that it does not exist", err)
	}
	if err := newClientErr(c.Config()); err == nil {
		t.Error("a stopped API server answers")
	}
}

func newClientErr(config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	return c.List(context.Background(), &corev1.NamespaceList{})
}
