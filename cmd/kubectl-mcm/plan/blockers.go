package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	classes "github.com/capmcm/cluster-api-provider-mcm/controllers/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/forecast"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// notThere is said of what new machines are made of.
const notThere = "does not exist, and is in none of the files; no machine can be made of it"

// usable blocks a change whose machines get a class that is missing or invalid: its driver judges it, as
// in validate. Its Secrets are left out, which a reader may not read.
func (v *verdict) usable(ctx context.Context, name string) {
	key := client.ObjectKey{Namespace: v.Object.Namespace, Name: name}
	class := v.classes[key]
	if class == nil {
		class = &machinev1.MachineClass{}
		err := v.api.Get(ctx, key, class)
		if apierrors.IsNotFound(err) {
			v.block(machinev1.MachineClassKind, name, notThere)
			return
		}
		if err != nil {
			v.unread("MachineClass "+name, err)
			return
		}
	}
	check, err := classes.CheckObject(ctx, v.drivers, noSecrets{class}, class)
	if err != nil {
		v.unread("MachineClass "+name, err)
		return
	}
	for _, problem := range check.Spec {
		if problem.Severity >= cloud.BlocksCreate {
			v.block(machinev1.MachineClassKind, name, problem.Field+": "+problem.Message)
		}
	}
}

// noSecrets is a reader that has one class, and no Secrets.
type noSecrets struct{ class *machinev1.MachineClass }

// Get is that of a client.
func (n noSecrets) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if class, ok := into.(*machinev1.MachineClass); ok && key.Name == n.class.Name {
		n.class.DeepCopyInto(class)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List is that of a client.
func (noSecrets) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// inTheWay are the concerns of machines that those of the same class will share.
var inTheWay = []explain.Concern{
	explain.Capacity, explain.Quota, explain.ClassField, explain.Credentials, explain.SecretKey,
}

// capacity blocks a change whose machines get classes that machines wait for in vain already: the last
// look at the cloud says so, in their conditions.
func (v *verdict) capacity(classes []string) {
	found := map[string]*explain.Finding{}
	waiting := map[string]int{}
	for _, o := range v.facts.Objects {
		if o.Kind != explain.KindMachine && o.Kind != explain.KindMCMMachine || !slices.Contains(classes, o.Class) {
			continue
		}
		lacks := v.facts.Why(o).Missing
		if lacks == nil || !slices.Contains(inTheWay, lacks.Concern) {
			continue
		}
		key := o.Class + " " + lacks.Reason
		found[key] = lacks
		waiting[key]++
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		class, reason, _ := strings.Cut(key, " ")
		v.block(string(found[key].Concern), class, fmt.Sprintf("%s of MachineClass %s: %s: %s; %s",
			count(waiting[key], "machine"), class, reason, found[key].Meaning, found[key].Remedy))
	}
}

// estimate tells how long it takes: the rounds in which machines join, each as long as the machines of
// the pool have needed.
func (v *verdict) estimate(api explain.API) {
	top, _ := v.facts.Top([]string{v.Object.Name}, nil)
	for i := range top.Items {
		l := &top.Items[i]
		if l.API != api || l.Object.Kind != v.Object.Kind || l.JoinP50 == nil {
			continue
		}
		v.Rollout.JoinSeconds = l.JoinP50
		if v.Rollout.Rounds > 0 && v.Machines.Updated == 0 { // how long updates in place take is not observed
			v.Rollout.Seconds = new(*l.JoinP50 * float64(v.Rollout.Rounds))
		}
	}
}

// drain blocks a change that drains nodes with pods which a PodDisruptionBudget does not give up now.
func (v *verdict) drain(ctx context.Context) {
	nodes := map[string]bool{}
	for _, name := range v.Machines.Drained {
		for _, o := range v.facts.Find(explain.KindMachine, name) {
			if o.API == v.API && o.Node != "" {
				nodes[o.Node] = true
			}
		}
	}
	if len(nodes) == 0 {
		return
	}
	v.readBudgets(ctx)
	for i := range v.budgets {
		b := &v.budgets[i]
		pods, held := v.heldBy(b, nodes)
		if pods > 0 {
			v.block("PodDisruptionBudget", b.Namespace+"/"+b.Name, fmt.Sprintf("allows no disruption now, and covers %s on "+
				"%s to be drained: %s", count(pods, "pod"), count(len(held), "node"), strings.Join(held, ", ")))
		}
	}
}

// heldBy returns how many pods of nodes a budget does not give up, and which nodes these are.
func (p *planner) heldBy(b *policyv1.PodDisruptionBudget, nodes map[string]bool) (pods int, names []string) {
	held := map[string]bool{}
	all := p.pods[b.Namespace+"/"+b.Name]
	for i := range all {
		if nodes[all[i].Spec.NodeName] && refuses(b, &all[i]) {
			held[all[i].Spec.NodeName] = true
			pods++
		}
	}
	return pods, slices.Sorted(maps.Keys(held))
}

// refuses reports whether a budget without disruptions keeps a drain from evicting a pod.
func refuses(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	if !forecast.Evicts(pod) || pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != "" {
		return false // a pod that has ended or does not run yet is evicted at any time
	}
	policy := b.Spec.UnhealthyPodEvictionPolicy
	if policy == nil || *policy != policyv1.AlwaysAllow {
		return true
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// readBudgets reads the PodDisruptionBudgets that allow no disruption, and their pods, once.
func (p *planner) readBudgets(ctx context.Context) {
	if p.blockers {
		return
	}
	p.blockers = true
	list := &policyv1.PodDisruptionBudgetList{}
	if err := p.Target.List(ctx, list); err != nil {
		p.unread("PodDisruptionBudgets, so that what keeps nodes from being drained is not known", err)
		return
	}
	for i := range list.Items {
		b := &list.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		pods := &corev1.PodList{}
		if err := p.Target.List(ctx, pods, client.InNamespace(b.Namespace),
			client.MatchingLabelsSelector{Selector: selector}); err != nil {
			p.unread("Pods, so that what keeps nodes from being drained is not known", err)
			return
		}
		p.budgets = append(p.budgets, *b)
		p.pods[b.Namespace+"/"+b.Name] = pods.Items
	}
}
