package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRecover takes a management cluster back to what a backup has of it: one worker of
// five, and sizes to match. The orphan collector keeps the VMs of the others, and kubectl
// mcm recover gives them their Machines back: the same VMs, the same Nodes.
func TestRecover(t *testing.T) {
	turn := queue.add(1)
	t.Parallel()
	turn.await(t)
	const before, after = 1, 5
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl)
	m.startProviders(t, "--machine-safety-orphan-vms-period=5s")
	p := newPool(t, m, ctl, m.Stack, "recover", "c1")
	p.apply(t, "sim-self-hosted", before)
	p.until(t, "one worker", p.settled(before))
	kept, err := p.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.scale(t, after)
	p.until(t, "five workers", p.settled(after))
	names := p.names(t)
	vms, err := p.vms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.restore(t, kept[0].Name, before)
	p.until(t, "the collector lists the VMs", func(ctx context.Context) error { return p.listed(ctx, after-before) })
	if out := p.recover(t, "plan"); !strings.Contains(out, "spec.replicas of MachineDeployment") {
		t.Errorf("the plan does not tell the new size:\n%s", out)
	}
	p.recover(t, "apply")
	p.until(t, "five workers again", p.settled(after))
	if now := p.names(t); !slices.Equal(now, names) {
		t.Errorf("Machines %v, before %v", now, names)
	}
	if now, err := p.vms(t.Context()); err != nil || !slices.Equal(now, vms) {
		t.Errorf("VMs %v, before %v: %v", now, vms, err)
	}
	p.providerIDs(t)
	p.until(t, "nothing is listed any more", func(ctx context.Context) error { return p.listed(ctx, 0) })
	p.scale(t, before)
	p.until(t, "recovered machines go like any other", p.settled(before))
	p.remove(t)
}

// names returns the names of the Machines and Nodes, with their UIDs.
func (p *pool) names(t *testing.T) []string {
	t.Helper()
	machines, err := p.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, _, err := p.nodes.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range machines {
		out = append(out, machines[i].Name+" "+machines[i].Spec.ProviderID)
	}
	for i := range nodes {
		out = append(out, "Node "+nodes[i].Name+" "+string(nodes[i].UID))
	}
	slices.Sort(out)
	return out
}

// restore removes all Machines but one with what belongs to them, without a controller
// noticing, and takes the sizes back.
func (p *pool) restore(t *testing.T, keep string, replicas int32) {
	t.Helper()
	p.pauseCluster(t, true)
	for _, list := range []client.ObjectList{
		&clusterv1.MachineList{}, &infrav1.MCMMachineList{}, &bootstrapv1.MCMConfigList{},
	} {
		if err := p.m.cl.List(t.Context(), list, client.InNamespace(p.namespace)); err != nil {
			t.Fatal(err)
		}
		for _, o := range items(list) {
			if o.GetName() != keep && o.GetLabels()[clusterv1.MachineDeploymentNameLabel] != "" {
				p.drop(t, o)
			}
		}
	}
	p.change(t, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
	var sets clusterv1.MachineSetList
	if err := p.m.cl.List(t.Context(), &sets, client.InNamespace(p.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		set := sets.Items[i].DeepCopy()
		set.Spec.Replicas = &replicas
		set.Annotations[clusterv1.DesiredReplicasAnnotation] = fmt.Sprint(replicas)
		set.Annotations[clusterv1.MaxReplicasAnnotation] = fmt.Sprint(replicas + 1)
		if err := p.m.cl.Patch(t.Context(), set, client.MergeFrom(&sets.Items[i])); err != nil {
			t.Fatal(err)
		}
	}
	p.pauseCluster(t, false)
}

// items returns the objects of a list.
func items(list client.ObjectList) []client.Object {
	var out []client.Object
	switch list := list.(type) {
	case *clusterv1.MachineList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case *infrav1.MCMMachineList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	case *bootstrapv1.MCMConfigList:
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

// drop removes an object at once, whatever finalizers it has.
func (p *pool) drop(t *testing.T, o client.Object) {
	t.Helper()
	bare := o.DeepCopyObject().(client.Object)
	bare.SetFinalizers(nil)
	if err := p.m.cl.Patch(t.Context(), bare, client.MergeFrom(o)); err != nil {
		t.Fatal(err)
	}
	if err := client.IgnoreNotFound(p.m.cl.Delete(t.Context(), bare)); err != nil {
		t.Fatal(err)
	}
}

// pauseCluster pauses the Cluster, and waits until its objects say so; or ends that.
func (p *pool) pauseCluster(t *testing.T, paused bool) {
	t.Helper()
	c := &clusterv1.Cluster{}
	if err := p.m.cl.Get(t.Context(), p.key(p.name), c); err != nil {
		t.Fatal(err)
	}
	changed := c.DeepCopy()
	changed.Spec.Paused = &paused
	if err := p.m.cl.Patch(t.Context(), changed, client.MergeFrom(c)); err != nil {
		t.Fatal(err)
	}
	if !paused {
		return
	}
	p.until(t, "all is paused", func(ctx context.Context) error {
		for _, list := range []client.ObjectList{
			&clusterv1.MachineList{}, &infrav1.MCMMachineList{}, &bootstrapv1.MCMConfigList{},
		} {
			if err := p.m.cl.List(ctx, list, client.InNamespace(p.namespace)); err != nil {
				return err
			}
			for _, o := range items(list) {
				conditions := o.(interface{ GetConditions() []metav1.Condition }).GetConditions()
				if err := condition(conditions, clusterv1.PausedCondition); err != nil {
					return fmt.Errorf("%T %s: %w", o, o.GetName(), err)
				}
			}
		}
		return nil
	})
}

// listed returns an error unless MachineClasses list so many VMs without a machine.
func (p *pool) listed(ctx context.Context, want int) error {
	var classes machinev1.MachineClassList
	if err := p.m.cl.List(ctx, &classes, client.InNamespace(p.namespace)); err != nil {
		return err
	}
	got := 0
	for i := range classes.Items {
		var held machinev1.HeldOrphans
		text := classes.Items[i].Annotations[machinev1.HeldClusterAPIOrphansAnnotation]
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &held); err != nil {
			return err
		}
		got += held.Count
	}
	if got != want {
		return fmt.Errorf("%d VMs are listed, want %d", got, want)
	}
	return nil
}

// recover runs the command, and returns what it prints.
func (p *pool) recover(t *testing.T, verb string) string {
	t.Helper()
	command := filepath.Join(p.m.dir, "kubectl-mcm")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", command, "./cmd/kubectl-mcm")
	build.Dir = p.m.assets.root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl-mcm: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), command, "recover", verb, "-n", p.namespace, "--kubeconfig",
		p.m.Cluster.Kubeconfig()).CombinedOutput()
	if err != nil {
		t.Fatalf("recover %s: %v\n%s\n%s", verb, err, out, p.tell(t.Context()))
	}
	t.Logf("recover %s\n%s", verb, out)
	return string(out)
}
