package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Condition reasons of a drain, besides those in package machinev1.
const (
	// ReasonBudgetMisconfigured: a PodDisruptionBudget can never allow an eviction.
	ReasonBudgetMisconfigured = "PodDisruptionBudgetMisconfigured"
	// ReasonEvictionFailed: an eviction failed, not because of a PodDisruptionBudget.
	ReasonEvictionFailed = "EvictionFailed"
	// ReasonPodOverdue: a pod still runs after its grace period.
	ReasonPodOverdue = "PodOverdue"
	// ReasonReattachingVolumes: the drain waits for volumes to be attached to another node.
	ReasonReattachingVolumes = "ReattachingVolumes"
)

// evictIfDue evicts a pod if an attempt is due, and reports whether the eviction was
// accepted. A pod whose eviction is refused more often than MaxEvictRetries is
// deleted, unless the disruption budget can never allow it: its owner has until the
// drain timeout to correct it.
func (p *pass) evictIfDue(ctx context.Context, pod *corev1.Pod) (bool, error) {
	a := p.state.attempt(pod)
	if p.now.Before(a.next) {
		return a.accepted, nil
	}
	budgets, err := p.budgetsOf(ctx, pod)
	if err != nil {
		return false, err
	}
	err = p.knownRefusal(pod, budgets)
	if err == nil {
		err = p.evict(ctx, pod)
	}
	*a = attempt{next: p.now.Add(retryInterval), refusals: a.refusals}
	switch {
	case err == nil || isGone(err):
		a.accepted = true
	case isRefusal(err):
		p.recordRefusal(a, pod, budgets)
		if a.refusals > max(p.request.MaxEvictRetries, 0) {
			return p.deleteInstead(ctx, pod, a)
		}
	case isServerError(err):
		return false, fmt.Errorf("evicting pod %s: %w", name(pod), err)
	default:
		a.reason, a.problem = ReasonEvictionFailed, failure(pod, budgets, err)
	}
	return a.accepted, nil
}

// deleteInstead deletes a pod whose eviction was refused too often.
func (p *pass) deleteInstead(ctx context.Context, pod *corev1.Pod, a *attempt) (bool, error) {
	err := p.deletePod(ctx, pod)
	switch {
	case err == nil:
		a.accepted, a.reason, a.problem = true, "", ""
	case isServerError(err):
		return false, fmt.Errorf("deleting pod %s: %w", name(pod), err)
	default:
		a.reason, a.problem = ReasonEvictionFailed, fmt.Sprintf("pod %s cannot be deleted: %v", name(pod), err)
	}
	return a.accepted, nil
}

// evict evicts the pod. The UID is a precondition: with a stale cache, the name may be
// that of another pod on another node.
func (p *pass) evict(ctx context.Context, pod *corev1.Pod) error {
	meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}
	return p.drainer.target.Client.SubResource("eviction").Create(ctx, &corev1.Pod{ObjectMeta: meta}, &policyv1.Eviction{
		ObjectMeta:    meta,
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}

// deletePod deletes the pod without a grace period. It returns nil if the pod is gone.
func (p *pass) deletePod(ctx context.Context, pod *corev1.Pod) error {
	uid := pod.UID
	err := p.drainer.target.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace,
		Name:      pod.Name,
	}},
		client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	if isGone(err) {
		return nil
	}
	return err
}

// errRefused stands for a refusal that is known without a request.
var errRefused = apierrors.NewTooManyRequests("refused by a disruption budget", 0)

// knownRefusal returns errRefused where the answer is known, to save the request: a
// budget that has refused one healthy pod in this pass refuses the next one too. A
// budget whose status is behind its spec refuses all pods, with a delay for which
// the client library would block.
func (p *pass) knownRefusal(pod *corev1.Pod, budgets []budget) error {
	if !running(pod) {
		return nil // budgets do not apply to it
	}
	for _, b := range budgets {
		if !b.observed() || (p.exhausted[b.key()] && ready(pod)) {
			return errRefused
		}
	}
	return nil
}

// recordRefusal records that disruption budgets have refused the eviction.
func (p *pass) recordRefusal(a *attempt, pod *corev1.Pod, budgets []budget) {
	if p.exhausted == nil {
		p.exhausted = map[types.NamespacedName]bool{}
	}
	if len(budgets) == 1 && ready(pod) {
		p.exhausted[budgets[0].key()] = true
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
			"are required)",
			name(pod), b.Name, b.Status.CurrentHealthy, b.Status.ExpectedPods, b.Status.DesiredHealthy)
	}
}

// failure returns the message for an eviction that has failed. The API server refuses
// a pod that two budgets select, with an error that names neither.
func failure(pod *corev1.Pod, budgets []budget, err error) string {
	if len(budgets) > 1 {
		return fmt.Sprintf("pod %s is selected by %d PodDisruptionBudgets (%s), which the eviction API does not support; "+
			"leave one",
			name(pod), len(budgets), names(budgets))
	}
	return fmt.Sprintf("pod %s cannot be evicted: %v", name(pod), err)
}

// isRefusal reports whether a disruption budget has refused the eviction. A busy API
// server answers 429 too, with a delay and without that cause.
func isRefusal(err error) bool {
	if !apierrors.IsTooManyRequests(err) {
		return false
	}
	_, wait := apierrors.SuggestsClientDelay(err)
	return !wait || apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

// isGone reports whether the pod does not exist any more. A conflict means that its
// name has another UID.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// isServerError reports whether the error is about the API server and not about the
// pod, so that the next request would fail too.
func isServerError(err error) bool {
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

// running reports whether disruption budgets apply to the pod: the API server evicts
// pending and finished pods without them.
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

// A budget is a PodDisruptionBudget, ready to be matched.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

// budgetsOf returns all disruption budgets that select the pod, by name. A
// namespace is read once a pass.
func (p *pass) budgetsOf(ctx context.Context, pod *corev1.Pod) ([]budget, error) {
	all, known := p.budgets[pod.Namespace]
	if !known {
		var list policyv1.PodDisruptionBudgetList
		err := p.drainer.target.Client.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing the disruption budgets of namespace %s: %w", pod.Namespace, err)
		}
		all = parse(list.Items)
		if p.budgets == nil {
			p.budgets = map[string][]budget{}
		}
		p.budgets[pod.Namespace] = all
	}
	var found []budget
	for _, b := range all {
		if b.selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, b)
		}
	}
	return found, nil
}

// parse leaves out budgets with an invalid selector: they select no pods.
func parse(items []policyv1.PodDisruptionBudget) []budget {
	var all []budget
	for i := range items {
		selector, err := metav1.LabelSelectorAsSelector(items[i].Spec.Selector)
		if err == nil {
			all = append(all, budget{&items[i], selector})
		}
	}
	slices.SortFunc(all, func(a, b budget) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// misconfigured reports whether the budget can never allow an eviction: it requires
// every pod that it selects, all of them are healthy, and its status is current. Where
// it only refuses now, desiredHealthy is less than the number of pods.
func (b budget) misconfigured() bool {
	s := b.Status
	return b.observed() && s.ExpectedPods > 0 && s.CurrentHealthy >= s.ExpectedPods &&
		s.DesiredHealthy >= s.ExpectedPods && len(s.DisruptedPods) == 0 && s.DisruptionsAllowed == 0
}

// observed reports whether the status belongs to the spec.
func (b budget) observed() bool { return b.Status.ObservedGeneration >= b.Generation }

func (b budget) key() types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
}

// names returns the names of the budgets, for people.
func names(budgets []budget) string {
	var n []string
	for _, b := range budgets {
		n = append(n, b.Name)
	}
	return strings.Join(n, ", ")
}
