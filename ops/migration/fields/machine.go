package fields

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// nativeMachine is a Machine, and what its set says for all of its machines.
type nativeMachine struct {
	*machinev1.Machine
	set      *machinev1.MachineSet // nil: it belongs to none
	own, all timeouts
}

const priorityField = "metadata.annotations[" + machinev1.PriorityAnnotation + "]"

// machineTable has the fields that a Machine has besides those of its template.
var machineTable = []row[*nativeMachine, *clusterv1.Machine]{
	{
		native: priorityField, clusterAPI: "metadata.annotations[" + clusterv1.DeleteMachineAnnotation + "]",
		toClusterAPI: func(n *nativeMachine, c *clusterv1.Machine) {
			if deletedFirst(n.Machine) {
				c.Annotations[clusterv1.DeleteMachineAnnotation] = "true"
			}
		},
		toNative:     func(c *clusterv1.Machine, n *nativeMachine) { rank(n.Machine, c) },
		leavesNative: judgePriority,
	},
	{native: "metadata.labels[" + machinev1.ForceDrainLabel + "]", leavesNative: func(n *nativeMachine) outcome {
		force, err := strconv.ParseBool(n.Labels[machinev1.ForceDrainLabel])
		return when(err == nil && force,
			lost("Cluster API evicts no pod by force: it drains until the drain timeout"))
	}},
	{native: "spec.drainTimeout", leavesNative: func(n *nativeMachine) outcome {
		return n.differs(n.own.drain != n.all.drain)
	}},
	{native: "spec.healthTimeout", leavesNative: func(n *nativeMachine) outcome {
		return n.differs(n.own.health != n.all.health || n.own.neverFails != n.all.neverFails)
	}},
	{native: "spec.nodeConditions", leavesNative: func(n *nativeMachine) outcome {
		return n.differs(!slices.Equal(n.own.conditions, n.all.conditions))
	}},
	{native: "spec.maxEvictRetries", leavesNative: func(n *nativeMachine) outcome {
		own, all := n.configurations()
		return when(!ptr.Equal(own.MaxEvictRetries, all.MaxEvictRetries), lost(retriesText))
	}},
	{native: "spec.machinePreserveTimeout", leavesNative: func(n *nativeMachine) outcome {
		own, all := n.configurations()
		return when(!ptr.Equal(own.MachinePreserveTimeout, all.MachinePreserveTimeout), lost(preserveText))
	}},
}

// mcmMachineTable has the fields that an MCMMachine and its template have in common and that
// nothing converts.
var mcmMachineTable = []row[struct{}, *infrav1.MCMMachineSpec]{
	{clusterAPI: "network", leavesClusterAPI: func(c *infrav1.MCMMachineSpec) outcome {
		return when(len(c.Network.Devices) > 0,
			blocked("the native API has no IP pools: finish would remove the MCMMachines, after which the addresses of running "+
				"VMs go to others, and replacements would boot with DHCP",
				"roll the pool to an MCMMachineTemplate without spec.network, or leave it on Cluster API"))
	}},
}

// differs is about a setting of a Machine that its set does not have: Cluster API gives
// all machines of a set those of the set.
func (n *nativeMachine) differs(different bool) outcome {
	if n.set == nil {
		return outcome{}
	}
	return when(different, lost("differs from that of MachineSet "+n.set.Name+
		", which counts for all its machines on Cluster API"))
}

// configurations are what the Machine and its set say; the same for one without a set.
func (n *nativeMachine) configurations() (own, all machinev1.MachineConfiguration) {
	own = objects.Value(n.Spec.MachineConfiguration)
	if n.set == nil {
		return own, own
	}
	return own, objects.Value(n.set.Spec.Template.Spec.MachineConfiguration)
}

func judgePriority(n *nativeMachine) outcome {
	priority, set := n.Annotations[machinev1.PriorityAnnotation]
	if deletedFirst(n.Machine) {
		return replaced("to be deleted first; becomes the annotation cluster.x-k8s.io/delete-machine")
	}
	return when(set && priority != machinev1.DefaultPriority, lost(fmt.Sprintf("%q has no counterpart: Cluster API knows "+
		"only machines to be deleted first, and the oldest first among the others", priority)))
}

// deletedFirst reports whether a machine is the first to be deleted when its set shrinks.
func deletedFirst(m *machinev1.Machine) bool {
	_, chosen := m.Annotations[machinev1.DeleteMachineAnnotation]
	return chosen || m.Annotations[machinev1.PriorityAnnotation] == machinev1.HighestPriority
}

// rank gives m the priority that the Machine of Cluster API has.
func rank(m *machinev1.Machine, from *clusterv1.Machine) {
	_, chosen := from.Annotations[clusterv1.DeleteMachineAnnotation]
	priority, set := m.Annotations[machinev1.PriorityAnnotation]
	switch {
	case chosen:
		m.Annotations[machinev1.PriorityAnnotation] = machinev1.HighestPriority
	case !set || priority == machinev1.HighestPriority:
		m.Annotations[machinev1.PriorityAnnotation] = machinev1.DefaultPriority
		delete(m.Annotations, machinev1.DeleteMachineAnnotation)
		delete(m.Annotations, machinev1.MarkedForDeletionAnnotation)
	}
}

// machineView reads a Machine and its set.
func (c *toClusterAPI) machineView(m *machinev1.Machine) *nativeMachine {
	n := &nativeMachine{Machine: m, own: timeoutsOf(m.Spec.MachineConfiguration, m.Annotations, c.options.Defaults)}
	if i := c.Native.SetOf(m); i >= 0 {
		n.set = &c.Native.Sets[i]
		n.all = timeoutsOf(n.set.Spec.Template.Spec.MachineConfiguration, n.set.Annotations, c.options.Defaults)
	}
	return n
}

// judgeMachine says what becomes of what is special to one Machine.
func (c *toClusterAPI) judgeMachine(m *machinev1.Machine) {
	object := objects.Name(machinev1.MachineKind, m)
	c.findings = append(c.findings, judgeNative(machineTable, object, "", c.machineView(m))...)
	c.judgeOwners(object, m)
}

// judgeMachine is about what a Machine of Cluster API does not have from its set.
func (c *toNative) judgeMachine(m *clusterv1.Machine, infra *infrav1.MCMMachine, ofSet bool) {
	object := objects.Name(machinev1.MachineKind, m)
	c.findings = append(c.findings, judgeClusterAPI(mcmMachineTable, objects.Name(objects.KindMCMMachine, infra), "spec.",
		&infra.Spec)...)
	c.findings = append(c.findings, judgeClusterAPIAnnotations(object, m.Annotations, machineAnnotations)...)
	c.judgeFinalizers(object, m)
	if !ofSet {
		c.judgeSpec(object, "spec.", &m.Spec)
	}
}
