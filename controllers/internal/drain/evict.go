package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Reasons that only a drain knows.
const (
	// ReasonBudgetMisconfigured names a disruption budget that can never allow an eviction.
	ReasonBudgetMisconfigured = "PodDisruptionBudgetMisconfigured"
	// ReasonEvictionFailed is an eviction that failed for another reason than a disruption budget.
	ReasonEvictionFailed = "EvictionFailed"
	// ReasonPodOverdue is a pod that lives longer than its grace period.
	ReasonPodOverdue = "PodOverdue"
	// ReasonReattachingVolumes is a wait for volumes to arrive at another node.
	ReasonReattachingVolumes = "ReattachingVolumes"
)

// release evicts a pod if it is time to, and reports whether it is on its way. A
// pod whose eviction a disruption budget refuses more often than allowed is
// deleted, except if the budget can never allow it: that is for its owner to
// correct before the drain's time is up.
func (p *pass) release(ctx context.Context, pod *corev1.Pod) (bool, error) {
	a := p.memory.attempt(pod)
	if p.now.Before(a.next) {
		return a.accepted, nil
	}
	budgets, err := p.budgetsOf(ctx, pod)
	if err != nil {
		return false, err
	}
	err = p.refusedAlready(pod, budgets)
	if err == nil {
		err = p.evict(ctx, pod)
	}
	*a = attempt{next: p.now.Add(retryInterval), refusals: a.refusals}
	switch {
	case err == nil || gone(err):
		a.accepted = true
	case refused(err):
		p.refuse(a, pod, budgets)
		if a.refusals > max(p.request.MaxEvictRetries, 0) {
			return p.deleteInstead(ctx, pod, a)
		}
	case unreachable(err):
		return false, fmt.Errorf("evicting pod %s: %w", name(pod), err)
	default:
		a.reason, a.problem = ReasonEvictionFailed, failure(pod, budgets, err)
	}
	return a.accepted, nil
}

// deleteInstead ends a pod whose eviction was refused too often.
func (p *pass) deleteInstead(ctx context.Context, pod *corev1.Pod, a *attempt) (bool, error) {
	err := p.remove(ctx, pod)
	switch {
	case err == nil:
		a.accepted, a.reason, a.problem = true, "", ""
	case unreachable(err):
		return false, fmt.Errorf("deleting pod %s: %w", name(pod), err)
	default:
		a.reason, a.problem = ReasonEvictionFailed, fmt.Sprintf("pod %s cannot be deleted: %v", name(pod), err)
	}
	return a.accepted, nil
}

// evict asks the API server to let the pod go. The UID keeps a stale cache from
// evicting a namesake on another node.
func (p *pass) evict(ctx context.Context, pod *corev1.Pod) error {
	meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}
	return p.drainer.target.Client.SubResource("eviction").Create(ctx, &corev1.Pod{ObjectMeta: meta}, &policyv1.Eviction{
		ObjectMeta:    meta,
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}

// remove deletes the pod without grace. Nil if it is gone.
func (p *pass) remove(ctx context.Context, pod *corev1.Pod) error {
	uid := pod.UID
	err := p.drainer.target.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace,
		Name:      pod.Name,
	}},
		client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	if gone(err) {
		return nil
	}
	return err
}

// errRefused stands for an answer that is known without asking.
var errRefused = apierrors.NewTooManyRequests("refused by a disruption budget", 0)

// refusedAlready spares calls whose answer is known: a budget that refused one
// healthy pod in this pass refuses the next one too, and one whose status is
// behind its spec refuses all, with a request to wait that the client library
// would sleep through.
func (p *pass) refusedAlready(pod *corev1.Pod, budgets []budget) error {
	if !running(pod) {
		return nil // budgets do not protect it
	}
	for _, b := range budgets {
		if !b.observed() || (p.spent[b.key()] && ready(pod)) {
			return errRefused
		}
	}
	return nil
}

// refuse notes that disruption budgets keep the pod.
func (p *pass) refuse(a *attempt, pod *corev1.Pod, budgets []budget) {
	if p.spent == nil {
		p.spent = map[types.NamespacedName]bool{}
	}
	if len(budgets) == 1 && ready(pod) {
		p.spent[budgets[0].key()] = true
	}
	if i := slices.IndexFunc(budgets, budget.misconfigured); i >= 0 {
		b := budgets[i]
		a.reason = ReasonBudgetMisconfigured
		a.problem = fmt.Sprintf("pod %s: PodDisruptionBudget %s is misconfigured and requires zero voluntary evictions (%d "+
			"of %d pods); lower minAvailable or raise maxUnavailable",
			name(pod), b.Name, b.Status.DesiredHealthy, b.Status.ExpectedPods)
		return
	}
	a.refusals++
	a.reason = machinev1.ReasonEvictionDenied
	a.problem = fmt.Sprintf("pod %s: its eviction is denied by a disruption budget", name(pod))
	if len(budgets) == 1 {
		b := budgets[0]
		a.problem = fmt.Sprintf("pod %s: PodDisruptionBudget %s allows no eviction now (%d of %d pods are healthy, %d "+
			"are needed)",
			name(pod), b.Name, b.Status.CurrentHealthy, b.Status.ExpectedPods, b.Status.DesiredHealthy)
	}
}

// failure describes an eviction that failed. The API server refuses pods that
// two budgets select, with an error that names neither.
func failure(pod *corev1.Pod, budgets []budget, err error) string {
	if len(budgets) > 1 {
		return fmt.Sprintf("pod %s is selected by %d PodDisruptionBudgets (%s), which the eviction API does not support; "+
			"leave one",
			name(pod), len(budgets), names(budgets))
	}
	return fmt.Sprintf("pod %s cannot be evicted: %v", name(pod), err)
}

// refused reports whether a disruption budget said no. A busy API server also
// answers 429, with a time to wait and without that cause.
func refused(err error) bool {
	if !apierrors.IsTooManyRequests(err) {
		return false
	}
	_, wait := apierrors.SuggestsClientDelay(err)
	return !wait || apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

// gone says that there is no such pod any more; a conflict is the UID's.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// unreachable reports whether the error is about the API server rather than the
// pod, so that the next pod would fail in the same way.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	switch status.Status().Reason {
	case metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonUnauthorized:
		return true
	default:
		return false
	}
}

// running reports whether disruption budgets protect the pod: the API server lets
// pending and finished ones go.
func running(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return false
	case corev1.PodRunning, corev1.PodUnknown:
		return true
	}
	return true
}

func ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
