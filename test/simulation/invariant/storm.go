package invariant

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// Losses belong together if they began at most this far apart, and a manager has
// had this long to notice both.
const (
	together = 5 * time.Minute
	noticing = time.Minute
)

// nothingReplacedInAStorm: a machine whose VM runs is not given up while another
// one of its zone or pool is lost too, since about the same time, and the cloud does
// not say why.
func nothingReplacedInAStorm(c *Checker, change apiserver.Change, w *Writer) error {
	before, after := machineIn(change)
	if w == nil || c.Lags || before == nil || after == nil ||
		before.Status.CurrentStatus.Phase != machinev1.MachineUnknown ||
		after.Status.CurrentStatus.Phase != machinev1.MachineFailed || !c.runs(after) {
		return nil
	}
	zone, since, lost := c.lost(after)
	if !lost || w.Began.Sub(since) < noticing {
		return nil
	}
	for _, o := range c.machines() {
		if o.UID == after.UID || !o.DeletionTimestamp.IsZero() || o.Status.CurrentStatus.Phase != machinev1.MachineUnknown ||
			!c.runs(o) {
			continue
		}
		itsZone, itsSince, alsoLost := c.lost(o)
		samePool := o.Labels[machinev1.NameLabel] != "" && o.Labels[machinev1.NameLabel] == after.Labels[machinev1.NameLabel]
		if alsoLost && (samePool || zone == itsZone) && w.Began.Sub(itsSince) >= noticing &&
			since.Sub(itsSince).Abs() <= together {
			return fmt.Errorf("Machine %s is given up, whose VM runs, although %s was lost together with it", after.Name, o.Name)
		}
	}
	return nil
}

// GivesUp reports whether a change begins the end of a Machine whose VM runs.
func (c *Checker) GivesUp(change apiserver.Change) bool {
	m := going(change)
	return m != nil && c.runs(m)
}

// runs reports whether the cloud shows the VM of a Machine as running.
func (c *Checker) runs(m *machinev1.Machine) bool {
	id := m.Spec.ProviderID[strings.LastIndex(m.Spec.ProviderID, "/")+1:]
	vm, _, ok := c.Cloud.Look(id)
	return ok && vm.VM != nil && vm.VM.State == sim.StateRunning
}

// lost reports whether the node of a Machine exists and is not ready, where and
// since when.
func (c *Checker) lost(m *machinev1.Machine) (zone string, since time.Time, lost bool) {
	node, ok := c.node(m.Labels[machinev1.NodeLabel]).(*corev1.Node)
	if !ok || !node.DeletionTimestamp.IsZero() {
		return "", time.Time{}, false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return node.Labels[corev1.LabelTopologyZone], condition.LastTransitionTime.Time,
				condition.Status != corev1.ConditionTrue
		}
	}
	return "", time.Time{}, false
}
