package capi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// The managers of Cluster API's kubeadm providers, as test/e2e/capi/build calls them.
const (
	bootstrapManager    = "kubeadm-bootstrap-manager"
	controlPlaneManager = "kubeadm-control-plane-manager"
)

// The versions before and after an upgrade.
const (
	oldKubernetes = "v1.35.4"
	newKubernetes = "v1.36.3"
)

// imagePrefix begins the names of the simulated cloud's images with kubeadm; the version of
// Kubernetes that is installed in them follows.
const imagePrefix = "kubernetes-"

// TestKubeadm goes through the life of Clusters whose control plane and workers are
// made with kubeadm on VMs, with Cluster API's own kubeadm providers. The guests of
// the VMs are doubles that read the boot data.
func TestKubeadm(t *testing.T) {
	turn := queue.add(7)
	t.Parallel()
	turn.await(t)
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl, "--bootstrap", "kubeadm:"+core, "--control-plane", "kubeadm:"+core)
	m.startUpstream(t, bootstrapManager, "capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-manager",
		"MachinePool=false")
	m.startUpstream(t, controlPlaneManager, "capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-manager",
		"MachinePool=false,ClusterTopology=true")
	t.Run("templates", func(t *testing.T) { checkTemplates(t, m, ctl) })
	m.startProviders(t)
	all := m.startGuests(t)
	t.Run("clusters", func(t *testing.T) {
		// At once, but as one test: they wait most of the time, and the number of
		// tests that run in parallel is that of the processors.
		var lives sync.WaitGroup
		for name, of := range map[string]struct {
			live          func(*testing.T, *kubeadmCluster)
			namespace, as string
		}{
			"flavor sim":     {kubeadmLife, "kubeadm", "k1"},
			"default flavor": {kubeadmOtherLife, "kubeadm-other", "k3"},
			"ClusterClass":   {kubeadmClassLife, "kubeadm-class", "k2"},
		} {
			lives.Go(func() {
				t.Run(name, func(t *testing.T) { of.live(t, newKubeadmCluster(t, m, ctl, all, of.namespace, of.as)) })
			})
		}
		lives.Wait()
	})
	for _, failure := range all.Failures() {
		t.Error(failure)
	}
	m.permissions(t, "capi-kubeadm-bootstrap-system:capi-kubeadm-bootstrap-manager",
		"capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager")
}

// startGuests has the VMs of images with kubeadm run.
func (m *management) startGuests(t *testing.T) *guests.Guests {
	t.Helper()
	var images []sim.Image
	for _, version := range []string{oldKubernetes, newKubernetes} {
		images = append(images, sim.Image{ID: imagePrefix + version, RootDiskGiB: 10})
	}
	if err := m.Cloud.Change(t.Context(), map[string]any{"images": images}); err != nil {
		t.Fatal(err)
	}
	return play(t, simulated{m.Cloud, ""})
}

// play has guests of a cloud run until the test ends.
func play(t *testing.T, cloud guests.Cloud) *guests.Guests {
	t.Helper()
	all, err := guests.New(t.Context(), cloud)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- all.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return all
}

// kubeadmCluster is a Cluster with a control plane of three machines and workers.
type kubeadmCluster struct {
	*pool
	guests *guests.Guests
	inside *guests.Cluster
	cloud  estate
	zones  int            // of the control plane
	next   map[string]any // fields of a class with the new version, by path
}

func newKubeadmCluster(t *testing.T, m *management, ctl clusterctl, all *guests.Guests, namespace, name string,
) *kubeadmCluster {
	t.Helper()
	m.namespace(t, namespace)
	port := process.PortForTest(t)
	inside, err := all.Add(namespace+"-"+name, port)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{m, ctl, m.Stack, namespace, name, map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": guests.Host, "CONTROL_PLANE_ENDPOINT_PORT": strconv.Itoa(port),
		"CONTROL_PLANE_ZONE_1": "sim-1a", "CONTROL_PLANE_ZONE_2": "sim-1b", "CONTROL_PLANE_ZONE_3": "sim-1c",
		"SIM_ENDPOINT": m.Cloud.Endpoint, "SIM_ACCOUNT_ID": stack.AccountID, "SIM_SECRET_KEY": stack.SecretKey,
		"SIM_IMAGE": imagePrefix + oldKubernetes,
	}}
	return &kubeadmCluster{
		pool: p, guests: all, inside: inside, cloud: simulated{m.Cloud, name}, zones: 3,
		next: map[string]any{"image": imagePrefix + newKubernetes},
	}
}

// apply applies a flavor with three machines of the control plane and two workers.
func (k *kubeadmCluster) apply(t *testing.T, flavor string, change ...func(rendered)) {
	t.Helper()
	all := k.m.generate(t, k.ctl, flavor, k.namespace, k.name, k.variables, "--kubernetes-version", oldKubernetes,
		"--control-plane-machine-count", "3", "--worker-machine-count", "2")
	for _, c := range change {
		c(all)
	}
	if err := k.m.Cluster.Apply(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// until is that of pool, and ends at once if a guest does not come up.
func (k *kubeadmCluster) until(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	begin := time.Now()
	// A rolling update of three machines with etcd takes two minutes, and several times that
	// beside other tests: every manager, API server and service shares two processors.
	const long = 20 * time.Minute
	err := stack.Until(t.Context(), long, func(ctx context.Context) error {
		if failures := k.guests.Failures(); len(failures) > 0 {
			t.Fatalf("%s: %v\n%s", what, failures, k.tell(context.WithoutCancel(ctx)))
		}
		return check(ctx)
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, k.tell(context.WithoutCancel(t.Context())))
	}
	t.Logf("%s: %.1f s", what, time.Since(begin).Seconds())
}

// controlPlane returns the KubeadmControlPlane of the Cluster.
func (k *kubeadmCluster) controlPlane(ctx context.Context) (*kcpv1.KubeadmControlPlane, error) {
	var list kcpv1.KubeadmControlPlaneList
	if err := k.m.cl.List(ctx, &list, client.InNamespace(k.namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: k.name}); err != nil {
		return nil, err
	}
	return only(list.Items)
}

// ours returns the VMs of the Cluster, by name.
func (k *kubeadmCluster) ours(ctx context.Context) (map[string]guests.VM, error) {
	all, err := k.cloud.VMs(ctx)
	vms := map[string]guests.VM{}
	for _, vm := range all {
		vms[vm.Name] = vm
	}
	return vms, err
}

// settled reports whether there are that many machines, all of a version, healthy
// and up to date, with as many VMs and Nodes, and nothing besides.
func (k *kubeadmCluster) settled(version string, controlPlane, workers int) func(context.Context) error {
	return func(ctx context.Context) error {
		machines, err := k.machines(ctx)
		if err != nil {
			return err
		}
		vms, err := k.ours(ctx)
		if err != nil {
			return err
		}
		nodes, err := k.inside.Nodes(ctx)
		if err != nil {
			return err
		}
		if all := controlPlane + workers; len(machines) != all || len(vms) != all || len(nodes) != all {
			return fmt.Errorf("%d Machines, %d VMs, %d Nodes; want %d", len(machines), len(vms), len(nodes), all)
		}
		for i := range machines {
			m := &machines[i]
			err := errors.Join(condition(m.Status.Conditions, clusterv1.MachineAvailableCondition),
				condition(m.Status.Conditions, clusterv1.MachineUpToDateCondition))
			if err != nil || m.Spec.Version != version {
				return fmt.Errorf("machine %s of %s: %w", m.Name, m.Spec.Version, errors.Join(err))
			}
		}
		if err := k.scaled(ctx, controlPlane, workers); err != nil {
			return err
		}
		if err := k.cloud.Settled(ctx, controlPlaneOf(machines, vms)); err != nil {
			return err
		}
		return k.available(ctx)
	}
}

// controlPlaneOf returns the ids of the VMs of the control plane.
func controlPlaneOf(machines []clusterv1.Machine, vms map[string]guests.VM) []string {
	var ids []string
	for i := range machines {
		if _, member := machines[i].Labels[clusterv1.MachineControlPlaneLabel]; member {
			ids = append(ids, vms[machines[i].Name].ID)
		}
	}
	return ids
}

// scaled reports whether the owners of the machines are content.
func (k *kubeadmCluster) scaled(ctx context.Context, controlPlane, workers int) error {
	kcp, err := k.controlPlane(ctx)
	if err != nil {
		return err
	}
	md, err := k.deployment(ctx)
	if err != nil {
		return err
	}
	for what, of := range map[string]struct {
		got  *int32
		want int
	}{
		"machines of the control plane": {kcp.Status.UpToDateReplicas, controlPlane},
		"workers":                       {md.Status.UpToDateReplicas, workers},
	} {
		if of.got == nil || int(*of.got) != of.want {
			return fmt.Errorf("%d %s are up to date, want %d", ptrOr(of.got), what, of.want)
		}
	}
	if kcp.Status.ObservedGeneration != kcp.Generation || md.Status.ObservedGeneration != md.Generation {
		return errors.New("the last change has not been looked at")
	}
	return errors.Join(condition(kcp.Status.Conditions, kcpv1.KubeadmControlPlaneAvailableCondition),
		condition(kcp.Status.Conditions, kcpv1.KubeadmControlPlaneEtcdClusterHealthyCondition),
		condition(kcp.Status.Conditions, kcpv1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition),
		condition(md.Status.Conditions, clusterv1.MachineDeploymentAvailableCondition))
}

func ptrOr(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// spread: the machines of the control plane are one in each zone, where Machine, VM
// and Node agree.
func (k *kubeadmCluster) spread(t *testing.T) {
	t.Helper()
	machines, err := k.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vms, err := k.ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := k.inside.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, node := range nodes {
		ids[node.Name] = node.Spec.ProviderID
	}
	zones := map[string]int{}
	for i := range machines {
		m := &machines[i]
		vm := vms[m.Name]
		if id := vm.ProviderID; m.Spec.ProviderID != id || ids[m.Status.NodeRef.Name] != id {
			t.Errorf("VM %s: Machine %s has providerID %q, its Node %q", id, m.Name, m.Spec.ProviderID,
				ids[m.Status.NodeRef.Name])
		}
		if _, member := m.Labels[clusterv1.MachineControlPlaneLabel]; !member {
			continue
		}
		zone := vm.Metadata.Zone
		zones[zone]++
		if m.Spec.FailureDomain != zone {
			t.Errorf("Machine %s chose failure domain %q, its VM is in %s", m.Name, m.Spec.FailureDomain, zone)
		}
	}
	if len(zones) != k.zones {
		t.Errorf("the control plane is in zones %v, want %d", zones, k.zones)
	}
}

// gone deletes the Cluster; nothing of it is left in the cloud then.
func (k *kubeadmCluster) gone(t *testing.T) {
	t.Helper()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}}
	if err := k.m.cl.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.until(t, "the Cluster is gone", func(ctx context.Context) error {
		if err := k.m.cl.Get(ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Cluster is there, or not to be read: %v", err) //nolint:errorlint // may be nil
		}
		return nil
	})
	left, err := k.cloud.Left(t.Context())
	if err != nil || len(left) > 0 {
		t.Errorf("left in the cloud: %v, %v", left, err)
	}
}
