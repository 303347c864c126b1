package fields

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// ToNative returns the objects of the native API that say what those of
// Cluster API say, and what becomes of each field that has no equal there. It reads
// nothing and changes nothing; the same state yields the same objects.
//
// Native objects that exist are taken as they are, and changed in what the Cluster
// API says otherwise; the others are new, with the finalizer of the native
// API, its hold, and owners without UID. A native Machine that is not in the copy
// is one that Cluster API does not have any more. The native API takes the sets for
// what they are: the set of the deployment's template is the one that Cluster API
// goes on with, so it rolls nothing. Machines of two sets that differ only in what
// the native API does not know, such as the version, come together in one.
func ToNative(s *migration.PoolState, o migration.Options) (migration.NativeObjects, []migration.Finding) {
	c := newToNative(s, o)
	c.deployment()
	for i := range s.ClusterAPI.Sets {
		c.set(i)
	}
	c.emptied()
	for i := range s.ClusterAPI.Machines {
		c.machine(&s.ClusterAPI.Machines[i])
	}
	c.count()
	objects.Sort(c.out.Sets)
	objects.Sort(c.out.Machines)
	return c.out, c.findings
}

// toNative is one conversion.
type toNative struct {
	*migration.PoolState
	options   migration.Options
	hold      string
	templates map[string]*infrav1.MCMMachineTemplate
	infra     map[string]*infrav1.MCMMachine
	have      map[string]*machinev1.Machine // native Machines by name
	nodes     map[string]*migration.Node    // by providerID
	target    []int                         // which of out.Sets each MachineSet becomes
	out       migration.NativeObjects
	findings  []migration.Finding
}

func newToNative(s *migration.PoolState, o migration.Options) *toNative {
	c := &toNative{
		PoolState: s, options: o, templates: map[string]*infrav1.MCMMachineTemplate{},
		infra: map[string]*infrav1.MCMMachine{},
		have:  map[string]*machinev1.Machine{}, nodes: map[string]*migration.Node{},
		target: make([]int, len(s.ClusterAPI.Sets)),
	}
	if s.Record != nil {
		c.hold = s.Record.Hold
	}
	for i := range s.ClusterAPI.MachineTemplates {
		c.templates[s.ClusterAPI.MachineTemplates[i].Name] = &s.ClusterAPI.MachineTemplates[i]
	}
	for i := range s.ClusterAPI.MCMMachines {
		c.infra[s.ClusterAPI.MCMMachines[i].Name] = &s.ClusterAPI.MCMMachines[i]
	}
	for i := range s.Native.Machines {
		c.have[s.Native.Machines[i].Name] = &s.Native.Machines[i]
	}
	for _, name := range objects.Keys(s.Nodes) {
		if node := s.Nodes[name]; node.Spec.ProviderID != "" {
			c.nodes[node.Spec.ProviderID] = &migration.Node{Object: node, KubeletVersion: node.Status.NodeInfo.KubeletVersion}
		}
	}
	c.out.Classes = s.Native.Classes
	for i := range s.Native.Sets {
		c.out.Sets = append(c.out.Sets, *s.Native.Sets[i].DeepCopy())
	}
	return c
}

func (c *toNative) find(f migration.Finding) { c.findings = append(c.findings, f) }

// deployment makes the MachineDeployment, or brings the one that there is up to date.
func (c *toNative) deployment() {
	from := c.ClusterAPI.Deployment
	if from == nil {
		return
	}
	head := clusterHeadOfDeployment(from, c)
	c.judgeHead(machinev1.MachineDeploymentKind, head)
	d := c.Native.Deployment.DeepCopy()
	if d == nil {
		d = &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: from.Namespace, Name: from.Name, Finalizers: []string{machinev1.Finalizer},
			Labels: portable(dropClusterAPILabels(from.Labels)), Annotations: c.newAnnotations(portable(from.Annotations),
				machinev1.MachineDeploymentKind, from),
		}}
		if revision := from.Annotations[clusterv1.RevisionAnnotation]; revision != "" {
			d.Annotations[machinev1.RevisionAnnotation] = revision
		}
		d.Spec.Selector = nativeSelector(from.Spec.Selector, c.Pool.Name)
	}
	convertBack(headTable, head, headOfDeployment(d))
	d.Annotations = objects.Merge(d.Annotations, c.holdAnnotation())
	c.fallbackClasses(d, &from.Spec.Template.Spec)
	c.template(&d.Spec.Template, &from.Spec.Template, d.Spec.Selector)
	c.out.Deployment = d
}

// fallbackClasses names on a native object the fallback classes of its template.
func (c *toNative) fallbackClasses(head metav1.Object, spec *clusterv1.MachineSpec) {
	if t := c.clusterTemplate(spec).infra; t != nil {
		names := t.Spec.Template.Spec.ClassNames()[1:]
		machinev1.SetOrRemoveAnnotation(head, machinev1.FallbackClassesAnnotation, strings.Join(names, ","))
	}
}

// set finds or makes the native set that a MachineSet becomes.
func (c *toNative) set(i int) {
	from := &c.ClusterAPI.Sets[i]
	template := machinev1.MachineTemplateSpec{}
	at := slices.IndexFunc(c.out.Sets, func(s machinev1.MachineSet) bool {
		return s.Name == from.Name || s.Name == objects.CopiedFrom(from, machinev1.MachineSetKind)
	})
	selector := nativeSelector(from.Spec.Selector, c.Pool.Name)
	if at >= 0 {
		template = *c.out.Sets[at].Spec.Template.DeepCopy()
		selector = c.out.Sets[at].Spec.Selector
	} else if d := c.out.Deployment; d != nil {
		template.Spec.MachineConfiguration = d.Spec.Template.Spec.MachineConfiguration.DeepCopy()
		template.Spec.Class = d.Spec.Template.Spec.Class
		selector = d.Spec.Selector.DeepCopy()
	}
	hash := template.Labels[machinev1.TemplateHashLabel]
	c.template(&template, &from.Spec.Template, selector)
	if c.ClusterAPI.CurrentSet() == i && c.out.Deployment != nil {
		// What differs is only on its way from the deployment to its set.
		template = *c.out.Deployment.Spec.Template.DeepCopy()
	}
	if like := c.like(&template); like >= 0 {
		at = like
	}
	if at < 0 {
		at = len(c.out.Sets)
		c.out.Sets = append(c.out.Sets, c.newSet(from, selector))
	}
	s := &c.out.Sets[at]
	hash = cmp.Or(s.Labels[machinev1.TemplateHashLabel], hash)
	s.Spec.Template = template
	if hash != "" {
		s.Spec.Template.Labels = objects.Merge(template.Labels, map[string]string{machinev1.TemplateHashLabel: hash})
	}
	if c.out.Deployment == nil {
		head := clusterHeadOfSet(from, c)
		convertBack(headTable, head, headOfSet(s))
		c.fallbackClasses(s, &from.Spec.Template.Spec)
		c.judgeHead(machinev1.MachineSetKind, head)
	}
	c.target[i] = at
}

// like is the set of a deployment that the native API takes for one of the
// template, so that a new one would only be in its way; -1 if there is none.
func (c *toNative) like(template *machinev1.MachineTemplateSpec) int {
	if c.out.Deployment == nil {
		return -1
	}
	return c.out.OldestSetLike(template)
}

// newSet is a set without template and number.
func (c *toNative) newSet(from *clusterv1.MachineSet, selector *metav1.LabelSelector) machinev1.MachineSet {
	s := machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: from.Namespace, Name: from.Name, Finalizers: []string{machinev1.Finalizer},
		Annotations: c.newAnnotations(portable(from.Annotations), machinev1.MachineSetKind, from),
	}}
	s.Spec.Selector = selector
	if revision := from.Annotations[clusterv1.RevisionAnnotation]; revision != "" {
		s.Annotations[machinev1.RevisionAnnotation] = revision
	}
	if d := c.out.Deployment; d != nil {
		hash := map[string]string{machinev1.TemplateHashLabel: cmp.Or(from.Labels[clusterv1.MachineDeploymentUniqueLabel],
			from.Name)}
		s.Labels = objects.Merge(portable(dropClusterAPILabels(from.Spec.Template.Labels)), hash)
		s.Spec.Selector.MatchLabels = objects.Merge(s.Spec.Selector.MatchLabels, hash)
		s.OwnerReferences = []metav1.OwnerReference{objects.ControllerRef(
			machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind), d.Name,
		)}
	} else {
		s.Labels = portable(dropClusterAPILabels(from.Labels))
	}
	return s
}

// emptied are the native sets that Cluster API has no machines of.
func (c *toNative) emptied() {
	for i := range c.out.Sets {
		c.out.Sets[i].Annotations = objects.Merge(c.out.Sets[i].Annotations, c.holdAnnotation())
	}
}

// count gives each set of a deployment the number of machines that it has got.
func (c *toNative) count() {
	d := c.out.Deployment
	if d == nil {
		return
	}
	members := map[string]int32{}
	for i := range c.out.Machines {
		if owner := objects.ControllerOf(&c.out.Machines[i], machinev1.MachineSetKind); owner != nil {
			members[owner.Name]++
		}
	}
	for i := range c.out.Sets {
		s := &c.out.Sets[i]
		s.Spec.Replicas, s.Spec.MinReadySeconds = members[s.Name], d.Spec.MinReadySeconds
		s.Annotations[machinev1.DesiredReplicasAnnotation] = strconv.Itoa(int(d.Spec.Replicas))
		s.Annotations[machinev1.MaxReplicasAnnotation] = strconv.Itoa(int(d.Spec.Replicas + nativeSurge(d)))
	}
}

// template brings a native template up to date with Cluster API's. What that does
// not say stays.
func (c *toNative) template(into *machinev1.MachineTemplateSpec, from *clusterv1.MachineTemplateSpec,
	selector *metav1.LabelSelector,
) {
	labels := dropClusterAPILabels(from.Labels)
	delete(labels, clusterv1.MachineDeploymentUniqueLabel)
	if selector != nil && selector.MatchLabels[machinev1.NameLabel] == c.Pool.Name {
		labels = objects.Merge(labels, map[string]string{machinev1.NameLabel: c.Pool.Name})
	}
	into.Labels, into.Annotations = labels, from.Annotations
	into.Spec.Class.Kind = cmp.Or(into.Spec.Class.Kind, machinev1.MachineClassKind)
	into.Spec.Class.APIGroup = cmp.Or(into.Spec.Class.APIGroup, c.apiGroup())
	convertBack(templateTable, c.clusterTemplate(&from.Spec), into)
	into.Spec.MachineConfiguration = c.configuration(into.Spec.MachineConfiguration, &from.Spec)
}

// apiGroup is what class references of the pool say: the native API takes another
// one for another template.
func (c *toNative) apiGroup() string {
	if c.Native.Deployment != nil {
		return c.Native.Deployment.Spec.Template.Spec.Class.APIGroup
	}
	return machinev1.GroupVersion.Group
}

func (c *toNative) holdAnnotation() map[string]string {
	if c.hold == "" {
		return nil
	}
	return map[string]string{machinev1.MigrationHoldAnnotation: c.hold}
}

func (c *toNative) newAnnotations(annotations map[string]string, kind string, o metav1.Object) map[string]string {
	return objects.Merge(annotations, c.holdAnnotation(),
		map[string]string{machinev1.MigratedFromAnnotation: objects.CopyOf(kind, o)})
}

// nativeSelector is a selector without what only Cluster API's machines carry. One
// that would select everything asks for the name of the pool, as MCM's label does.
func nativeSelector(s metav1.LabelSelector, pool string) *metav1.LabelSelector {
	out := s.DeepCopy()
	out.MatchLabels = dropClusterAPILabels(out.MatchLabels)
	delete(out.MatchLabels, clusterv1.MachineDeploymentUniqueLabel)
	if len(out.MatchLabels) == 0 && len(out.MatchExpressions) == 0 {
		out.MatchLabels = map[string]string{machinev1.NameLabel: pool}
	}
	return out
}

// nativeSurge is how many machines a native MachineDeployment may add.
func nativeSurge(d *machinev1.MachineDeployment) int32 {
	r := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type != machinev1.RollingUpdateStrategyType || r == nil || r.MaxSurge == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, int(d.Spec.Replicas), true)
	if err != nil {
		return 0
	}
	return int32(n) // #nosec G115 -- a number of machines
}
