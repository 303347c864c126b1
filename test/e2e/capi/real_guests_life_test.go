package capi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// await waits for a step of guests, and logs when it came, counted from a time.
func (g *guestCluster) await(t *testing.T, began time.Time, what string, check func(context.Context) error) {
	t.Helper()
	if err := stack.Until(t.Context(), slow, check); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, g.describe(context.WithoutCancel(t.Context())))
	}
	t.Logf("%6.1f s  %s", time.Since(began).Seconds(), what)
}

// describe says what is there, and what the guests have said.
func (g *guestCluster) describe(ctx context.Context) string {
	text := g.tell(ctx)
	servers, err := g.cloud.Project.Live(ctx)
	if err != nil {
		text += err.Error()
	}
	for i := range servers {
		console := g.cloud.Console(servers[i].ID)
		text += fmt.Sprintf("%s: %s\n%s\n", servers[i].Name, servers[i].Status, console[max(0, len(console)-8000):])
	}
	return text
}

// of returns the Machines of a pool that are not being deleted.
func (g *guestCluster) of(ctx context.Context, pool string) ([]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := g.m.cl.List(ctx, &list, client.InNamespace(g.namespace),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: g.name + "-" + pool})
	var live []clusterv1.Machine
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			live = append(live, list.Items[i])
		}
	}
	return live, err
}

// joined waits until a pool has its one machine, with a guest that has joined.
func (g *guestCluster) joined(t *testing.T, began time.Time, pool string) {
	t.Helper()
	g.await(t, began, pool+": servers are ACTIVE in Nova", func(ctx context.Context) error {
		machines, err := g.of(ctx, pool)
		if err != nil || len(machines) != 1 {
			return fmt.Errorf("%d Machines, %w", len(machines), err)
		}
		for i := range machines {
			if server, err := g.server(ctx, machines[i].Name); err != nil || server.Status != "ACTIVE" {
				return fmt.Errorf("server %s is %q: %w", machines[i].Name, server.Status, err)
			}
		}
		return nil
	})
	g.await(t, began, pool+": kubeadm join has registered the Node", func(ctx context.Context) error {
		machines, err := g.of(ctx, pool)
		for i := range machines {
			node := &corev1.Node{}
			err = errors.Join(err, g.nodes.Get(ctx, client.ObjectKey{Name: machines[i].Name}, node))
		}
		return err
	})
	g.await(t, began, pool+": Machines are available", func(ctx context.Context) error {
		machines, err := g.of(ctx, pool)
		for i := range machines {
			err = errors.Join(err, condition(machines[i].Status.Conditions, clusterv1.MachineAvailableCondition))
		}
		return err
	})
}

// compare holds what the guests say of themselves against what the Machines say.
func (g *guestCluster) compare(t *testing.T) {
	t.Helper()
	machines, err := g.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range machines {
		m := &machines[i]
		node := &corev1.Node{}
		if err := g.nodes.Get(t.Context(), client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
			t.Error(err)
			continue
		}
		server, err := g.server(t.Context(), m.Name)
		if err != nil {
			t.Error(err)
		}
		for what, pair := range map[string][2]string{
			"providerID of the Machine": {m.Spec.ProviderID, "openstack:///" + server.ID},
			"name of the Node":          {node.Name, m.Name},
			"hostname of the Node":      {node.Labels[corev1.LabelHostname], m.Name},
			"version of the kubelet":    {node.Status.NodeInfo.KubeletVersion, m.Spec.Version},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
			}
		}
		if console := g.cloud.Console(server.ID); !strings.Contains(console, "DataSourceConfigDrive") {
			t.Errorf("cloud-init of %s does not say that it has read the config drive:\n%s", m.Name, console)
		}
	}
}

// resize scales a pool, and waits until it has that many machines.
func (g *guestCluster) resize(t *testing.T, pool string, replicas int32) {
	t.Helper()
	began := time.Now()
	d := &clusterv1.MachineDeployment{}
	if err := g.m.cl.Get(t.Context(), g.key(g.name+"-"+pool), d); err != nil {
		t.Fatal(err)
	}
	gone, err := g.of(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	if err := g.m.cl.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	for i := range gone[:len(gone)-int(replicas)] {
		g.awaitGone(t, began, gone[i].Name)
	}
}

// awaitGone waits until nothing is left of a machine.
func (g *guestCluster) awaitGone(t *testing.T, began time.Time, name string) {
	t.Helper()
	g.await(t, began, "nothing is left of "+name, func(ctx context.Context) error {
		err := g.m.cl.Get(ctx, g.key(name), &clusterv1.Machine{})
		if client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("its Machine is there, %w", err)
		}
		if err := g.nodes.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its Node is there, or not to be read: %v", err) //nolint:errorlint // may be nil
		}
		domains, err := g.cloud.Domains(ctx)
		if server, notFound := g.server(ctx, name); err != nil || notFound == nil {
			return fmt.Errorf("its server is %s, libvirt has %v, %w", server.Status, domains, err)
		}
		return nil
	})
}

// replaced stops the kubelet of a guest that goes on, and waits for the machine that the
// MachineHealthCheck puts in its place.
func (g *guestCluster) replaced(t *testing.T) {
	t.Helper()
	began := time.Now()
	machines, err := g.of(t.Context(), "md-0")
	if err != nil || len(machines) != 1 {
		t.Fatalf("%d Machines, %v", len(machines), err)
	}
	lost := machines[0].Name
	kind := corev1.HostPathDirectoryOrCreate
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stop-kubelet"},
		Spec: corev1.PodSpec{
			NodeName: lost, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "c", Image: "guests.local/pause:1", ImagePullPolicy: corev1.PullNever,
				VolumeMounts: []corev1.VolumeMount{{Name: "stop", MountPath: "/stop"}},
			}},
			Volumes: []corev1.Volume{{Name: "stop", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/run/stop-kubelet", Type: &kind},
			}}},
			AutomountServiceAccountToken: new(bool),
		},
	}
	if err := g.nodes.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	g.await(t, began, "kubelet of "+lost+" is silent", func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := g.nodes.Get(ctx, client.ObjectKey{Name: lost}, node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
				return nil
			}
		}
		return errors.New("its Node is not Unknown")
	})
	if server, err := g.server(t.Context(), lost); err != nil || server.Status != "ACTIVE" {
		t.Errorf("the guest does not outlive its kubelet: %s, %v", server.Status, err)
	}
	g.await(t, began, "another Machine is there", func(ctx context.Context) error {
		now, err := g.of(ctx, "md-0")
		if err != nil || len(now) != 1 || now[0].Name == lost {
			return fmt.Errorf("%d Machines, %w", len(now), err)
		}
		return nil
	})
	g.awaitGone(t, began, lost)
	g.joined(t, began, "md-0")
}

// end deletes the Cluster; nothing is left in Nova, Neutron, libvirt and the guests' network.
func (g *guestCluster) end(t *testing.T) {
	t.Helper()
	began := time.Now()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: g.name}}
	if err := g.m.cl.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	g.await(t, began, "the Cluster is gone, and nothing is left", func(ctx context.Context) error {
		if err := g.m.cl.Get(ctx, client.ObjectKeyFromObject(c), c); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("it is there, %w", err)
		}
		servers, err1 := g.cloud.Project.Live(ctx)
		ports, err2 := g.cloud.Project.LivePorts(ctx)
		domains, err3 := g.cloud.Domains(ctx)
		taps, err4 := g.cloud.Project.Taps(ctx)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return err
		}
		if n := len(servers) + len(ports) + len(domains) + len(taps); n > 0 {
			return fmt.Errorf("left are servers %+v, ports %+v, domains %v, taps %v", servers, ports, domains, taps)
		}
		return nil
	})
}
