package machine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Durations are told how long steps of a machine's life took.
type Durations interface {
	// Observe is called once per machine and step: create, join, drain, delete.
	Observe(m *machinev1.Machine, instanceType, zone, step string, seconds float64)
	// FailedJoin counts a machine whose node did not join in time.
	FailedJoin(m *machinev1.Machine, instanceType, zone string)
}

// measure tells how long the step took that this pass ended. It reads only what
// was observed: the machine's age, and the time since its deletion was asked for.
func (c *Controller) measure(ctx context.Context, f *facts) {
	if c.Durations == nil {
		return
	}
	step, since := stepEnded(f)
	if step == "" {
		return
	}
	instanceType, zone := c.placement(ctx, f)
	if step == stepFailedJoin {
		c.Durations.FailedJoin(f.machine, instanceType, zone)
		return
	}
	c.Durations.Observe(f.machine, instanceType, zone, step, since)
}

const stepFailedJoin = "failed join"

// stepEnded is the step that this pass ended and how many seconds it took; empty
// if it ended none.
func stepEnded(f *facts) (step string, seconds float64) {
	if f.machine.DeletionTimestamp != nil {
		return leavingStepEnded(f)
	}
	age := f.now.Sub(f.machine.CreationTimestamp.Time).Seconds()
	was, is := f.before.Status.CurrentStatus.Phase, f.machine.Status.CurrentStatus.Phase
	switch {
	case was == is:
		return "", 0
	case is == machinev1.MachinePending, is == machinev1.MachineAvailable:
		return "create", age
	case was == machinev1.MachinePending && is == machinev1.MachineRunning:
		return "join", age
	case was == machinev1.MachinePending && is == machinev1.MachineFailed:
		return stepFailedJoin, age
	}
	return "", 0
}

// leavingStepEnded is stepEnded of a machine that goes.
func leavingStepEnded(f *facts) (step string, seconds float64) {
	going := f.now.Sub(f.machine.DeletionTimestamp.Time).Seconds()
	switch {
	case f.released && f.machine.Spec.ProviderID != "":
		return "delete", going
	case f.drained != nil && f.drained.done:
		return "drain", going
	}
	return "", 0
}

// placement is where the machine is: as its node says, else its template, else
// its class.
func (c *Controller) placement(ctx context.Context, f *facts) (instanceType, zone string) {
	labels := f.machine.Spec.NodeTemplateSpec.Labels
	if f.node != nil {
		labels = f.node.Labels
	}
	instanceType, zone = labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone]
	if instanceType != "" && zone != "" {
		return instanceType, zone
	}
	class := &machinev1.MachineClass{}
	key := client.ObjectKey{Namespace: f.machine.Namespace, Name: f.machine.Spec.Class.Name}
	if err := c.Client.Get(ctx, key, class); err != nil || class.NodeTemplate == nil {
		return instanceType, zone // a label of a metric is worth no retry
	}
	if instanceType == "" {
		instanceType = class.NodeTemplate.InstanceType
	}
	if zone == "" {
		zone = class.NodeTemplate.Zone
	}
	return instanceType, zone
}
