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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment/mdutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	classes "github.com/capmcm/cluster-api-provider-mcm/controllers/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/forecast"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machinedeployment"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machineset"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// The rules that decide.
const (
	ruleAPIServer  = "the API server judges the object"
	ruleController = "the controller does nothing before the object is corrected"
	ruleTemplate   = "native API: machines are replaced if the labels, annotations, providerID, class.name or " +
		"class.apiGroup of spec.template differ from those of every MachineSet; nodeTemplate, timeouts, limits and " +
		"class.kind change in place"
	ruleSet = "native API: a MachineSet creates and deletes machines by spec.replicas; another template is " +
		"for new machines, and only nodeTemplate, timeouts, limits and class.kind reach those that exist"
	ruleMachine = "native API: a Machine that has its VM keeps it, whatever its spec says"
	ruleClass   = "native API: an edit of a MachineClass rolls nothing: new machines get it, and those that exist " +
		"keep their VMs"
	ruleCAPI = "Cluster API: machines are replaced if version, bootstrap, infrastructureRef or failureDomain of " +
		"spec.template differ from those of every MachineSet, or spec.rollout.after has passed (mdutil, as its controller)"
	ruleMCMTemplate = "Cluster API: a template rolls nothing; a MachineDeployment that names another template does"
	ruleOther       = "an object of this kind has no machines of its own"
)

// verdict judges one change.
type verdict struct {
	*planner
	*space
	*Change
	attempt
}

// judge finds out what the controllers do.
func (v *verdict) judge(ctx context.Context, kind schema.GroupVersionKind) error {
	switch kind {
	case machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind):
		return judgeAs(v, func(before, after *machinev1.MachineDeployment) error {
			return v.nativeDeployment(ctx, before, after)
		})
	case machinev1.GroupVersion.WithKind(machinev1.MachineSetKind):
		return judgeAs(v, func(_, after *machinev1.MachineSet) error { return v.nativeSet(ctx, after) })
	case machinev1.GroupVersion.WithKind(machinev1.MachineKind):
		return judgeAs(v, func(before, after *machinev1.Machine) error { return v.nativeMachine(ctx, before, after) })
	case machinev1.GroupVersion.WithKind(machinev1.MachineClassKind):
		return judgeAs(v, func(_, after *machinev1.MachineClass) error { return v.class(ctx, after) })
	case clusterv1.GroupVersion.WithKind(explain.KindDeployment):
		return judgeAs(v, func(before, after *clusterv1.MachineDeployment) error {
			return v.capiDeployment(ctx, before, after)
		})
	case infrav1.GroupVersion.WithKind("MCMMachineTemplate"):
		v.mcmTemplate()
		return nil
	}
	v.Rule = ruleOther
	if kind.Group == clusterv1.GroupVersion.Group {
		v.Notes = append(v.Notes, fmt.Sprintf("what it does is decided for %s only: write that apiVersion",
			clusterv1.GroupVersion))
	}
	v.settle()
	return nil
}

// judgeAs calls judge with the object before and after the change; before is nil if there is none.
func judgeAs[T any, P interface {
	*T
	client.Object
}](v *verdict, judge func(before, after P) error,
) error {
	after := P(new(T))
	if err := decode(v.after, after); err != nil {
		v.refuse(ruleController, "Object", fmt.Sprintf("cannot be read: %v; correct it", err))
		return nil
	}
	var before P
	if v.before != nil {
		before = P(new(T))
		if err := decode(v.before, before); err != nil {
			return fmt.Errorf("read %s %s: %w", v.Object.Kind, v.Object.Name, err)
		}
	}
	return judge(before, after)
}

func decode(o *unstructured.Unstructured, into client.Object) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
}

// nativeDeployment plays the change of a MachineDeployment through.
func (v *verdict) nativeDeployment(ctx context.Context, before, after *machinev1.MachineDeployment) error {
	v.Rule = ruleTemplate
	if v.wrong(machinedeployment.Check(after)) {
		return nil
	}
	seen := forecast.Observed{Sets: v.Sets, Machines: v.space.Machines}
	out, err := forecast.OfDeployment(after, seen, v.now)
	if err != nil {
		v.refuse(ruleController, "Spec", err.Error())
		return nil
	}
	v.takes(&out, string(after.Spec.Strategy.Type))
	v.settle()
	if before != nil {
		v.alreadyUnderWay(before, seen)
	}
	if after.Spec.Paused {
		v.whenResumed(after, seen)
	}
	if v.makes() {
		first := after.Spec.Template.Spec.Class.Name
		v.usable(ctx, first)
		v.capacity(append([]string{first}, machinev1.FallbackClasses(after, first)...))
	}
	v.estimate(explain.Native)
	v.drain(ctx)
	return nil
}

// wrong refuses the change if the controller does, and notes what it ignores.
func (v *verdict) wrong(problems []cloud.Problem) (refused bool) {
	for _, p := range problems {
		if p.Severity == cloud.Warning {
			v.Notes = append(v.Notes, p.Field+" "+p.Message)
			continue
		}
		v.refuse(ruleController, "Spec", p.Field+" "+p.Message)
		refused = true
	}
	return refused
}

// takes takes over what a forecast says.
func (v *verdict) takes(out *forecast.Outcome, strategy string) {
	v.Machines = &Machines{
		Present: out.Present, Created: out.Created, Deleted: len(out.Deleted) + out.Discarded, Replaced: out.Replaced(),
		Updated: len(out.Updated), Synced: len(out.Synced), Drained: append(slices.Clone(out.Deleted), out.Updated...),
	}
	v.Rollout = &Rollout{
		Strategy: strategy, MaxSurge: out.Surge, MaxUnavailable: out.Unavailable, Rounds: out.Rounds, Waits: out.Waits,
	}
}

// alreadyUnderWay notes what happens without the change, too.
func (v *verdict) alreadyUnderWay(before *machinev1.MachineDeployment, seen forecast.Observed) {
	now, err := forecast.OfDeployment(before, seen, v.now)
	if err != nil || now.Created == 0 && len(now.Deleted) == 0 && len(now.Updated) == 0 {
		return
	}
	v.Notes = append(v.Notes, fmt.Sprintf("without the change, too, the controllers create %s and delete %s: the "+
		"pool is not at rest", count(now.Created, "machine"), count(len(now.Deleted), "machine")))
}

// whenResumed notes what a paused pool waits with.
func (v *verdict) whenResumed(after *machinev1.MachineDeployment, seen forecast.Observed) {
	resumed := after.DeepCopy()
	resumed.Spec.Paused = false
	out, err := forecast.OfDeployment(resumed, seen, v.now)
	if err != nil || out.Replaced() == 0 && len(out.Updated) == 0 {
		return
	}
	n := out.Replaced()
	later := &Machines{Created: n, Deleted: n, Replaced: n, Updated: len(out.Updated)}
	v.Notes = append(v.Notes, fmt.Sprintf("once spec.paused is false: %s", later))
}

// nativeSet judges a MachineSet.
func (v *verdict) nativeSet(ctx context.Context, after *machinev1.MachineSet) error {
	v.Rule = ruleSet
	if v.wrong(machineset.Check(after)) {
		return nil
	}
	var d *machinev1.MachineDeployment
	for i := range v.Deployments {
		if metav1.IsControlledBy(after, &v.Deployments[i]) {
			d = &v.Deployments[i]
		}
	}
	out := forecast.OfSet(after, d, forecast.Observed{Machines: v.space.Machines}, v.now)
	v.takes(&out, "")
	v.settle()
	if d != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("MachineDeployment %s controls the set and decides its replicas: change "+
			"that one", d.Name))
	}
	if v.makes() {
		first := after.Spec.Template.Spec.Class.Name
		v.usable(ctx, first)
		v.capacity([]string{first})
	}
	v.estimate(explain.Native)
	v.drain(ctx)
	return nil
}

// nativeMachine judges a Machine.
func (v *verdict) nativeMachine(ctx context.Context, before, after *machinev1.Machine) error {
	v.Rule = ruleMachine
	v.Machines = &Machines{Present: 1}
	if before == nil {
		v.Machines = &Machines{Created: 1}
		v.usable(ctx, after.Spec.Class.Name)
		v.capacity([]string{after.Spec.Class.Name})
	} else if before.Spec.ProviderID == "" && before.Spec.Class != after.Spec.Class {
		v.usable(ctx, after.Spec.Class.Name)
	}
	v.settle()
	return nil
}

// class judges a MachineClass: who uses it, and whether it is valid.
func (v *verdict) class(ctx context.Context, after *machinev1.MachineClass) error {
	v.Rule = ruleClass
	v.settle()
	v.usable(ctx, after.Name)
	users, machines := v.usersOf(after.Name), 0
	for i := range v.space.Machines {
		if v.space.Machines[i].Spec.Class.Name == after.Name {
			machines++
		}
	}
	if len(users) > 0 {
		v.Notes = append(v.Notes, "used by "+strings.Join(users, ", "))
	}
	if machines > 0 && v.Action != Nothing {
		v.Notes = append(v.Notes, fmt.Sprintf("%s of it keep what they were made with: to replace them, copy the "+
			"class under another name, and name that one in the pool", count(machines, "machine")))
	}
	return nil
}

// usersOf returns the native pools that name a class.
func (s *space) usersOf(class string) []string {
	var users []string
	for i := range s.Deployments {
		d := &s.Deployments[i]
		first := d.Spec.Template.Spec.Class.Name
		if slices.Contains(append([]string{first}, machinev1.FallbackClasses(d, first)...), class) {
			users = append(users, "MachineDeployment/"+d.Name)
		}
	}
	for i := range s.Sets {
		if set := &s.Sets[i]; metav1.GetControllerOf(set) == nil && set.Spec.Template.Spec.Class.Name == class {
			users = append(users, "MachineSet/"+set.Name)
		}
	}
	slices.Sort(users)
	return users
}

// count is a number with its word.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// capiDeployment judges a MachineDeployment of Cluster API, by its controller's own comparison of
// templates. What its machines come to is known; the steps between are Cluster API's.
func (v *verdict) capiDeployment(ctx context.Context, before, after *clusterv1.MachineDeployment) error {
	v.Rule = ruleCAPI
	current, old, results, _ := mdutil.FindNewAndOldMachineSets(after, v.capiSetsOf(before), metav1.NewTime(v.now))
	wanted, have := int(replicasOf(after.Spec.Replicas)), 0
	if current != nil {
		have = int(replicasOf(current.Spec.Replicas))
	}
	leaving := int(mdutil.GetReplicaCountForMachineSets(old))
	v.Rollout = &Rollout{
		Strategy: string(after.Spec.Rollout.Strategy.Type),
		MaxSurge: int(mdutil.MaxSurge(*after)), MaxUnavailable: int(mdutil.MaxUnavailable(*after)),
	}
	v.Machines = &Machines{Present: have + leaving}
	all, rolls := v.pausedBy(ctx, after)
	switch v.Rollout.Waits = all + rolls; {
	case all != "":
	case rolls != "": // what is left as it is counts for what is wanted
		v.moves(wanted, have+leaving, 0)
	default:
		v.moves(wanted, have, leaving)
		v.leave(old)
	}
	v.settle()
	v.capiNotes(after, results, leaving)
	if v.makes() {
		v.capiClass(ctx, after)
	}
	v.estimate(explain.ClusterAPI)
	v.drain(ctx)
	return nil
}

// capiSetsOf returns the MachineSets that a MachineDeployment controls; none for nil.
func (s *space) capiSetsOf(d *clusterv1.MachineDeployment) []*clusterv1.MachineSet {
	var sets []*clusterv1.MachineSet
	for i := range s.ClusterSets {
		if d != nil && metav1.IsControlledBy(&s.ClusterSets[i], d) {
			sets = append(sets, &s.ClusterSets[i])
		}
	}
	return sets
}

// moves counts the machines, and the rounds in which as many join as surge and unavailability allow.
func (v *verdict) moves(wanted, have, leaving int) {
	m, r := v.Machines, v.Rollout
	m.Created, m.Deleted = max(wanted-have, 0), leaving+max(have-wanted, 0)
	m.Replaced = min(m.Created, leaving)
	if m.Created == 0 {
		return
	}
	r.Rounds = 1
	if batch := r.MaxSurge + r.MaxUnavailable; m.Replaced > 0 && batch > 0 {
		r.Rounds = (m.Created + batch - 1) / batch
	}
}

// leave names the machines of old sets. Which ones a smaller set gives up, Cluster API decides then.
func (v *verdict) leave(old []*clusterv1.MachineSet) {
	for _, set := range old {
		for _, o := range v.facts.Objects {
			if o.Kind == explain.KindMachine && o.Owner == set.UID {
				v.Machines.Drained = append(v.Machines.Drained, o.Name)
			}
		}
	}
	slices.Sort(v.Machines.Drained)
	if more := v.Machines.Deleted - len(v.Machines.Drained); more > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("which %s are deleted is decided by Cluster API's deletion order "+
			"then, so that what keeps them from being drained is not known", count(more, "machine")))
	}
}

// pausedBy is what keeps Cluster API from doing anything, and what from replacing machines only; empty:
// nothing.
func (v *verdict) pausedBy(ctx context.Context, after *clusterv1.MachineDeployment) (all, rolls string) {
	cluster := &clusterv1.Cluster{}
	err := v.api.Get(ctx, client.ObjectKey{Namespace: after.Namespace, Name: after.Spec.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		v.unread("Cluster "+after.Spec.ClusterName, err)
	}
	_, annotated := after.Annotations[clusterv1.PausedAnnotation]
	switch {
	case cluster.Spec.Paused != nil && *cluster.Spec.Paused:
		return "spec.paused of Cluster " + cluster.Name + " is true", ""
	case annotated:
		return "annotation " + clusterv1.PausedAnnotation + " is set", ""
	case after.Spec.Paused != nil && *after.Spec.Paused:
		return "", "spec.paused is true"
	case after.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType:
		return "", "strategy OnDelete: a machine is replaced when a user deletes it"
	}
	return "", ""
}

func (v *verdict) capiNotes(after *clusterv1.MachineDeployment, results map[string]mdutil.UpToDateResult, leaving int) {
	if leaving > 0 {
		var because []string
		inPlace := false
		for _, r := range results {
			because = append(because, r.LogMessages...)
			inPlace = inPlace || r.EligibleForInPlaceUpdate
		}
		slices.Sort(because)
		v.Notes = append(v.Notes, slices.Compact(because)...)
		if inPlace {
			v.Notes = append(v.Notes, "a runtime extension for updates in place may keep the VMs: Cluster API asks it then, "+
				"which is not known before")
		}
	}
	if _, owned := after.Labels[clusterv1.ClusterTopologyOwnedLabel]; owned {
		v.Notes = append(v.Notes, fmt.Sprintf("the topology of Cluster %s owns the object and may take the change "+
			"back: change the Cluster", after.Spec.ClusterName))
	}
	if v.Rollout.Strategy == "" {
		v.Rollout.Strategy = string(clusterv1.RollingUpdateMachineDeploymentStrategyType)
	}
}

// capiClass judges the class that the MCMMachineTemplate of new machines names.
func (v *verdict) capiClass(ctx context.Context, after *clusterv1.MachineDeployment) {
	ref := after.Spec.Template.Spec.InfrastructureRef
	if ref.Kind != "MCMMachineTemplate" {
		return
	}
	key := client.ObjectKey{Namespace: after.Namespace, Name: ref.Name}
	template := v.machines[key]
	if template == nil {
		template = &infrav1.MCMMachineTemplate{}
		err := v.api.Get(ctx, key, template)
		if apierrors.IsNotFound(err) {
			v.block(ref.Kind, ref.Name, notThere)
			return
		}
		if err != nil {
			v.unread("MCMMachineTemplate "+ref.Name, err)
			return
		}
	}
	spec := template.Spec.Template.Spec
	classes := []string{spec.MachineClassRef.Name}
	for _, r := range spec.FallbackClassRefs {
		classes = append(classes, r.Name)
	}
	v.usable(ctx, classes[0])
	v.capacity(classes)
}

// mcmTemplate tells who names a template.
func (v *verdict) mcmTemplate() {
	v.Rule = ruleMCMTemplate
	v.settle()
	var users []string
	for i := range v.ClusterDeployments {
		if v.ClusterDeployments[i].Spec.Template.Spec.InfrastructureRef.Name == v.Object.Name {
			users = append(users, "MachineDeployment/"+v.ClusterDeployments[i].Name)
		}
	}
	if len(users) > 0 {
		v.Notes = append(v.Notes, "used by "+strings.Join(users, ", "))
	}
}

// replicasOf is 1 where nothing is said, as Cluster API defaults it.
func replicasOf(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

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
