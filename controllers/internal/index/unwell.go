package index

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// NodeUnwell is on Node: Unwell for those of which anything may be wrong, so that
// an outage is found without a look at each node.
const NodeUnwell = "index.unwell"

// Unwell is the one value of NodeUnwell.
const Unwell = "true"

// Deleting is the one value of NodeDeleting.
const Deleting = "true"

// deleting reports whether an object is being deleted.
func deleting(o client.Object) []string {
	if o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return []string{Deleting}
}

// Unknown is the one value of MachineUnknown.
const Unknown = "true"

// unknown reports whether a Machine with a node is Unknown.
func unknown(o client.Object) []string {
	m := o.(*machinev1.Machine)
	if m.Status.CurrentStatus.Phase != machinev1.MachineUnknown || m.Labels[machinev1.NodeLabel] == "" {
		return nil
	}
	return []string{Unknown}
}

// unwell reports whether anything may be wrong with a node: more than what a
// machine's settings call unhealthy, never less.
func unwell(o client.Object) []string {
	conditions := o.(*corev1.Node).Status.Conditions
	bad := len(conditions) == 0
	for _, c := range conditions {
		good := corev1.ConditionFalse
		if c.Type == corev1.NodeReady {
			good = corev1.ConditionTrue
		}
		bad = bad || c.Status != good
	}
	if !bad {
		return nil
	}
	return []string{Unwell}
}
