package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
