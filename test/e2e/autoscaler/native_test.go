package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/autoscaler"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	patience = 3 * time.Minute
	pool     = "pool"
)

// world is a stack with one node group of the native door, at zero.
type world struct {
	*stack.Stack
	*testing.T
	group autoscaler.Group
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster.Require(t)
	binaries, err := stack.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(t.Context(), stack.Options{
		Binaries: binaries, Controllers: cluster.Controllers(), Cloud: []string{"--latency=20ms", "--boot-time=500ms", "--delete-time=200ms"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Logs())
		}
		if err := s.Stop(); err != nil {
			t.Log(err)
		}
	})
	if _, err := s.StartManager("--resource-exhausted-retry=5s"); err != nil {
		t.Fatal(err)
	}
	api, err := dynamic.NewForConfig(s.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Stack: s, T: t, group: autoscaler.Group{Management: api, Workload: api, API: machinev1.GroupVersion, Namespace: stack.Namespace, Name: pool}}
	d := stack.Deployment(pool, "a", 0, "1", "0")
	d.Annotations = map[string]string{
		machinev1.NodeGroupMinSizeAnnotation: "0", machinev1.NodeGroupMaxSizeAnnotation: "5",
		machinev1.ProviderIDFormAnnotation: machinev1.ProviderIDFormNode,
	}
	if err := errors.Join(s.CreateClass(t.Context(), "a", "small"), s.Client.Create(t.Context(), d)); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) until(what string, check func(context.Context) error) {
	w.Helper()
	if err := stack.Until(w.Context(), patience, check); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// states waits until the instances of the group have exactly these states.
func (w *world) states(want ...string) []autoscaler.Instance {
	w.Helper()
	var all []autoscaler.Instance
	w.until(fmt.Sprint("instances ", want), func(ctx context.Context) error {
		var err error
		if all, err = w.group.Instances(ctx); err != nil {
			return err
		}
		var states []string
		for _, i := range all {
			states = append(states, i.State)
		}
		if slices.Sort(states); !slices.Equal(states, want) {
			return fmt.Errorf("instances %v", all)
		}
		return nil
	})
	return all
}

// TestSurface makes the reads and writes of the upstream autoscaler, and no
// others: from zero, up, down by a machine that it chooses, out of capacity, and
// to zero.
func TestSurface(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.until("a group at zero says what a node will be like", func(ctx context.Context) error {
		size, err := w.group.TargetSize(ctx)
		if err == nil && size != 0 {
			err = fmt.Errorf("target size %d", size)
		}
		node, err2 := w.group.Template(ctx)
		if err2 == nil && (node["cpu"] != "2" || node["memory"] != "4Gi") {
			err2 = fmt.Errorf("template %v", node)
		}
		return errors.Join(err, err2)
	})
	w.resize(3)
	running := w.states(autoscaler.Running, autoscaler.Running, autoscaler.Running)
	w.registered()

	chosen := running[1].Machine
	w.deleteNode(chosen)
	left := w.states(autoscaler.Running, autoscaler.Running)
	if slices.ContainsFunc(left, func(i autoscaler.Instance) bool { return i.Machine == chosen }) {
		t.Errorf("%v are left: the machine that the autoscaler chose, %s, had to go", left, chosen)
	}

	if err := w.Cloud.SetCapacity(t.Context(), "small", 2); err != nil {
		t.Fatal(err)
	}
	w.resize(3)
	all := w.states(autoscaler.Failed, autoscaler.Running, autoscaler.Running)
	failed := all[slices.IndexFunc(all, func(i autoscaler.Instance) bool { return i.State == autoscaler.Failed })]
	w.deleteNode(failed.Machine)
	w.states(autoscaler.Running, autoscaler.Running)
	w.registered()

	w.resize(0)
	w.states()
	w.until("the cloud is empty", func(ctx context.Context) error {
		vms, err := w.Cloud.VMs(ctx)
		if err == nil && len(vms) > 0 {
			err = fmt.Errorf("%d VMs are left", len(vms))
		}
		return err
	})
}

// deleteNode asks until the machine was not changed meanwhile, as the autoscaler
// does in its next loops.
func (w *world) deleteNode(machine string) {
	w.Helper()
	w.until("delete "+machine, func(ctx context.Context) error { return w.group.DeleteNode(ctx, machine) })
}

func (w *world) resize(n int) {
	w.Helper()
	if err := w.group.SetSize(w.Context(), n); err != nil {
		w.Fatal(err)
	}
}

// registered: every running instance has a Node of exactly its id.
func (w *world) registered() {
	w.Helper()
	w.until("all instances are registered", func(ctx context.Context) error {
		missing, err := w.group.Unregistered(ctx)
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("the autoscaler would remove %v", missing)
		}
		return err
	})
}

// TestBinary runs a cluster-autoscaler: pods that fit nowhere lead to nodes, idle
// nodes go, from zero and to zero, and no healthy machine is deleted for longer
// than max-node-provision-time.
func TestBinary(t *testing.T) {
	t.Parallel()
	binary := os.Getenv("AUTOSCALER")
	if binary == "" {
		t.Skip("no cluster-autoscaler is given: make autoscaler AUTOSCALER=path DOOR=native")
	}
	w := newWorld(t)
	w.runBinary(binary)
	clients, err := kubernetes.NewForConfig(w.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	pods := &autoscaler.Scheduler{Clients: clients, Namespace: stack.Namespace, CPU: "1100m"}
	w.load(pods, 2)
	w.registered()
	w.soak(pods, 90*time.Second)
	w.load(pods, 1)
	w.states(autoscaler.Running)
	w.load(pods, 0)
	w.states()
}

// runBinary starts the autoscaler; it ends with the test.
func (w *world) runBinary(binary string) {
	w.Helper()
	log, err := os.Create(filepath.Join(w.TempDir(), "autoscaler.log"))
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.CommandContext(w.Context(), binary,
		"--cloud-provider=clusterapi", "--kubeconfig="+w.Cluster.Kubeconfig(), "--cloud-config="+w.Cluster.Kubeconfig(),
		"--node-group-auto-discovery=clusterapi:namespace="+stack.Namespace, "--leader-elect=false", "--scan-interval=2s",
		"--scale-down-delay-after-add=5s", "--scale-down-unneeded-time=5s", "--scale-down-delay-after-delete=1s",
		"--max-node-provision-time=1m", "--address=127.0.0.1:0", "--v=2")
	cmd.Env = append(os.Environ(), "CAPI_GROUP="+machinev1.GroupVersion.Group)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && w.Failed() {
			w.Logf("autoscaler:\n%s", text[max(0, len(text)-20000):])
		}
	})
}

// load wants n pods and waits until each has a node.
func (w *world) load(pods *autoscaler.Scheduler, n int) {
	w.Helper()
	if err := pods.Want(w.Context(), n); err != nil {
		w.Fatal(err)
	}
	w.until(fmt.Sprintf("%d pods have nodes", n), func(ctx context.Context) error {
		bound, err := pods.Step(ctx)
		if err == nil && bound != n {
			err = fmt.Errorf("%d of %d pods are bound", bound, n)
		}
		return err
	})
}

// soak watches for a while that the same machines stay.
func (w *world) soak(pods *autoscaler.Scheduler, while time.Duration) {
	w.Helper()
	before := w.names()
	ctx, cancel := context.WithTimeout(w.Context(), while)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = pods.Step(w.Context())
			if now := w.names(); !slices.Equal(now, before) {
				w.Fatalf("machines %v became %v although nothing was asked", before, now)
			}
		}
	}
}

func (w *world) names() []string {
	w.Helper()
	var list machinev1.MachineList
	if err := w.Client.List(w.Context(), &list, client.InNamespace(stack.Namespace)); err != nil {
		w.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}
