package autoscaler_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/autoscaler"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	pool  = "pool"
	spare = "spare"
)

// env is a stack with two node groups of the native API, at zero.
type env struct {
	*stack.Stack
	autoscaler.Play
	kubeconfig string // of the autoscaler
}

func newEnv(t *testing.T, controllers ...string) *env {
	t.Helper()
	cluster.Require(t)
	binaries, err := stack.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(t.Context(), stack.Options{
		Binaries: binaries, Controllers: cluster.Controllers(controllers...),
		Cloud: []string{"--latency=20ms", "--boot-time=500ms", "--delete-time=200ms"},
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
	w := &env{Stack: s, Play: autoscaler.Play{T: t, Cloud: s.Cloud, Lacking: autoscaler.Failed}}
	if w.kubeconfig, err = autoscaler.Allow(t.Context(), s.Cluster, s.Client, machinev1.GroupVersion.Group); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.group(pool, "small"), w.group(spare, "large"),
		s.CreateClass(t.Context(), "pool-v2", "small")); err != nil {
		t.Fatal(err)
	}
	w.Group = w.see(pool)
	w.RollOut = func(ctx context.Context) error {
		d := stack.Deployment(pool, "", 0, "1", "0")
		return s.Edit(ctx, d, func() { d.Spec.Template.Spec.Class.Name = "pool-v2" })
	}
	w.FallBack = func(ctx context.Context, on bool) error {
		d := stack.Deployment(pool, "", 0, "1", "0")
		return s.Edit(ctx, d, func() {
			delete(d.Annotations, machinev1.FallbackClassesAnnotation)
			if on {
				d.Annotations[machinev1.FallbackClassesAnnotation] = spare
			}
		})
	}
	return w
}

// group makes a MachineDeployment of no machines that the autoscaler may scale,
// and its class.
func (w *env) group(name, instanceType string) error {
	d := stack.Deployment(name, name, 0, "1", "0")
	d.Annotations = map[string]string{
		machinev1.NodeGroupMinSizeAnnotation: "0", machinev1.NodeGroupMaxSizeAnnotation: "5",
		machinev1.ProviderIDFormAnnotation: machinev1.ProviderIDFormNode,
	}
	c, secret := w.Class(name, instanceType)
	if instanceType == "large" { // so that the autoscaler prefers the other one
		c.NodeTemplate.Capacity["cpu"], c.NodeTemplate.Capacity["memory"] = resource.MustParse(
			"8"), resource.MustParse("32Gi")
	}
	return errors.Join(w.Client.Create(w.Context(), secret), w.Client.Create(w.Context(), c),
		w.Client.Create(w.Context(), d))
}

// see returns a group as the autoscaler sees it.
func (w *env) see(name string) autoscaler.Group {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	g, err := autoscaler.NewGroup(config, w.Cluster.Config(), machinev1.GroupVersion.Group, stack.Namespace, name)
	if err != nil {
		w.Fatal(err)
	}
	return g
}

// TestSurface makes the reads and writes of the upstream autoscaler on the native API.
func TestSurface(t *testing.T) {
	t.Parallel()
	newEnv(t).Surface()
}

// TestBinary runs a cluster-autoscaler on the native API.
func TestBinary(t *testing.T) {
	t.Parallel()
	w, b, pods := newBinary(t)
	w.Run(b, pods)
}

// TestBinaryWithoutCapacity: it is told at once that there is no capacity.
func TestBinaryWithoutCapacity(t *testing.T) {
	t.Parallel()
	w, b, pods := newBinary(t)
	t.Logf("the pod had its node after %s", w.RunExhausted(b, pods, w.see(spare)))
}

func newBinary(t *testing.T) (*env, autoscaler.Binary, *autoscaler.Scheduler) {
	t.Helper()
	path := autoscaler.Program(t, "native")
	w := newEnv(t, "replicaset-controller", "node-lifecycle-controller")
	clients, err := kubernetes.NewForConfig(w.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return w, autoscaler.Binary{
		Path: path, Management: w.kubeconfig, Workload: w.Cluster.Kubeconfig(), Discover: "namespace=" + stack.Namespace,
	}, &autoscaler.Scheduler{Clients: clients, Namespace: stack.Namespace, CPU: "1100m"}
}
