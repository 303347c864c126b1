package externalcontrolplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// report writes the status if it has changed, and emits Events for what the user has to
// correct.
func (c *Controller) report(ctx context.Context, f *facts) error {
	if f.paused == "" && f.cp.DeletionTimestamp.IsZero() {
		f.recheck()
	}
	changed := f.cp.DeepCopy()
	changed.Status = statusOf(f)
	if equality.Semantic.DeepEqual(f.cp.Status, changed.Status) {
		return nil
	}
	if err := patch.Status(ctx, c.Client, f.cp, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of MCMExternalControlPlane: %w", err)
	}
	c.announce(f, changed)
	return nil
}

// announce emits Events for the conditions that have changed and that the user has to act
// on.
func (c *Controller) announce(f *facts, changed *controlplanev1.MCMExternalControlPlane) {
	kinds := []string{controlplanev1.KubeletVersionsMatchCondition, controlplanev1.VersionReachedCondition}
	switch {
	case !f.cp.DeletionTimestamp.IsZero():
		kinds = []string{clusterv1.DeletingCondition}
	case f.problem != nil && f.problem.bad:
		kinds = append(kinds, controlplanev1.KubeconfigReadyCondition)
	}
	for _, kind := range kinds {
		c.tell(changed, f.cp.Status.Conditions, kind)
	}
}

// tell emits an Event for a condition that has become False or has another message, or
// that reports what a deletion waits for.
func (c *Controller) tell(cp *controlplanev1.MCMExternalControlPlane, before []metav1.Condition, kind string) {
	was, is := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(cp.Status.Conditions, kind)
	if is != nil && (is.Status == metav1.ConditionFalse || kind == clusterv1.DeletingCondition) &&
		(was == nil || was.Message != is.Message) {
		c.Events.Event(cp, corev1.EventTypeWarning, is.Reason, is.Message)
	}
}

// recheck plans the next pass, which no event may cause.
func (f *facts) recheck() {
	switch {
	case f.connected:
		f.sooner(f.versionRecheck())
	case f.reconnecting():
		f.sooner(silence - f.answered)
	}
}

func (f *facts) sooner(d time.Duration) {
	if f.wait == 0 || d < f.wait {
		f.wait = d
	}
}

// statusOf derives the status from what was seen.
func statusOf(f *facts) controlplanev1.MCMExternalControlPlaneStatus {
	out := *f.cp.Status.DeepCopy()
	set := func(condition metav1.Condition) {
		capi.SetCondition(&out.Conditions, condition, f.cp.Generation, f.now)
	}
	set(capi.PausedCondition(f.paused))
	switch {
	case f.paused != "":
		return out
	case !f.cp.DeletionTimestamp.IsZero():
		set(deletingCondition(f))
		return out
	}
	out.ExternalManagedControlPlane = new(true)
	if f.connected {
		out.Initialization.ControlPlaneInitialized = new(true)
	}
	f.reportVersion(&out)
	kubeconfig, available := kubeconfigCondition(f), availableCondition(f)
	set(available)
	if !f.failed {
		set(kubeconfig)
		set(readyCondition(kubeconfig, available))
	}
	if f.cluster != nil {
		set(versionsCondition(f.machines))
	}
	if f.cluster != nil && !f.reconnecting() {
		set(reachedCondition(f))
	}
	return out
}

func kubeconfigCondition(f *facts) metav1.Condition {
	if f.problem != nil {
		return condition(controlplanev1.KubeconfigReadyCondition, metav1.ConditionFalse, f.problem.reason, f.problem.message)
	}
	return condition(controlplanev1.KubeconfigReadyCondition, metav1.ConditionTrue, controlplanev1.ReasonKubeconfigReady,
		"")
}

// deletingCondition reports what the deletion waits for.
func deletingCondition(f *facts) metav1.Condition {
	return condition(clusterv1.DeletingCondition, metav1.ConditionTrue, f.problem.reason,
		"the ServiceAccount that was created for spec.selfHosted, and its bindings, have to be removed first: "+
			f.problem.message)
}

// availableCondition reports whether the API server answers. A connection that is being
// opened again does not make it unavailable.
func availableCondition(f *facts) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(clusterv1.AvailableCondition, status, reason, message)
	}
	switch {
	case f.connected, f.reconnecting():
		return is(metav1.ConditionTrue, controlplanev1.ReasonConnected, "")
	case f.cluster == nil:
		return is(metav1.ConditionFalse, controlplanev1.ReasonWaitingForCluster, "no Cluster owns this object yet")
	case !isTrue(f.cluster.Status.Initialization.InfrastructureProvisioned):
		return is(metav1.ConditionFalse, controlplanev1.ReasonWaitingForInfra,
			"the infrastructure of the Cluster is not provisioned yet, so there is no connection to the API server")
	case f.problem != nil:
		return is(metav1.ConditionFalse, controlplanev1.ReasonNotConnected,
			"the kubeconfig is not ready, and there is no connection to the API server")
	default:
		return is(metav1.ConditionFalse, controlplanev1.ReasonNotConnected,
			"there is no connection to the API server; check that the kubeconfig's server is reachable from here, that its CA "+
				"is right, and that its user may GET / and what else docs/api/mcmexternalcontrolplane.md lists")
	}
}

func readyCondition(of ...metav1.Condition) metav1.Condition {
	for _, c := range of {
		if c.Status != metav1.ConditionTrue {
			return condition(clusterv1.ReadyCondition, metav1.ConditionFalse, c.Reason, c.Type+": "+c.Message)
		}
	}
	return condition(clusterv1.ReadyCondition, metav1.ConditionTrue, clusterv1.ReadyReason, "")
}

// versionsCondition compares spec.version of Machines with the versions of their kubelets.
// Cluster API compares the strings, and never considers a Machine up to date whose
// strings differ: its rollout never completes.
func versionsCondition(machines []clusterv1.Machine) metav1.Condition {
	const told = 3
	var differ []clusterv1.Machine
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() && m.Status.NodeInfo != nil && m.Status.NodeInfo.KubeletVersion != "" &&
			m.Status.NodeInfo.KubeletVersion != m.Spec.Version {
			differ = append(differ, m)
		}
	}
	if len(differ) == 0 {
		return condition(controlplanev1.KubeletVersionsMatchCondition, metav1.ConditionTrue,
			controlplanev1.ReasonVersionsMatch, "")
	}
	slices.SortFunc(differ, func(a, b clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	var text []string
	for _, m := range differ[:min(told, len(differ))] {
		text = append(text, fmt.Sprintf("Machine %q has spec.version %q, and its kubelet is %q", m.Name, m.Spec.Version,
			m.Status.NodeInfo.KubeletVersion))
	}
	if more := len(differ) - told; more > 0 {
		text = append(text, fmt.Sprintf("and %d more Machines", more))
	}
	text = append(text, "set spec.template.spec.version of their MachineDeployment to the kubelet's, or boot that version")
	return condition(controlplanev1.KubeletVersionsMatchCondition, metav1.ConditionFalse,
		controlplanev1.ReasonVersionsDiffer, strings.Join(text, "; "))
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
