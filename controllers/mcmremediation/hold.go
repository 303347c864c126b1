package mcmremediation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// heldCheck is when a remediation that is held looks again at what no watch shows.
const heldCheck = 30 * time.Second

// leaveAlone ends the pass for what is paused, gone or going.
func (c *Controller) leaveAlone(_ context.Context, p *pass) (bool, error) {
	switch m := p.seen.machine; {
	case p.seen.paused != "":
		return true, nil
	case m == nil:
		p.set(infrav1.RemediationPending, infrav1.ReasonWaitingForMachine, "There is no Machine "+p.object.Name)
		return true, nil
	case !m.DeletionTimestamp.IsZero() || p.seen.infra != nil && !p.seen.infra.DeletionTimestamp.IsZero():
		p.set(infrav1.RemediationReplacing, infrav1.ReasonMachineDeleting, "The Machine is being deleted")
		return true, nil
	}
	return false, nil
}

// hold waits while a reboot would disturb somebody, or is known not to help.
func (c *Controller) hold(ctx context.Context, p *pass) (bool, error) {
	if why := heldBy(p); why != "" {
		p.set(infrav1.RemediationPending, infrav1.ReasonRemediationHeld, why)
		return true, nil
	}
	if p.seen.cluster != nil && conditions.IsFalse(p.seen.cluster, clusterv1.ClusterRemoteConnectionProbeCondition) {
		p.did.requeue = heldCheck
		p.set(infrav1.RemediationPending, infrav1.ReasonNotReachable, "The API server of the workload cluster cannot be "+
			"reached, so nothing is known about the node; the remediation goes on when it can be")
		return true, nil
	}
	if handedOver(p.seen.machine) || c.Options.IgnoreOutages {
		return false, nil
	}
	found, err := c.findOutage(ctx, p)
	if err != nil || found == "" {
		return false, err
	}
	p.did.requeue = heldCheck
	p.set(infrav1.RemediationPending, infrav1.ReasonOutage, found)
	return true, nil
}

// heldBy returns what a person or an update wants to have left alone; empty for nothing.
func heldBy(p *pass) string {
	m := p.seen.machine
	switch {
	case annotations.HasSkipRemediation(m):
		return "The Machine has the annotation " + clusterv1.MachineSkipRemediationAnnotation
	case updating(m) && !updateFailed(m):
		return "The Machine is being updated in place; the remediation goes on when that has ended"
	case p.seen.infra != nil && hasAnnotation(p.seen.infra, machinev1.HoldAnnotation):
		return "The MCMMachine has the annotation " + machinev1.HoldAnnotation
	}
	return ""
}

func hasAnnotation(o client.Object, key string) bool {
	_, there := o.GetAnnotations()[key]
	return there
}

// findOutage returns what says that nodes of the same zone or pool became unhealthy together;
// empty if none did. No reboot fixes a partition.
func (c *Controller) findOutage(ctx context.Context, p *pass) (string, error) {
	var machines clusterv1.MachineList
	err := c.Client.List(ctx, &machines, client.InNamespace(p.object.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: p.seen.machine.Spec.ClusterName})
	if err != nil {
		return "", fmt.Errorf("list the Machines of Cluster %s: %w", p.seen.machine.Spec.ClusterName, err)
	}
	var losses []brake.Loss
	own := signsOf(p.seen.machine)
	for i := range machines.Items {
		if m := &machines.Items[i]; m.DeletionTimestamp.IsZero() {
			if signs := near(own, signsOf(m)); len(signs) > 0 {
				losses = append(losses, brake.Loss{Place: placeOf(m), Signs: signs})
			}
		}
	}
	found := brake.Around(placeOf(p.seen.machine), losses, brake.Window, p.seen.now.Add(-c.Options.OutageLimit))
	if found == (brake.Outage{}) {
		return "", nil
	}
	where := "pool " + found.Pool
	if found.Zone != "" {
		where = "zone " + found.Zone
	}
	return fmt.Sprintf("%d nodes of %s became unhealthy together, which no reboot fixes; the remediation goes on when "+
		"they are healthy, or %v after that", found.Nodes, where, c.Options.OutageLimit), nil
}

// near are the signs that began together with the same ones of this Machine: an outage that has
// spared it says nothing about it.
func near(own, signs map[string]time.Time) map[string]time.Time {
	maps.DeleteFunc(signs, func(kind string, at time.Time) bool {
		mine, there := own[kind]
		return !there || at.Sub(mine).Abs() > brake.Window
	})
	return signs
}

// signsOf are the conditions that make a Machine that had a node unhealthy, and since when.
func signsOf(m *clusterv1.Machine) map[string]time.Time {
	signs := map[string]time.Time{}
	for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition} {
		if found := conditions.Get(m, kind); m.Status.NodeRef.IsDefined() && found != nil && found.Status != "True" {
			signs[kind] = found.LastTransitionTime.Time
		}
	}
	return signs
}

// placeOf is the failure domain of a Machine, and its MachineDeployment, or else its MachineSet or control plane.
func placeOf(m *clusterv1.Machine) brake.Place {
	return brake.Place{Zone: m.Spec.FailureDomain, Pool: cmp.Or(m.Labels[clusterv1.MachineDeploymentNameLabel],
		m.Labels[clusterv1.MachineSetNameLabel], m.Labels[clusterv1.MachineControlPlaneNameLabel])}
}

// updating reports whether the Machine is being updated in place.
func updating(m *clusterv1.Machine) bool {
	return hasAnnotation(m, clusterv1.UpdateInProgressAnnotation) || hasAnnotation(m, runtimev1.PendingHooksAnnotation)
}
