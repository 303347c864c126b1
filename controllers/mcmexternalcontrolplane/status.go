package mcmexternalcontrolplane

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
func (c *Controller) report(ctx context.Context, s *scope) error {
	if s.paused == "" && s.cp.DeletionTimestamp.IsZero() {
		s.recheck()
	}
	changed := s.cp.DeepCopy()
	changed.Status = statusOf(s)
	if equality.Semantic.DeepEqual(s.cp.Status, changed.Status) {
		return nil
	}
	if err := patch.Status(ctx, c.Client, s.cp, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of MCMExternalControlPlane: %w", err)
	}
	c.announce(s, changed)
	return nil
}

// announce emits Events for the conditions that have changed and that the user has to act
// on.
func (c *Controller) announce(s *scope, changed *controlplanev1.MCMExternalControlPlane) {
	kinds := []string{
		controlplanev1.KubeletVersionsMatchCondition, controlplanev1.VersionReachedCondition,
		controlplanev1.KubeconfigSafeCondition,
	}
	switch {
	case !s.cp.DeletionTimestamp.IsZero():
		kinds = []string{clusterv1.DeletingCondition}
	case s.problem != nil && s.problem.bad:
		kinds = append(kinds, controlplanev1.KubeconfigReadyCondition)
	}
	for _, kind := range kinds {
		c.tell(changed, s.cp.Status.Conditions, kind)
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
func (s *scope) recheck() {
	switch {
	case s.connected:
		s.sooner(s.versionRecheck())
	case s.reconnecting():
		s.sooner(silence - s.answered)
	}
}

func (s *scope) sooner(d time.Duration) {
	if s.wait == 0 || d < s.wait {
		s.wait = d
	}
}

// statusOf derives the status from what was seen.
func statusOf(s *scope) controlplanev1.MCMExternalControlPlaneStatus {
	out := *s.cp.Status.DeepCopy()
	set := func(condition metav1.Condition) {
		capi.SetCondition(&out.Conditions, condition, s.cp.Generation, s.now)
	}
	set(capi.PausedCondition(s.paused))
	switch {
	case s.paused != "":
		return out
	case !s.cp.DeletionTimestamp.IsZero():
		set(deletingCondition(s))
		return out
	}
	out.ExternalManagedControlPlane = new(true)
	if s.connected {
		out.Initialization.ControlPlaneInitialized = new(true)
	}
	s.reportVersion(&out)
	kubeconfig, available := kubeconfigCondition(s), availableCondition(s)
	set(available)
	if !s.failed {
		set(kubeconfig)
		set(readyCondition(kubeconfig, available))
	}
	if s.made != nil {
		set(safeCondition(s.made.Unverified()))
	}
	if s.cluster != nil {
		set(versionsCondition(s.machines))
	}
	if s.cluster != nil && !s.reconnecting() {
		set(reachedCondition(s))
	}
	return out
}

func kubeconfigCondition(s *scope) metav1.Condition {
	if s.problem != nil {
		return condition(controlplanev1.KubeconfigReadyCondition, metav1.ConditionFalse, s.problem.reason, s.problem.message)
	}
	return condition(controlplanev1.KubeconfigReadyCondition, metav1.ConditionTrue, controlplanev1.ReasonKubeconfigReady,
		"")
}

// safeCondition warns of a server that need not prove who it is: what goes there is of the same
// kubeconfig, so it is used all the same.
func safeCondition(unverified string) metav1.Condition {
	if unverified == "" {
		return condition(controlplanev1.KubeconfigSafeCondition, metav1.ConditionTrue,
			controlplanev1.ReasonKubeconfigSafe, "")
	}
	return condition(controlplanev1.KubeconfigSafeCondition, metav1.ConditionFalse,
		controlplanev1.ReasonServerNotVerified, fmt.Sprintf("the API server need not prove who it is: %s in its "+
			"kubeconfig; use https with certificate-authority-data (it is used as it is)", unverified))
}

// deletingCondition reports what the deletion waits for.
func deletingCondition(s *scope) metav1.Condition {
	return condition(clusterv1.DeletingCondition, metav1.ConditionTrue, s.problem.reason,
		"the ServiceAccount that was created for spec.selfHosted, and its bindings, have to be removed first: "+
			s.problem.message)
}

// availableCondition reports whether the API server answers. A connection that is being
// opened again does not make it unavailable.
func availableCondition(s *scope) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(clusterv1.AvailableCondition, status, reason, message)
	}
	switch {
	case s.connected, s.reconnecting():
		return is(metav1.ConditionTrue, controlplanev1.ReasonConnected, "")
	case s.cluster == nil:
		return is(metav1.ConditionFalse, controlplanev1.ReasonWaitingForCluster, "no Cluster owns this object yet")
	case !isTrue(s.cluster.Status.Initialization.InfrastructureProvisioned):
		return is(metav1.ConditionFalse, controlplanev1.ReasonWaitingForInfra,
			"the infrastructure of the Cluster is not provisioned yet, so there is no connection to the API server")
	case s.problem != nil:
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
