package capi

import (
	"context"
	"strings"
	"testing"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/autoscaler"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// provisionTimeAnnotation of a group wins over the autoscaler's flag.
const provisionTimeAnnotation = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime"

// scaled is a Cluster of flavor autoscale, as the autoscaler sees it.
type scaled struct {
	*pool
	autoscaler.Play
	kubeconfig string // of the autoscaler, for the management cluster
}

// TestAutoscaler plays the upstream autoscaler on Cluster API, and runs
// it where the environment names one.
func TestAutoscaler(t *testing.T) {
	turn := queue.add(2)
	t.Parallel()
	turn.await(t)
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl)
	m.startProviders(t, "--resource-exhausted-retry=5s") // tests have no ten minutes
	nodes := controlPlane(t, a, t.TempDir(), "replicaset-controller", "node-lifecycle-controller")
	kubeconfig, err := autoscaler.Allow(t.Context(), m.Cluster, m.cl, clusterv1.GroupVersion.Group)
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(t, m, ctl, nodes, "scaled", "c4")
	p.externalKubeconfig(t)
	p.apply(t, "sim-autoscale", 0)
	p.until(t, "the Cluster is available without workers", p.available)
	s := &scaled{pool: p, kubeconfig: kubeconfig}
	s.Group = s.see(t, p.name+"-md-0")
	s.Cloud, s.Lacking, s.RollOut = nodes.Cloud, autoscaler.Creating, s.rollOut
	s.FallBack = s.fallBack

	t.Run("surface", func(t *testing.T) {
		s.T = t
		s.Surface()
	})
	t.Run("binary", func(t *testing.T) {
		s.T = t
		b, pods := s.binary(t)
		s.Run(b, pods)
	})
	t.Run("binary without capacity", func(t *testing.T) {
		s.T = t
		b, pods := s.binary(t)
		s.spare(t)
		t.Logf("the pod had its node after %s", s.RunExhausted(b, pods, s.see(t, "spare")))
	})
	s.T = t
	m.permissions(t)
}

// see returns a group as the autoscaler sees it.
func (s *scaled) see(t *testing.T, name string) autoscaler.Group {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	g, err := autoscaler.NewGroup(config, s.nodes.Cluster.Config(), clusterv1.GroupVersion.Group, s.namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (s *scaled) binary(t *testing.T) (autoscaler.Binary, *autoscaler.Scheduler) {
	t.Helper()
	path := autoscaler.Program(t, "capi")
	clients, err := kubernetes.NewForConfig(s.nodes.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return autoscaler.Binary{
		Path: path, Management: s.kubeconfig, Workload: s.nodes.Cluster.Kubeconfig(),
		Discover: "namespace=" + s.namespace + ",clusterName=" + s.name,
	}, &autoscaler.Scheduler{Clients: clients, Namespace: metav1.NamespaceDefault, CPU: "1100m"}
}

// rollOut names a copy of the template in the MachineDeployment.
func (s *scaled) rollOut(ctx context.Context) error {
	md, err := s.deployment(ctx)
	if err != nil {
		return err
	}
	before := md.DeepCopy()
	md.Spec.Template.Spec.InfrastructureRef.Name += "-v2"
	if err := s.copyTemplate(ctx, before.Spec.Template.Spec.InfrastructureRef.Name,
		md.Spec.Template.Spec.InfrastructureRef.Name, ""); err != nil {
		return err
	}
	return s.m.cl.Patch(ctx, md, client.MergeFrom(before))
}

// copyTemplate makes a template like another one, of another class if one is named.
func (s *scaled) copyTemplate(ctx context.Context, from, to, class string) error {
	var old infrav1.MCMMachineTemplate
	if err := s.m.cl.Get(ctx, s.key(from), &old); err != nil {
		return err
	}
	next := &infrav1.MCMMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: to},
		Spec:       *old.Spec.DeepCopy(),
	}
	if class != "" {
		next.Spec.Template.Spec.MachineClassRef.Name = class
	}
	return s.m.cl.Create(ctx, next)
}

// largeClass makes a class of larger VMs.
func (s *scaled) largeClass(ctx context.Context, name string) error {
	var class machinev1.MachineClass
	if err := s.m.cl.Get(ctx, s.key(s.name+"-md-0"), &class); err != nil {
		return err
	}
	large, _ := s.nodes.Class(name, "large")
	large.ObjectMeta, large.SecretRef = metav1.ObjectMeta{Namespace: s.namespace, Name: name}, class.SecretRef
	large.NodeTemplate.Capacity["cpu"], large.NodeTemplate.Capacity["memory"] = resource.MustParse(
		"8"), resource.MustParse("32Gi")
	large.NodeTemplate.Architecture = new("amd64")
	return s.m.cl.Create(ctx, large)
}

// fallBack names a template with a fallback class of larger VMs in the MachineDeployment, or
// the one before again.
func (s *scaled) fallBack(ctx context.Context, on bool) error {
	const class, suffix = "fallback", "-v3"
	md, err := s.deployment(ctx)
	if err != nil {
		return err
	}
	before, name := md.DeepCopy(), md.Spec.Template.Spec.InfrastructureRef.Name
	md.Spec.Template.Spec.InfrastructureRef.Name = strings.TrimSuffix(name, suffix)
	if on {
		if err := s.largeClass(ctx, class); err != nil {
			return err
		}
		var old infrav1.MCMMachineTemplate
		if err := s.m.cl.Get(ctx, s.key(name), &old); err != nil {
			return err
		}
		next := &infrav1.MCMMachineTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + suffix}, Spec: *old.Spec.DeepCopy(),
		}
		next.Spec.Template.Spec.FallbackClassRefs = []infrav1.MachineClassReference{{Name: class}}
		if err := s.m.cl.Create(ctx, next); err != nil {
			return err
		}
		md.Spec.Template.Spec.InfrastructureRef.Name = next.Name
	}
	return s.m.cl.Patch(ctx, md, client.MergeFrom(before))
}

// spare makes a second group, of larger VMs, so that the autoscaler prefers the
// first; and tells it not to wait long for a node of the first: on this API it
// does not see why there is none.
func (s *scaled) spare(t *testing.T) {
	t.Helper()
	const name = "spare"
	md, err := s.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.largeClass(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := s.copyTemplate(t.Context(), md.Spec.Template.Spec.InfrastructureRef.Name, name, name); err != nil {
		t.Fatal(err)
	}
	other := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: map[string]string{
			clusterv1.AutoscalerMinSizeAnnotation: "0", clusterv1.AutoscalerMaxSizeAnnotation: "5",
		}},
		Spec: clusterv1.MachineDeploymentSpec{ClusterName: s.name, Template: *md.Spec.Template.DeepCopy()},
	}
	other.Spec.Template.Labels = nil // core puts the deployment's own there
	other.Spec.Template.Spec.InfrastructureRef.Name = name
	s.change(t, func(md *clusterv1.MachineDeployment) { md.Annotations[provisionTimeAnnotation] = "20s" })
	if err := s.m.cl.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
}
