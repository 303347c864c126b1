package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	first  = "first"  // class of small VMs
	second = "second" // class of large ones

	rolled     = "rolled"     // has an old MachineSet and two revisions
	scaled     = "scaled"     // was made with one machine and has two
	configured = "configured" // has a template with everything in it
	autoscaled = "autoscaled" // is a node group of the upstream autoscaler
	inPlace    = "in-place"   // is updated in place
	alone      = "alone"      // is a Machine without an owner

	// editedLabel is what editWhileStopped gives nodes.
	editedLabel = "edited"

	timeout = 5 * time.Minute
)

// live does what users do, until all of it is done and all machines run.
func live(ctx context.Context, s *stack.Stack, c *core) error {
	for class, instanceType := range map[string]string{first: "small", second: "large"} {
		if err := s.CreateClass(ctx, class, instanceType); err != nil {
			return err
		}
	}
	pools := pools()
	for _, d := range pools {
		if err := s.Client.Create(ctx, d); err != nil {
			return err
		}
	}
	if err := s.Client.Create(ctx, machineAlone()); err != nil {
		return err
	}
	if err := c.populate(ctx, s); err != nil {
		return err
	}
	if err := stack.Until(ctx, timeout, func(ctx context.Context) error { return done(ctx, s, c) }); err != nil {
		return err
	}
	for _, d := range pools {
		err := s.Edit(ctx, d, func() {
			switch d.Name {
			case rolled:
				d.Spec.Template.Spec.Class.Name = second
			case scaled:
				d.Spec.Replicas++
			}
		})
		if err != nil {
			return err
		}
	}
	return stack.Until(ctx, timeout, func(ctx context.Context) error { return done(ctx, s, c) })
}

// pools are the MachineDeployments of a record.
func pools() []*machinev1.MachineDeployment {
	all := []*machinev1.MachineDeployment{
		stack.Deployment(rolled, first, 2, "1", "1"), stack.Deployment(scaled, first, 1, "50%", "0"),
		stack.Deployment(configured, first, 1, "1", "0"), stack.Deployment(autoscaled, first, 1, "1", "0"),
		stack.Deployment(inPlace, first, 1, "0", "1"),
	}
	all[2].Spec.Template = configuredTemplate(all[2].Spec.Template)
	all[2].Spec.RevisionHistoryLimit, all[2].Spec.ProgressDeadlineSeconds = new(int32(3)), new(int32(600))
	all[3].Annotations = map[string]string{
		machinev1.NodeGroupMinSizeAnnotation: "1", machinev1.NodeGroupMaxSizeAnnotation: "5",
		machinev1.ProviderIDFormAnnotation: machinev1.ProviderIDFormNode,
	}
	all[4].Spec.Strategy = machinev1.MachineDeploymentStrategy{
		Type: machinev1.InPlaceUpdateStrategyType,
		InPlaceUpdate: &machinev1.InPlaceUpdateMachineDeployment{
			OrchestrationType: machinev1.OrchestrationTypeAuto,
			UpdateConfiguration: machinev1.UpdateConfiguration{
				MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1)),
			},
		},
	}
	return all
}

// configuredTemplate adds everything that a template can have.
func configuredTemplate(t machinev1.MachineTemplateSpec) machinev1.MachineTemplateSpec {
	t.Annotations = map[string]string{"example.com/team": "a"}
	t.Spec.NodeTemplateSpec.Labels["example.com/disk"] = "fast"
	t.Spec.NodeTemplateSpec.Annotations = map[string]string{"example.com/note": "kept"}
	t.Spec.NodeTemplateSpec.Spec.Taints = []corev1.Taint{{
		Key: "example.com/only", Value: "b",
		Effect: corev1.TaintEffectNoSchedule,
	}}
	t.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
		MachineDrainTimeout:    &metav1.Duration{Duration: 30 * time.Minute},
		MachineHealthTimeout:   &metav1.Duration{Duration: 20 * time.Minute},
		MachineCreationTimeout: &metav1.Duration{Duration: 15 * time.Minute},
		MaxEvictRetries:        new(int32(7)),
		NodeConditions:         new("KernelDeadlock,DiskPressure"),
	}
	return t
}

func machineAlone() *machinev1.Machine {
	m := fixture.Machine(alone, first)
	m.Spec.NodeTemplateSpec.Labels = map[string]string{"pool": alone}
	return m
}

// editWhileStopped changes what is applied to machines as they are, which the
// next version finds undone: it has to do that, and to replace nothing.
func editWhileStopped(ctx context.Context, s *stack.Stack) error {
	d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: configured, Namespace: stack.Namespace}}
	return s.Edit(ctx, d, func() {
		d.Spec.Template.Spec.NodeTemplateSpec.Labels[editedLabel] = "true"
		d.Spec.Template.Spec.MachineHealthTimeout = &metav1.Duration{Duration: 25 * time.Minute}
	})
}

// done reports whether every pool is as it should be, and everything runs; the
// error says what does not yet.
func done(ctx context.Context, s *stack.Stack, c *core) error {
	var all machinev1.MachineDeploymentList
	if err := s.Client.List(ctx, &all); err != nil {
		return err
	}
	machines := 1
	for i := range all.Items {
		d := &all.Items[i]
		want, now := d.Spec.Replicas, d.Status
		machines += int(want)
		if now.ObservedGeneration < d.Generation || now.Replicas != want || now.UpdatedReplicas != want ||
			now.AvailableReplicas != want {
			return fmt.Errorf("pool %s has %d machines, %d of them up to date and %d available, want %d (generation %d, "+
				"observed %d)",
				d.Name, now.Replicas, now.UpdatedReplicas, now.AvailableReplicas, want, d.Generation, now.ObservedGeneration)
		}
	}
	workers, err := c.pass(ctx)
	if err != nil {
		return err
	}
	return running(ctx, s, machines, workers)
}

// running reports whether there are that many Machines, each Running, with a Node
// that has its labels, that many workers of the Cluster, a ready Node and a VM for
// each of both, and nothing besides.
func running(ctx context.Context, s *stack.Stack, want, workers int) error {
	machines, err := s.Machines(ctx, "")
	if err != nil {
		return err
	}
	nodes, ready, err := s.Nodes(ctx)
	if err != nil {
		return err
	}
	vms, err := s.Cloud.VMs(ctx)
	if err != nil {
		return err
	}
	if all := want + workers; len(machines) != want || len(nodes) != all || ready != all || len(vms) != all {
		return fmt.Errorf("%d Machines, %d nodes, %d of them ready, %d VMs; want %d, and %d of the others", len(machines),
			len(nodes), ready, len(vms), want, all)
	}
	synced := map[string]bool{}
	for i := range nodes {
		_, synced[nodes[i].Name] = nodes[i].Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	}
	for i := range machines {
		m := &machines[i]
		if phase := m.Status.CurrentStatus.Phase; phase != machinev1.MachineRunning ||
			!synced[m.Labels[machinev1.NodeLabel]] {
			return fmt.Errorf("machine %s is %q, its node has what it says: %t", m.Name, phase,
				synced[m.Labels[machinev1.NodeLabel]])
		}
	}
	return nil
}
