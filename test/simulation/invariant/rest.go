package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// everythingSettles: once trouble has ended, every deployment has the machines
// that it asks for, of its newest template, and they run.
func everythingSettles(c *Checker) error {
	owned := map[string]int32{}
	for _, m := range c.machines() {
		if machinev1.Held(m) {
			continue // it has moved to the other API
		}
		if !m.DeletionTimestamp.IsZero() {
			return fmt.Errorf("Machine %s is still going: %s", m.Name, m.Status.LastOperation.Description)
		}
		set := c.setOf(m)
		if set == nil {
			if ref := metav1.GetControllerOf(m); ref != nil {
				return fmt.Errorf("Machine %s belongs to set %s, which is gone", m.Name, ref.Name)
			}
			if node, ok := c.node(m.Labels[machinev1.NodeLabel]).(*corev1.Node); ok && machinev1.IsNodeDeletionHeld(node) {
				return fmt.Errorf("Machine %s may still go with its node, whose deletion is held", m.Name)
			}
			continue // it is not replaced
		}
		node, ok := c.node(m.Labels[machinev1.NodeLabel]).(*corev1.Node)
		switch {
		case !serves(m):
			return fmt.Errorf("Machine %s is still %q: %s", m.Name, m.Status.CurrentStatus.Phase,
				m.Status.LastOperation.Description)
		case !ok || !c.Health(node.Name) && !wasDeletedBefore(node, m):
			return fmt.Errorf("Machine %s runs without a healthy node", m.Name)
		}
		if d := c.deploymentOf(set); d != nil {
			class := d.Spec.Template.Spec.Class.Name
			names := append(machinev1.FallbackClasses(d, class), class)
			if set.Spec.Template.Spec.Class.Name != class || !slices.Contains(names, m.Spec.Class.Name) {
				return fmt.Errorf("Machine %s has class %s and should have one of %s", m.Name, m.Spec.Class.Name, names)
			}
			owned[string(d.UID)]++
		}
	}
	for _, o := range c.Control.KindOf(&machinev1.MachineDeployment{}).All() {
		d := o.(*machinev1.MachineDeployment)
		switch {
		case machinev1.Held(d):
		case !d.DeletionTimestamp.IsZero():
			return fmt.Errorf("MachineDeployment %s is still going", d.Name)
		case owned[string(d.UID)] != d.Spec.Replicas:
			return fmt.Errorf("MachineDeployment %s has %d machines and asks for %d", d.Name, owned[string(d.UID)],
				d.Spec.Replicas)
		case d.Annotations[machinev1.EffectiveCreationTimeoutAppliedAnnotation] != "":
			return fmt.Errorf("MachineDeployment %s still gives its machines %s to join", d.Name,
				d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation])
		case d.Status.AvailableReplicas != d.Spec.Replicas || d.Status.ObservedGeneration != d.Generation:
			return fmt.Errorf("MachineDeployment %s says that %d are available of %d, at generation %d of %d",
				d.Name, d.Status.AvailableReplicas, d.Spec.Replicas, d.Status.ObservedGeneration, d.Generation)
		}
	}
	return nil
}

// wasDeletedBefore reports whether a Node was deleted before its Machine was
// created, which happens where a user creates a Machine again from a copy. That
// deletion did not ask for this Machine to go: an Event names the Node, and a
// person removes its finalizers.
func wasDeletedBefore(node *corev1.Node, m *machinev1.Machine) bool {
	return node.DeletionTimestamp.Before(&m.CreationTimestamp)
}

// OtherAccount is the account of the cloud whose credentials the classes have for a while. It has nothing, and
// no VM may be made in it.
const OtherAccount = "other"

// noOrphans: once trouble has ended, everything in the cloud belongs to a machine
// of one of the APIs, which knows its VM. What was left on purpose stays, and so
// does what no collector that runs judges.
func noOrphans(c *Checker) error {
	for _, r := range c.Cloud.Live() {
		id := r.Tags[ownerTag]
		if keepsData(r) && r.Disk.VM == "" || c.retained[id] || r.VM == nil && (id == "" || r.Account == OtherAccount) ||
			!tagged(r) && !c.NativeRuns && len(c.claimants(r)) == 0 {
			// Parts without owner id are those of a VM that a user has made, and no class has the credentials of the
			// other account any more, in which a VM was refused after its disk was made.
			continue
		}
		known, found := c.known(r)
		if !found && !c.strayed(r) {
			return fmt.Errorf("%s %s (%s) belongs to no machine, since %s", r.Kind, r.ID, r.Name(), r.Made.Format(time.TimeOnly))
		}
		if found && r.VM != nil && !strings.HasSuffix(known, "/"+r.ID) {
			return fmt.Errorf("VM %s belongs to a machine that has VM %q", r.ID, known)
		}
	}
	return nil
}

// known is the providerID of the machine that a resource belongs to.
func (c *Checker) known(r sim.Resource) (providerID string, found bool) {
	if m := c.machineOf(r.Tags[ownerTag]); m != nil {
		return m.Spec.ProviderID, true
	}
	if all := c.claimants(r); len(all) > 0 {
		return all[0].Spec.ProviderID, true
	}
	return "", false
}

// strayed reports whether a resource came about by somebody else, or by a request
// that arrived late, or lost its machine to somebody else, and its Cluster does not
// live any more: no collector may take it then (docs/proof.md).
func (c *Checker) strayed(r sim.Resource) bool {
	if !c.unasked[r.ID] && !c.isTaken(r) || !tagged(r) {
		return false
	}
	for _, s := range c.Homes {
		if at, here := c.active[place{s, r.Tags[machinev1.ClusterIDTag]}]; here && at.paused.IsZero() {
			return false
		}
	}
	return true
}

// Describe is an object in a few words.
func Describe(o client.Object) string {
	state := ""
	if !o.GetDeletionTimestamp().IsZero() {
		state = " going"
	}
	switch o := o.(type) {
	case *machinev1.Machine:
		state += fmt.Sprintf(" %s owner=%s class=%s vm=%s node=%s: %s", o.Status.CurrentStatus.Phase, ownerName(o),
			o.Spec.Class.Name,
			o.Spec.ProviderID, o.Labels[machinev1.NodeLabel], o.Status.LastOperation.Description)
	case *machinev1.MachineSet:
		state += fmt.Sprintf(" replicas=%d of %d available=%d owner=%s labels=%v annotations=%v", o.Status.Replicas,
			o.Spec.Replicas, o.Status.AvailableReplicas, ownerName(o), o.Labels, o.Annotations)
	case *machinev1.MachineDeployment:
		state += fmt.Sprintf(" replicas=%d of %d available=%d paused=%v labels=%v", o.Status.Replicas, o.Spec.Replicas,
			o.Status.AvailableReplicas, o.Spec.Paused, o.Labels)
	case *infrav1.MCMMachine:
		state += fmt.Sprintf(" owner=%s class=%s vm=%s annotations=%v", ownerName(o), o.Spec.MachineClassRef.Name,
			o.Spec.ProviderID, o.Annotations)
		for _, c := range o.Status.Conditions {
			state += fmt.Sprintf(" %s=%s(%s)", c.Type, c.Status, c.Reason)
		}
	case *clusterv1.Machine:
		state += fmt.Sprintf(" owner=%s vm=%s node=%s", ownerName(o), o.Spec.ProviderID, o.Status.NodeRef.Name)
	case *clusterv1.Cluster:
		state += fmt.Sprintf(" paused=%v", o.Spec.Paused != nil && *o.Spec.Paused)
	case *corev1.Node:
		state += fmt.Sprintf(" %s unschedulable=%v", o.Spec.ProviderID, o.Spec.Unschedulable)
		for _, c := range o.Status.Conditions {
			state += fmt.Sprintf(" %s=%s", c.Type, c.Status)
		}
	case *corev1.Pod:
		state += " on " + o.Spec.NodeName
	}
	return fmt.Sprintf("%T %s@%s%s", o, client.ObjectKeyFromObject(o), o.GetResourceVersion(), state)
}

func ownerName(o client.Object) string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return ref.Name
	}
	return ""
}
