package capi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wait bounds steps that take seconds. Cluster API looks again at a drain every
// 20 s, and at a Cluster that it could not connect to every 30 s.
const wait = 150 * time.Second

// A pool is a Cluster with one MachineDeployment of our templates, in a namespace
// of its own, and the control plane and cloud of its nodes.
type pool struct {
	m         *management
	ctl       clusterctl
	nodes     *stack.Stack
	namespace string
	name      string // of the Cluster
	variables map[string]string
}

func newPool(t *testing.T, m *management, ctl clusterctl, nodes *stack.Stack, namespace, name string) *pool {
	t.Helper()
	m.namespace(t, namespace)
	if nodes == m.Stack {
		m.selfHosted(t, namespace)
	}
	host, port := endpoint(t, nodes)
	return &pool{m, ctl, nodes, namespace, name, map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": host, "CONTROL_PLANE_ENDPOINT_PORT": port,
		"CONTROL_PLANE_CA_DATA": base64.StdEncoding.EncodeToString(nodes.Cluster.CA()),
		"SIM_ENDPOINT":          nodes.Cloud.Endpoint, "SIM_ACCOUNT_ID": stack.AccountID, "SIM_SECRET_KEY": stack.SecretKey,
		"MACHINE_HEALTH_TIMEOUT_SECONDS": "5", "MACHINE_HEALTH_MAX_UNHEALTHY": "100%",
	}}
}

// apply applies a flavor with that many workers.
func (p *pool) apply(t *testing.T, flavor string, workers int) {
	t.Helper()
	all := p.m.generate(t, p.ctl, flavor, p.namespace, p.name, p.variables, "--worker-machine-count", fmt.Sprint(workers))
	if err := p.m.Cluster.Apply(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// until waits for a step, and says what the objects say when it does not come.
func (p *pool) until(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	begin := time.Now()
	if err := stack.Until(t.Context(), wait, check); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, p.tell(context.WithoutCancel(t.Context())))
	}
	t.Logf("%s: %.1f s", what, time.Since(begin).Seconds())
}

// tell describes what is there.
func (p *pool) tell(ctx context.Context) string {
	out, err := p.ctl.run(ctx, nil, "describe", "cluster", p.name, "-n", p.namespace, "--kubeconfig",
		p.m.Cluster.Kubeconfig(), "--show-conditions=all", "--grouping=false")
	if err != nil {
		out += err.Error()
	}
	var events corev1.EventList
	if err := p.m.cl.List(ctx, &events, client.InNamespace(p.namespace)); err != nil {
		return out + err.Error()
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning {
			out += fmt.Sprintf("%s %s: %s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	return out
}

func (p *pool) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.namespace, Name: name}
}

// deployment returns the MachineDeployment of the Cluster.
func (p *pool) deployment(ctx context.Context) (*clusterv1.MachineDeployment, error) {
	var list clusterv1.MachineDeploymentList
	if err := p.m.cl.List(ctx, &list, client.InNamespace(p.namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: p.name}); err != nil {
		return nil, err
	}
	return only(list.Items)
}

// change patches the MachineDeployment.
func (p *pool) change(t *testing.T, how func(*clusterv1.MachineDeployment)) {
	t.Helper()
	md, err := p.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := md.DeepCopy()
	how(md)
	if err := p.m.cl.Patch(t.Context(), md, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func (p *pool) scale(t *testing.T, replicas int32) {
	t.Helper()
	p.change(t, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
}

// vms returns the VMs, by name.
func (p *pool) vms(ctx context.Context) ([]string, error) {
	vms, err := p.nodes.Cloud.VMs(ctx)
	return slices.Sorted(maps.Keys(vms)), err
}

// machines returns the Machines of the Cluster.
func (p *pool) machines(ctx context.Context) ([]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := p.m.cl.List(ctx, &list, client.InNamespace(p.namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: p.name})
	return list.Items, err
}

// settled reports whether there are that many Machines, all up to date, available
// and known as Nodes, with as many VMs, and nothing besides.
func (p *pool) settled(want int) func(context.Context) error {
	return func(ctx context.Context) error {
		md, err := p.deployment(ctx)
		if err != nil {
			return err
		}
		machines, err := p.machines(ctx)
		if err != nil {
			return err
		}
		vms, err := p.vms(ctx)
		if err != nil {
			return err
		}
		nodes, ready, err := p.nodes.Nodes(ctx)
		if err != nil {
			return err
		}
		s := md.Status
		count := func(n *int32) int {
			if n == nil {
				return 0
			}
			return int(*n)
		}
		switch {
		case s.ObservedGeneration != md.Generation:
			return errors.New("the MachineDeployment has not been looked at")
		case count(s.Replicas) != want, count(s.AvailableReplicas) != want, count(s.UpToDateReplicas) != want,
			len(machines) != want, len(vms) != want, len(nodes) != want, ready != want:
			return fmt.Errorf("%d replicas, %d available, %d up to date, %d Machines, %d VMs, %d Nodes, %d ready; want "+
				"%d of each",
				count(s.Replicas), count(s.AvailableReplicas), count(
					s.UpToDateReplicas), len(machines), len(vms), len(nodes), ready, want)
		}
		return condition(md.Status.Conditions, clusterv1.MachineDeploymentAvailableCondition)
	}
}

// available reports whether the Cluster is.
func (p *pool) available(ctx context.Context) error {
	c := &clusterv1.Cluster{}
	if err := p.m.cl.Get(ctx, p.key(p.name), c); err != nil {
		return err
	}
	return condition(c.Status.Conditions, clusterv1.ClusterAvailableCondition)
}

// condition returns nil if a condition is True.
func condition(conditions []metav1.Condition, name string) error {
	c := meta.FindStatusCondition(conditions, name)
	if c == nil {
		return fmt.Errorf("no condition %s", name)
	}
	if c.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return nil
}
