package inplaceupdate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// drainRules are the MachineDrainRules that count for a Machine, by name.
type drainRules struct {
	rules      []clusterv1.MachineDrainRule
	namespaces map[string]map[string]string // labels of the workload cluster's namespaces; nil if no rule asks for them
}

// rules reads the MachineDrainRules of the Machine's namespace that apply to it.
func (e *Extension) rules(ctx context.Context, u *update) (drainRules, error) {
	var list clusterv1.MachineDrainRuleList
	if err := e.Live.List(ctx, &list, client.InNamespace(u.machine.Namespace)); err != nil {
		return drainRules{}, fmt.Errorf("list MachineDrainRules: %w", err)
	}
	if len(list.Items) == 0 {
		return drainRules{}, nil
	}
	var cluster clusterv1.Cluster
	if err := e.Live.Get(ctx, client.ObjectKey{Namespace: u.machine.Namespace, Name: u.machine.Spec.ClusterName},
		&cluster); err != nil {
		return drainRules{}, fmt.Errorf("read Cluster %s: %w", u.machine.Spec.ClusterName, err)
	}
	var applicable drainRules
	for _, r := range list.Items {
		applies, err := ofMachine(r.Spec.Machines, u.machine.Labels, cluster.Labels)
		if err != nil {
			return drainRules{}, fmt.Errorf("MachineDrainRule %s: %w", r.Name, err)
		}
		if applies {
			applicable.rules = append(applicable.rules, r)
		}
	}
	slices.SortFunc(applicable.rules, func(a, b clusterv1.MachineDrainRule) int { return strings.Compare(a.Name, b.Name) })
	return applicable, applicable.readNamespaces(ctx, u.cluster)
}

// readNamespaces reads the labels of namespaces if a rule selects by them.
func (b *drainRules) readNamespaces(ctx context.Context, workload client.Reader) error {
	if !slices.ContainsFunc(b.rules, func(r clusterv1.MachineDrainRule) bool {
		return slices.ContainsFunc(r.Spec.Pods, func(s clusterv1.MachineDrainRulePodSelector) bool {
			return s.NamespaceSelector != nil
		})
	}) {
		return nil
	}
	var list corev1.NamespaceList
	if err := workload.List(ctx, &list); err != nil {
		return fmt.Errorf("list the namespaces of the workload cluster: %w", err)
	}
	b.namespaces = map[string]map[string]string{}
	for i := range list.Items {
		b.namespaces[list.Items[i].Name] = list.Items[i].Labels
	}
	return nil
}

// of is how a pod leaves: as its label says, else the first rule that selects it,
// else by eviction.
func (b drainRules) of(pod *corev1.Pod) (drainedPod, error) {
	d := drainedPod{pod: pod, behavior: clusterv1.MachineDrainRuleDrainBehaviorDrain}
	for _, known := range []clusterv1.MachineDrainRuleDrainBehavior{
		clusterv1.MachineDrainRuleDrainBehaviorSkip, clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted,
	} {
		if strings.EqualFold(strings.Replace(pod.Labels[clusterv1.PodDrainLabel], "-", "", 1), string(known)) {
			d.behavior = known
			return d, nil
		}
	}
	for _, r := range b.rules {
		applies, err := ofPod(r.Spec.Pods, pod.Labels, b.namespaces[pod.Namespace])
		if err != nil {
			return d, fmt.Errorf("MachineDrainRule %s: %w", r.Name, err)
		}
		if !applies {
			continue
		}
		d.behavior = r.Spec.Drain.Behavior
		if r.Spec.Drain.Order != nil {
			d.order = *r.Spec.Drain.Order
		}
		return d, nil
	}
	return d, nil
}

// ofMachine reports whether a rule applies to a Machine; one that selects none
// applies to all.
func ofMachine(selectors []clusterv1.MachineDrainRuleMachineSelector, machine, cluster map[string]string) (bool,
	error,
) {
	for _, s := range selectors {
		if both, err := selects(s.Selector, machine, s.ClusterSelector, cluster); both || err != nil {
			return both, err
		}
	}
	return len(selectors) == 0, nil
}

// ofPod is ofMachine for pods.
func ofPod(selectors []clusterv1.MachineDrainRulePodSelector, pod, namespace map[string]string) (bool, error) {
	for _, s := range selectors {
		if both, err := selects(s.Selector, pod, s.NamespaceSelector, namespace); both || err != nil {
			return both, err
		}
	}
	return len(selectors) == 0, nil
}

// selects reports whether both selectors match; a nil one matches everything.
func selects(one *metav1.LabelSelector, a map[string]string, other *metav1.LabelSelector, b map[string]string) (bool,
	error,
) {
	for _, x := range []struct {
		selector *metav1.LabelSelector
		labels   map[string]string
	}{{one, a}, {other, b}} {
		if x.selector == nil {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(x.selector)
		if err != nil {
			return false, err
		}
		if !s.Matches(labels.Set(x.labels)) {
			return false, nil
		}
	}
	return true, nil
}
