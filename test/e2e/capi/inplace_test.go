package capi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hooks is the Deployment of the bundle with the runtime extension.
var hooks = provider{
	"capmcm-runtime-extension-system", "capmcm-runtime-extension-manager",
	"capmcm-runtime-extension-controller-manager",
}

// TestInPlaceUpdates changes Machines without replacing them, with Cluster API's
// feature gates for that and our runtime extension; and replaces them where that
// is not possible.
func TestInPlaceUpdates(t *testing.T) {
	turn := queue.add(2)
	t.Parallel()
	turn.await(t)
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newGatedManagement(t, a, ctl)
	m.startProviders(t)
	m.startHooks(t, ctl)
	p := newPool(t, m, ctl, m.Stack, "inplace", "c1")
	p.apply(t, "sim-self-hosted", 0)
	p.until(t, "the Cluster is available without workers", p.available)
	p.change(t, func(md *clusterv1.MachineDeployment) {
		md.Spec.Replicas = ptr.To[int32](2)
		// Without surge no VM is made for an update.
		md.Spec.Rollout.Strategy.RollingUpdate = clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
			MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1)),
		}
	})
	p.until(t, "two workers", p.settled(2))
	p.labelInPlace(t)
	p.replaceForClass(t)
	p.updateByAgent(t)
	p.failingAgent(t)
	p.otherSecret(t)
	p.remove(t)
	m.permissions(t)
	permissions(t, m.Cluster, hooks.namespace+":"+hooks.account)
}

// newGatedManagement is newManagement with the gates that updates in place need.
func newGatedManagement(t *testing.T, a assets, ctl clusterctl) *management {
	t.Helper()
	m := &management{Stack: controlPlane(t, a, filepath.Join(a.capi, "cert-manager")), assets: a, dir: t.TempDir()}
	s := scheme(t)
	if err := runtimev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.cl, err = client.New(m.Cluster.Config(), client.Options{Scheme: s}); err != nil {
		t.Fatal(err)
	}
	ctl.must(t, nil, "init", "--kubeconfig", m.Cluster.Kubeconfig(),
		"--core", "cluster-api:"+core, "--infrastructure", "capmcm", "--bootstrap", "capmcm", "--control-plane", "capmcm")
	m.startCore(t, "MachinePool=false,RuntimeSDK=true,InPlaceUpdates=true")
	return m
}

// startHooks installs the bundle, and runs its Deployment as a process.
func (m *management) startHooks(t *testing.T, ctl clusterctl) {
	t.Helper()
	m.until(t, "clusterctl's first init has cleaned up", m.certManagerTested)
	ctl.must(t, nil, "init", "--kubeconfig", m.Cluster.Kubeconfig(), "--runtime-extension", "capmcm")
	certs := filepath.Join(m.dir, "hooks")
	ca, err := serving(certs)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(certs, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	// What cert-manager would make of the bundle's Certificate.
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hooks.namespace, Name: "capmcm-runtime-extension-serving-cert"},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{"ca.crt": ca, "tls.crt": ca, "tls.key": key},
	}
	if err := m.cl.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	port, health := process.PortForTest(t), process.PortForTest(t)
	args := append(m.flagsOf(t, hooks), "--control-kubeconfig="+m.kubeconfigOf(t, hooks.namespace, hooks.account),
		"--leader-elect-resource-namespace="+hooks.namespace, "--address=127.0.0.1",
		fmt.Sprintf("--port=%d", health), fmt.Sprintf("--runtime-extension-port=%d",
			port), "--runtime-extension-cert-dir="+certs)
	process.ForTest(t, m.dir, process.Command{Name: hooks.deployment, Program: m.assets.manager(), Args: args}).
		RequireReady(t, "http://"+process.Loopback(health)+"/readyz")
	registered := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "capmcm-in-place-updates"}}
	patch := client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"clientConfig":{"service":null,"url":"https://%s"}}}`, process.Loopback(port)))
	if err := m.cl.Patch(t.Context(), registered, patch); err != nil {
		t.Fatal(err)
	}
	m.until(t, "core has found the hooks", func(ctx context.Context) error {
		if err := m.cl.Get(ctx, client.ObjectKeyFromObject(registered), registered); err != nil {
			return err
		}
		if len(registered.Status.Handlers) != 3 {
			return fmt.Errorf("%d handlers, %+v", len(registered.Status.Handlers), registered.Status.Conditions)
		}
		return condition(registered.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition)
	})
}

// certManagerTested reports whether the namespace is gone in which clusterctl init tests
// cert-manager. An init that finds it terminating takes it for its own, and then waits ten
// minutes to create an Issuer in it.
func (m *management) certManagerTested(ctx context.Context) error {
	tests := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cert-manager-test"}}
	err := m.cl.Get(ctx, client.ObjectKeyFromObject(tests), tests)
	if err == nil {
		return fmt.Errorf("namespace %s is %s", tests.Name, tests.Status.Phase)
	}
	return client.IgnoreNotFound(err)
}

func (m *management) until(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	(&pool{m: m, ctl: clusterctl{program: "true"}}).until(t, what, check)
}

// who are the Machines, and all VMs that there ever were, by name and id.
type who struct {
	machines []string
	vms      map[string]bool
}

func (p *pool) who(t *testing.T) who {
	t.Helper()
	machines, err := p.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vms, err := p.lives(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := who{vms: vms}
	for i := range machines {
		w.machines = append(w.machines, machines[i].Name)
	}
	slices.Sort(w.machines)
	return w
}

// same: no Machine and no VM was made, and none went.
func (p *pool) same(t *testing.T, before who) {
	t.Helper()
	if diff := cmp.Diff(before, p.who(t), cmp.AllowUnexported(who{})); diff != "" {
		t.Errorf("Machines and VMs, before and after an update in place:\n%s", diff)
	}
}

// template makes another MCMMachineTemplate from the one that is used, and uses it.
func (p *pool) template(t *testing.T, name string, how func(*infrav1.MCMMachineSpec),
	also ...func(*clusterv1.MachineDeployment),
) {
	t.Helper()
	md, err := p.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var old infrav1.MCMMachineTemplate
	if err := p.m.cl.Get(t.Context(), p.key(md.Spec.Template.Spec.InfrastructureRef.Name), &old); err != nil {
		t.Fatal(err)
	}
	next := &infrav1.MCMMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
		Spec:       *old.Spec.DeepCopy(),
	}
	how(&next.Spec.Template.Spec)
	if err := p.m.cl.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	p.change(t, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.InfrastructureRef.Name = name
		for _, change := range also {
			change(md)
		}
	})
}

// class makes another MachineClass from the Cluster's, with another image.
func (p *pool) class(t *testing.T, name, image string) func(*infrav1.MCMMachineSpec) {
	t.Helper()
	var of machinev1.MachineClass
	if err := p.m.cl.Get(t.Context(), p.key(p.name+"-md-0"), &of); err != nil {
		t.Fatal(err)
	}
	next := of.DeepCopy()
	next.ObjectMeta = metav1.ObjectMeta{Namespace: p.namespace, Name: name}
	next.ProviderSpec = runtime.RawExtension{Raw: []byte(strings.ReplaceAll(string(of.ProviderSpec.Raw), "linux-1",
		image))}
	if err := p.m.cl.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	return func(s *infrav1.MCMMachineSpec) { s.MachineClassRef.Name = name }
}

// labelInPlace: another label and taint are on the Nodes that there are.
func (p *pool) labelInPlace(t *testing.T) {
	t.Helper()
	before := p.who(t)
	p.template(t, "labelled", func(s *infrav1.MCMMachineSpec) {
		s.NodeTemplate = infrav1.NodeTemplate{
			Labels: map[string]string{"example.com/revision": "v2"},
			Taints: []infrav1.Taint{{Key: "example.com/reserved", Effect: "NoSchedule"}},
		}
	})
	p.until(t, "label and taint on all Nodes, and all up to date", func(ctx context.Context) error {
		nodes, _, err := p.nodes.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/reserved" })
			if n.Labels["example.com/revision"] != "v2" || !tainted {
				return fmt.Errorf("node %s has labels %v, taints %v", n.Name, n.Labels, n.Spec.Taints)
			}
		}
		return p.settled(2)(ctx)
	})
	p.same(t, before)
}

// replaceForClass: a change that cannot be made in place replaces the Machines.
func (p *pool) replaceForClass(t *testing.T) {
	t.Helper()
	before := p.who(t)
	p.template(t, "image-2", p.class(t, "image-2", "linux-2"))
	p.until(t, "two workers of the other class instead", func(ctx context.Context) error {
		machines, err := p.machines(ctx)
		if err != nil {
			return err
		}
		for i := range machines {
			if slices.Contains(before.machines, machines[i].Name) {
				return fmt.Errorf("Machine %s is still there", machines[i].Name)
			}
		}
		return p.settled(2)(ctx)
	})
	if log := p.m.core.Output(); !strings.Contains(log, "cannot be updated in-place by extensions") {
		t.Error("core did not ask whether it could be done in place")
	}
}

// otherSecret: core does not compare the name of a Secret with boot data; the
// answer makes it see the difference all the same, and say so.
func (p *pool) otherSecret(t *testing.T) {
	t.Helper()
	of, err := p.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"boot-1", "boot-2"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.namespace, Name: name,
				Labels: map[string]string{clusterv1.ClusterNameLabel: p.name},
			},
			Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte("#cloud-config")},
		}
		if err := p.m.cl.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	md := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "given"},
		Spec:       *of.Spec.DeepCopy(),
	}
	md.Spec.Replicas, md.Spec.Selector, md.Spec.Template.Labels = ptr.To[int32](1), metav1.LabelSelector{}, nil
	md.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("boot-1")}
	if err := p.m.cl.Create(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	p.until(t, "a Machine that boots from a Secret", func(ctx context.Context) error {
		machines, err := p.machines(ctx)
		if err == nil && len(machines) != 3 {
			err = fmt.Errorf("%d Machines", len(machines))
		}
		return err
	})
	before := md.DeepCopy()
	md.Spec.Template.Spec.Bootstrap.DataSecretName = new("boot-2")
	if err := p.m.cl.Patch(t.Context(), md, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.until(t, "core sees that the Secret is another", func(context.Context) error {
		if !strings.Contains(p.m.core.Output(), "not to be updated in place: spec.bootstrap.dataSecretName changes from") {
			return errors.New("its log does not say so")
		}
		return nil
	})
}
