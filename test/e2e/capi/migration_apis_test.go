package capi

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mover is who moves pools, in the audit log.
const mover = "mover"

// nativeProvider is the Deployment of the native bundle.
func nativeProvider() provider {
	return provider{"machine-controller-manager", "machine-controller-manager", "machine-controller-manager"}
}

// bothAPIs is a management cluster with both APIs. Its nodes join it itself.
type bothAPIs struct {
	*management
	kubeconfig string           // of mover
	api        client.WithWatch // as mover
	command    string           // kubectl-mcm; empty until it is built
}

// newBothAPIs starts Cluster API with our providers' kinds, and adds those of the
// native bundle.
func newBothAPIs(t *testing.T, a assets) *bothAPIs {
	t.Helper()
	d := &bothAPIs{management: newManagement(t, a, newClusterctl(t, a))}
	found, err := filepath.Glob(filepath.Join(a.repository, "native", "*", "native-components.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no native bundle in the release: %v", err)
	}
	if err := d.Cluster.ApplyFile(t.Context(), slices.Max(found)); err != nil {
		t.Fatal(err)
	}
	if d.kubeconfig, err = d.Cluster.KubeconfigFor(mover, "system:masters"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", d.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if d.api, err = client.NewWithWatch(config, client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	return d
}

// impatient are flags with which the orphan collector and the overshoot check would
// act within a move. Leases are longer than usual: the
// API server is away for a while, and this machine has a lot to do.
func impatient() []string {
	return []string{
		"--machine-safety-orphan-vms-period=3s", "--machine-safety-overshooting-period=3s",
		"--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=25s",
	}
}

// startBundles starts one manager for each bundle, with the permissions and flags that
// it ships.
func (d *bothAPIs) startBundles(t *testing.T) {
	t.Helper()
	for _, p := range append(providers(), nativeProvider()) {
		kubeconfig := d.kubeconfigOf(t, p.namespace, p.account)
		args := append(d.argsOf(t, p), "--control-kubeconfig="+kubeconfig, "--leader-elect-resource-namespace="+p.namespace)
		if p == nativeProvider() {
			args = append(args, "--target-kubeconfig="+kubeconfig)
		}
		d.providers = append(d.providers, d.startManager(t, p.deployment, args...))
	}
}

// startBoth starts one manager for both APIs.
func (d *bothAPIs) startBoth(t *testing.T) *process.Process {
	t.Helper()
	kubeconfig, err := d.Cluster.KubeconfigFor(stack.ManagerUser, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return d.startManager(t, "both-apis", "--control-kubeconfig="+kubeconfig, "--target-kubeconfig="+kubeconfig,
		"--namespace=", "--v=2")
}

func (d *bothAPIs) startManager(t *testing.T, name string, args ...string) *process.Process {
	t.Helper()
	port := process.PortForTest(t)
	args = append(args, "--address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--machine-controller-port=0")
	started := process.ForTest(t, d.dir, process.Command{
		Name: name, Program: d.assets.manager(), Args: append(args, impatient()...),
	})
	started.RequireReady(t, "http://"+process.Loopback(port)+"/readyz")
	return started
}

// argsOf are the flags that a bundle's Deployment gives its only container.
func (d *bothAPIs) argsOf(t *testing.T, p provider) []string {
	t.Helper()
	var deployment appsv1.Deployment
	if err := d.cl.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: p.deployment},
		&deployment); err != nil {
		t.Fatal(err)
	}
	args := expanded(deployment.Spec.Template.Spec.Containers[0])
	return append(args, ownDiagnostics(t, args)...)
}

// class makes a MachineClass with its Secret.
func (d *bothAPIs) class(t *testing.T, namespace, name, instanceType string) {
	t.Helper()
	class, secret := d.Class(name, instanceType)
	class.Namespace, secret.Namespace, class.SecretRef.Namespace = namespace, namespace, namespace
	for _, o := range []client.Object{secret, class} {
		if err := d.cl.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// until waits for a step.
func (d *bothAPIs) until(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := eventually(t.Context(), check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// edit changes an object until it is not stale.
func edit[T client.Object](ctx context.Context, cl client.Client, o T, change func(T)) error {
	for {
		if err := cl.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		change(o)
		err := cl.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// buildCommand compiles kubectl-mcm.
func (d *bothAPIs) buildCommand(t *testing.T) {
	t.Helper()
	d.command = filepath.Join(d.dir, "kubectl-mcm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", d.command, "./cmd/kubectl-mcm")
	cmd.Dir = d.assets.root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl-mcm: %v\n%s", err, out)
	}
}

// migrate runs kubectl mcm migrate as mover, and returns what it printed.
func (d *bothAPIs) migrate(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.command, append([]string{"migrate", "--kubeconfig=" + d.kubeconfig, "--namespace=" +
		fleetNamespace, "--timeout=" + wait.String()}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl mcm migrate %v: %w\n%s%s", args, err, out.Bytes(), problems.Bytes())
	}
	return out.String(), nil
}
