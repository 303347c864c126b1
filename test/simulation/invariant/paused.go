package invariant

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// pause is since when the rollout to a set is paused.
type pause struct {
	set   string
	since time.Time
}

// notePause remembers since when the rollout of a deployment is paused.
func (c *Checker) notePause(o client.Object) {
	d, ok := o.(*machinev1.MachineDeployment)
	if !ok {
		return
	}
	set := d.Annotations[machinev1.RolloutPausedAnnotation]
	switch {
	case set == "":
		delete(c.paused, d.UID)
	case c.paused[d.UID].set != set:
		c.paused[d.UID] = pause{set, c.Now()}
	}
}

// pausedRolloutStays: while a rollout is paused, no manager deletes a Machine of the new set that
// failed to join, unless the set has too many or goes, or its node was deleted.
func pausedRolloutStays(c *Checker, change apiserver.Change, w *Writer) error {
	m := going(change)
	if m == nil || w == nil || m.Status.CurrentStatus.Phase != machinev1.MachineFailed || !failedToJoin(m) {
		return nil
	}
	set := c.setOf(m)
	if set == nil || !set.DeletionTimestamp.IsZero() {
		return nil
	}
	d := c.deploymentOf(set)
	if d == nil || !d.DeletionTimestamp.IsZero() {
		return nil
	}
	paused := c.paused[d.UID]
	if paused.set != set.Name || w.Began.Sub(paused.since) < c.ReactionTime {
		return nil
	}
	count := 1 // m itself
	for _, o := range c.machines() {
		if o.UID != m.UID && metav1.IsControlledBy(o, set) && o.DeletionTimestamp.IsZero() {
			count++
		}
	}
	if asked, _ := c.since(set.UID, w.Began); count > asked.least {
		return nil
	}
	return fmt.Errorf("Machine %s failed to join and is deleted, although the rollout to MachineSet %s is paused since %s",
		m.Name, set.Name, paused.since.Format(time.TimeOnly))
}

// failedToJoin reports whether a Machine was given up because it did not join in time.
func failedToJoin(m *machinev1.Machine) bool {
	for _, c := range m.Status.Conditions {
		if c.Type == machinev1.MachineJoined {
			return c.Reason == machinev1.ReasonFailedJoin
		}
	}
	return false
}
