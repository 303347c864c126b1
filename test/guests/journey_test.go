package guests

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/guestcloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const pool = "guests"

// TestGuests takes a pool of the native API from its first machine to none: it is rolled
// to another class under a pod, loses its guest, and is scaled to zero.
func TestGuests(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.makeClass(large, guestcloud.LargeMebibytes)
	d, first := r.poolOfOne()

	pod := r.runPod(first)
	began := time.Now()
	r.edit(d, func() { d.Spec.Template.Spec.Class.Name = large })
	second := r.joins(began, first.Name)
	r.compare(second, "1Gi")
	r.drained(first, pod)

	third := r.replaced(second)
	r.scaledToNone(d, third)
	r.nothingLeft(d)
	r.step(r.began, "everything")
}

// TestGuest takes a pool of one from its machine to none, under a pod: what is real in
// TestGuests, in a third of its time.
func TestGuest(t *testing.T) {
	t.Parallel()
	r := start(t)
	d, m := r.poolOfOne()
	pod := r.runPod(m)
	r.edit(d, func() { d.Spec.Replicas = 0 })
	r.drained(m, pod)
	r.nothingLeft(d)
	r.step(r.began, "everything")
}

// poolOfOne makes a pool of one small machine, which joins.
func (r *rig) poolOfOne() (*machinev1.MachineDeployment, *machinev1.Machine) {
	r.Helper()
	r.makeClass(small, guestcloud.SmallMebibytes)
	d := stack.Deployment(pool, small, 1, "1", "0")
	began := time.Now()
	r.must(r.Create(r.Context(), d))
	m := r.joins(began)
	r.compare(m, "768Mi")
	return d, m
}

// edit changes a MachineDeployment.
func (r *rig) edit(d *machinev1.MachineDeployment, change func()) {
	r.Helper()
	patch := client.MergeFrom(d.DeepCopy())
	change()
	r.must(r.Patch(r.Context(), d, patch))
}

// makeClass makes a MachineClass of a flavor, with its name, and its Secret.
func (r *rig) makeClass(flavor string, mebibytes int64) {
	r.Helper()
	spec, err := json.Marshal(map[string]any{
		"apiVersion": "openstack.machine.gardener.cloud/v1alpha1", "kind": "MachineProviderConfig",
		"spec": map[string]any{
			"imageName": openstack.Guest, "region": openstack.Region, "availabilityZone": openstack.ZoneReal,
			"flavorName": flavor, "networkID": r.project.Network, "useConfigDrive": true,
			"withoutKeyPair": true, "withoutPodNetworkCIDRs": true,
			"tags": map[string]string{"kubernetes.io-cluster-guests": "1", "kubernetes.io-role-node": "1"},
		},
	})
	r.must(err)
	meta := metav1.ObjectMeta{Name: flavor, Namespace: stack.Namespace}
	secret := r.secretOf()
	secret.ObjectMeta = meta
	class := &machinev1.MachineClass{
		ObjectMeta: meta, Provider: "OpenStack",
		SecretRef: &corev1.SecretReference{Name: flavor, Namespace: stack.Namespace},
	}
	class.ProviderSpec.Raw = spec
	class.NodeTemplate = &machinev1.NodeTemplate{
		InstanceType: flavor, Region: openstack.Region, Zone: openstack.ZoneReal,
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse("1"), "gpu": resource.MustParse("0"),
			"memory": *resource.NewQuantity(mebibytes<<20, resource.BinarySI),
		},
	}
	r.must(errors.Join(r.Create(r.Context(), secret), r.Create(r.Context(), class)))
}

// inPool selects the pool's machines.
func inPool() []client.ListOption {
	return []client.ListOption{client.InNamespace(stack.Namespace), client.MatchingLabels{machinev1.NameLabel: pool}}
}

// joins follows the machine of the pool that is not known until it is Running, and
// returns it.
func (r *rig) joins(began time.Time, known ...string) *machinev1.Machine {
	r.Helper()
	var m *machinev1.Machine
	r.await("a machine is made", &machinev1.MachineList{}, func(e watch.Event) bool {
		m, _ = e.Object.(*machinev1.Machine)
		return m != nil && m.DeletionTimestamp.IsZero() && !slices.Contains(known, m.Name)
	}, inPool()...)
	name := m.Name
	r.step(began, "Machine %s is there", name)
	r.eventually("Nova has started the guest", func(ctx context.Context) error {
		server, err := r.server(ctx, name)
		if err == nil && server.Status != "ACTIVE" {
			return fmt.Errorf("server %s is %s", name, server.Status)
		}
		return err
	})
	r.step(began, "server is ACTIVE in Nova")
	r.await("the kubelet registers", &corev1.NodeList{}, named(name, func(*corev1.Node) bool { return true }))
	r.step(began, "kubelet has registered")
	r.await("the node is ready", &corev1.NodeList{}, named(name, func(n *corev1.Node) bool {
		return condition(n, corev1.NodeReady) == corev1.ConditionTrue
	}))
	r.step(began, "Node is Ready")
	m = r.awaitPhase(name, machinev1.MachineRunning)
	r.step(began, "Machine is Running")
	return m
}

// awaitPhase waits until a machine is in a phase, and returns it.
func (r *rig) awaitPhase(name string, phase machinev1.MachinePhase) *machinev1.Machine {
	r.Helper()
	var m *machinev1.Machine
	r.await(fmt.Sprintf("Machine %s is %s", name, phase), &machinev1.MachineList{}, func(e watch.Event) bool {
		m, _ = e.Object.(*machinev1.Machine)
		return m != nil && m.Name == name && m.Status.CurrentStatus.Phase == phase
	}, inPool()...)
	return m
}

// awaitGone waits until a machine has gone.
func (r *rig) awaitGone(name string) {
	r.Helper()
	r.eventually("Machine "+name+" has gone", func(ctx context.Context) error {
		err := r.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: name}, &machinev1.Machine{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// server returns the one server of a name.
func (r *rig) server(ctx context.Context, name string) (openstack.Server, error) {
	servers, err := r.project.Live(ctx)
	servers = slices.DeleteFunc(servers, func(s openstack.Server) bool { return s.Name != name })
	if err != nil || len(servers) != 1 {
		return openstack.Server{}, fmt.Errorf("%d servers %s, %w", len(servers), name, err)
	}
	return servers[0], nil
}

// named finds the Node of a name that is as wanted.
func named(name string, wanted func(*corev1.Node) bool) func(watch.Event) bool {
	return func(e watch.Event) bool {
		n, ok := e.Object.(*corev1.Node)
		return ok && e.Type != watch.Deleted && n.Name == name && wanted(n)
	}
}

// compare holds what the guest says of itself against what the manager says of it.
func (r *rig) compare(m *machinev1.Machine, memory string) {
	r.Helper()
	node := &corev1.Node{}
	r.must(r.Get(r.Context(), client.ObjectKey{Name: m.Name}, node))
	server, err := r.server(r.Context(), m.Name)
	r.must(err)
	id, ip := server.ID, r.project.PortsOf(r.T, server.ID)[0].IPs[0].IP
	for what, pair := range map[string][2]string{
		"providerID of the Machine, as MCM writes it": {
			m.Spec.ProviderID, "openstack:///" + openstack.Region + "/" + id,
		},
		"providerID of the Node, from the config drive": {node.Spec.ProviderID, "openstack:///" + id},
		"node that the Machine names":                   {m.Labels[machinev1.NodeLabel], node.Name},
		"label of the pool on the Node":                 {node.Labels["pool"], pool},
		"hostname label of the Node":                    {node.Labels[corev1.LabelHostname], m.Name},
		"name in the boot data":                         {bootedBy(node), m.Name},
		"addresses of the Node":                         {addresses(node), "Hostname " + m.Name + ", InternalIP " + ip},
	} {
		if pair[0] != pair[1] {
			r.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	if console := r.cloud.Console(id); !strings.Contains(console, "DataSourceConfigDrive") {
		r.Errorf("cloud-init does not say on the console that it has read the config drive:\n%s", console)
	}
	r.Logf("capacity of the class: 1 CPU, %s; of the Node: %s CPU, %s; allocatable: %s CPU, %s", memory,
		node.Status.Capacity.Cpu(), node.Status.Capacity.Memory(), node.Status.Allocatable.Cpu(),
		node.Status.Allocatable.Memory())
	r.Logf("kubelet %s, %s, %s, kernel %s", node.Status.NodeInfo.KubeletVersion,
		node.Status.NodeInfo.ContainerRuntimeVersion, node.Status.NodeInfo.OSImage, node.Status.NodeInfo.KernelVersion)
	r.ownToken(m)
}

// bootedBy is the machine's name as the boot data had it.
func bootedBy(node *corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == "guests.example.com/booted-by" {
			return taint.Value
		}
	}
	return ""
}

func addresses(node *corev1.Node) string {
	var text []string
	for _, a := range node.Status.Addresses {
		text = append(text, fmt.Sprintf("%s %s", a.Type, a.Address))
	}
	slices.Sort(text)
	return strings.Join(text, ", ")
}

// ownToken proves that the kubelet has joined with a token that the manager made.
func (r *rig) ownToken(m *machinev1.Machine) {
	r.Helper()
	var requests certificatesv1.CertificateSigningRequestList
	r.must(r.List(r.Context(), &requests))
	for i := range requests.Items {
		request := &requests.Items[i].Spec
		id, ok := strings.CutPrefix(request.Username, "system:bootstrap:")
		if !ok || r.requested(request) != "system:node:"+m.Name {
			continue
		}
		r.Logf("kubelet's certificate was requested by %s in %v", request.Username, request.Groups)
		secret := &corev1.Secret{}
		err := r.Get(r.Context(), client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + id}, secret)
		if !apierrors.IsNotFound(err) {
			r.Errorf("the bootstrap token %s outlives the join of %s: %v", id, m.Name, err)
		}
		return
	}
	r.Errorf("the kubelet of %s has not requested a certificate with a bootstrap token: %+v", m.Name, requests.Items)
}

// requested is who a certificate is requested for.
func (r *rig) requested(request *certificatesv1.CertificateSigningRequestSpec) string {
	r.Helper()
	block, _ := pem.Decode(request.Request)
	if block == nil {
		r.Fatalf("a request for a certificate is no PEM: %q", request.Request)
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	r.must(err)
	return parsed.Subject.CommonName
}

// replaced pulls the plug of a machine's guest, and returns the machine that comes in its
// place.
func (r *rig) replaced(m *machinev1.Machine) *machinev1.Machine {
	r.Helper()
	began := time.Now()
	server, err := r.server(r.Context(), m.Name)
	r.must(err)
	r.must(r.cloud.PowerOff(r.Context(), server.ID))
	r.eventually("Nova notices", func(ctx context.Context) error {
		if server, err := r.server(ctx, m.Name); err != nil || server.Status != "SHUTOFF" {
			return fmt.Errorf("server is %s, %w", server.Status, err)
		}
		return nil
	})
	r.step(began, "plug is pulled, and Nova has noticed")
	r.awaitPhase(m.Name, machinev1.MachineUnknown)
	r.step(began, "Machine is Unknown")
	next := r.joins(began, m.Name)
	r.awaitGone(m.Name)
	r.step(began, "Machine %s has gone", m.Name)
	return next
}

// scaledToNone scales the pool to zero.
func (r *rig) scaledToNone(d *machinev1.MachineDeployment, m *machinev1.Machine) {
	r.Helper()
	began := time.Now()
	r.edit(d, func() { d.Spec.Replicas = 0 })
	r.awaitGone(m.Name)
	r.step(began, "pool is scaled to zero")
}

// nothingLeft deletes the pool and proves that nothing of its machine is left.
func (r *rig) nothingLeft(d *machinev1.MachineDeployment) {
	r.Helper()
	began := time.Now()
	r.must(r.Delete(r.Context(), d))
	r.eventually("nothing is left", func(ctx context.Context) error {
		var nodes corev1.NodeList
		servers, err1 := r.project.Live(ctx)
		ports, err2 := r.project.LivePorts(ctx)
		domains, err3 := r.cloud.Domains(ctx)
		taps, err4 := r.project.Taps(ctx)
		if err := errors.Join(err1, err2, err3, err4, r.List(ctx, &nodes)); err != nil {
			return err
		}
		if n := len(servers) + len(ports) + len(domains) + len(taps) + len(nodes.Items); n > 0 {
			return fmt.Errorf("left are servers %+v, ports %+v, domains %v, taps %v, and %d Nodes", servers, ports, domains,
				taps, len(nodes.Items))
		}
		return nil
	})
	r.step(began, "nothing is left in Nova, Neutron, libvirt, and the guests' network")
}
