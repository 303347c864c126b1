package capi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

// apiPort is where the API servers of the flavors' control planes listen.
const apiPort = 6443

// kubeadmCloud is one of the real clouds, played or run by the test.
type kubeadmCloud interface {
	estate
	// Members returns the ids of the VMs that the endpoint of the API server leads to.
	Members(ctx context.Context) ([]string, error)
	// Variables are those of the cloud's flavor, but the endpoint.
	Variables() map[string]string
}

// life is what a Cluster of a flavor goes through.
type life struct {
	flavor string
	live   func(*testing.T, *management, clusterctl)
}

// TestKubeadmClouds goes through the life of Clusters of the flavors aws, azure, gcp, hetzner,
// kubevirt, openstack and vsphere, with Cluster API's own kubeadm providers. Their guests are doubles that read the
// boot data as their cloud hands it out, and reach the API server through its load balancer,
// or where kube-vip is to hold its address.
func TestKubeadmClouds(t *testing.T) {
	turn := queue.add(11)
	t.Parallel()
	turn.await(t)
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl, "--bootstrap", "kubeadm:"+core, "--control-plane", "kubeadm:"+core)
	aws, azure, gcp, hetzner := newAmazon(t), newAzure(t), newGCP(t), newHetzner(t)
	m.env = slices.Concat(aws.env(), azure.env, gcp.env, hetzner.env)
	m.startUpstream(t, bootstrapManager, "capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-manager",
		"MachinePool=false")
	m.startUpstream(t, controlPlaneManager, "capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-manager",
		"MachinePool=false,ClusterTopology=true")
	m.startProviders(t)
	var lives sync.WaitGroup
	running := make(chan struct{}, 4) // seven control planes of three at once starve on two processors
	short := func(flavor string, cloud func(*testing.T) kubeadmCloud) life {
		return life{flavor, func(t *testing.T, m *management, ctl clusterctl) {
			t.Helper()
			newCloudCluster(t, m, ctl, flavor, cloud(t), nil).shortLife(t, flavor)
		}}
	}
	for _, l := range []life{ // those that take longest begin first
		{"aws", func(t *testing.T, m *management, ctl clusterctl) {
			t.Helper()
			k := newCloudCluster(t, m, ctl, "aws", aws, nil)
			k.next = map[string]any{"ami": amiNew}
			k.longLife(t, "aws")
		}},
		{"openstack", openStackLife},
		{"vsphere", vSphereLife},
		short("kubevirt", func(t *testing.T) kubeadmCloud { return newKubeVirt(t, m) }),
		short("azure", func(*testing.T) kubeadmCloud { return azure }),
		short("gcp", func(*testing.T) kubeadmCloud { return gcp }),
		short("hetzner", func(*testing.T) kubeadmCloud { return hetzner }),
	} {
		running <- struct{}{}
		lives.Go(func() {
			defer func() { <-running }()
			t.Run(l.flavor, func(t *testing.T) { l.live(t, m, ctl) })
		})
	}
	lives.Wait()
	m.permissions(t, "capi-kubeadm-bootstrap-system:capi-kubeadm-bootstrap-manager",
		"capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager")
}

// newCloudCluster is a Cluster of the flavor of a cloud, in a namespace of its own.
func newCloudCluster(t *testing.T, m *management, ctl clusterctl, name string, cloud kubeadmCloud,
	know func(*guests.Guests),
) *kubeadmCluster {
	t.Helper()
	namespace := "kubeadm-" + name
	m.namespace(t, namespace)
	all := play(t, cloud)
	if know != nil {
		know(all)
	}
	port := process.PortForTest(t)
	inside, err := all.AddBehind(namespace, port, cloud.Members)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": guests.Host, "CONTROL_PLANE_ENDPOINT_PORT": strconv.Itoa(port),
	}
	maps.Copy(variables, cloud.Variables())
	return &kubeadmCluster{
		pool: &pool{m, ctl, m.Stack, namespace, name, variables}, guests: all, inside: inside, cloud: cloud, zones: 3,
	}
}

// membersAre reports whether the endpoint leads to these VMs, and to no others.
func membersAre(ctx context.Context, cloud kubeadmCloud, want []string) error {
	got, err := cloud.Members(ctx)
	if err != nil {
		return err
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("the endpoint leads to VMs %v, the control plane has %v", got, want)
	}
	return nil
}

// noFailures: every guest came up.
func (k *kubeadmCluster) noFailures(t *testing.T) {
	t.Helper()
	for _, failure := range k.guests.Failures() {
		t.Error(failure)
	}
}

// longLife is the whole life: all zones, an upgrade to another image, another size, the end.
func (k *kubeadmCluster) longLife(t *testing.T, flavor string, change ...func(rendered)) {
	t.Helper()
	k.apply(t, flavor, change...)
	k.until(t, "three machines of the control plane and two workers on "+flavor, k.settled(oldKubernetes, 3, 2))
	k.spread(t)
	k.upgrade(t)
	k.spread(t)
	k.resize(t, newKubernetes, 1, 3)
	k.gone(t)
	k.noFailures(t)
}

// shortLife is the life of a Cluster that is not upgraded.
func (k *kubeadmCluster) shortLife(t *testing.T, flavor string, change ...func(rendered)) {
	t.Helper()
	k.apply(t, flavor, change...)
	k.until(t, "three machines of the control plane and two workers on "+flavor, k.settled(oldKubernetes, 3, 2))
	k.spread(t)
	k.resize(t, oldKubernetes, 1, 1)
	k.gone(t)
	k.noFailures(t)
}
