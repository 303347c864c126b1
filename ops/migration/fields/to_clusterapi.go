package fields

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// ToClusterAPI returns the objects of Cluster API that say what the
// native ones say, and what becomes of each field that has no equal there. It reads
// nothing and changes nothing; the same state yields the same objects.
//
// MachineDeployment, MachineSet, Machine and MCMMachine are paused, an MCMMachine
// keeps its VM, and none has autoscaler bounds, status or
// finalizers. Their owners have no UID yet. The health check is not
// paused and is to be made last. A set without machines is copied only if it is the
// pool's current one; a pool in the middle of a rollout is copied set by set.
func ToClusterAPI(s *migration.PoolState, o migration.Options) (migration.ClusterAPIObjects, []migration.Finding) {
	c := &toClusterAPI{PoolState: s, options: o, members: make([][]int, len(s.Native.Sets)), nodes: s.NodesByMachine()}
	for i := range s.Native.Machines {
		if set := s.Native.SetOf(&s.Native.Machines[i]); set >= 0 {
			c.members[set] = append(c.members[set], i)
		} else {
			c.loose = append(c.loose, i)
		}
	}
	c.deployment()
	for i := range s.Native.Sets {
		c.set(i)
	}
	if s.Pool.Kind == migration.KindMachine {
		for _, i := range c.loose {
			c.looseMachine(i)
		}
	}
	c.healthCheck()
	c.dropUnused()
	objects.Sort(c.out.Sets)
	objects.Sort(c.out.Machines)
	objects.Sort(c.out.MCMMachines)
	objects.Sort(c.out.MachineTemplates)
	objects.Sort(c.out.ConfigTemplates)
	return c.out, c.findings
}

// toClusterAPI is one conversion.
type toClusterAPI struct {
	*migration.PoolState
	options  migration.Options
	members  [][]int // machines by set
	loose    []int   // machines of no set
	nodes    map[string]*migration.Node
	known    map[string]string // providerIDs of MCMMachines that exist
	out      migration.ClusterAPIObjects
	findings []migration.Finding
}

// deployment makes the MachineDeployment.
func (c *toClusterAPI) deployment() {
	d := c.Native.Deployment
	if d == nil {
		return
	}
	head := headOfDeployment(d)
	c.judgeHead(machinev1.MachineDeploymentKind, head)
	template := c.template(&d.Spec.Template, d.Annotations, c.headVersion())
	c.out.Deployment = &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name,
			Labels: objects.Merge(withoutFreeze(portable(d.Labels)),
				map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster}),
			Annotations: objects.Merge(portable(d.Annotations), map[string]string{
				clusterv1.PausedAnnotation: "", clusterv1.RevisionAnnotation: revisionOf(d),
				machinev1.MigratedFromAnnotation: objects.CopyOf(machinev1.MachineDeploymentKind, d),
			}),
			OwnerReferences: []metav1.OwnerReference{c.clusterOwner()},
		},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: c.options.Cluster,
			Selector:    c.selector(d.Spec.Selector, ""),
			Template:    template,
		},
	}
	convert(headTable, head, clusterHeadOfDeployment(c.out.Deployment, nil))
	dropOffered(c.out.Deployment.Annotations, d.Annotations)
	c.keepDeployment()
}

// headVersion is the kubelet version of the current set, else that of most machines.
func (c *toClusterAPI) headVersion() string {
	if current := c.Native.CurrentSet(); current >= 0 && len(c.members[current]) > 0 {
		return c.versionOf(c.members[current])
	}
	return c.versionOf(nil)
}

// versionOf is the kubelet version of most of the machines; of equally frequent
// versions the first in alphabetical order. An empty list means all machines. If no
// node is known, it is the version of the options.
func (c *toClusterAPI) versionOf(machines []int) string {
	if len(machines) == 0 {
		for i := range c.Native.Machines {
			machines = append(machines, i)
		}
	}
	counts := map[string]int{}
	for _, i := range machines {
		if n := c.nodes[c.Native.Machines[i].Name]; n != nil && n.KubeletVersion != "" {
			counts[n.KubeletVersion]++
		}
	}
	best := c.options.Defaults.KubeletVersion
	for _, version := range objects.Keys(counts) {
		if best == "" || counts[version] > counts[best] {
			best = version
		}
	}
	return best
}

// set makes the MachineSet of a native one, and its machines.
func (c *toClusterAPI) set(i int) {
	s := &c.Native.Sets[i]
	current := c.Native.CurrentSet() == i
	if len(c.members[i]) == 0 && !current && c.Native.Deployment != nil {
		c.find(migration.Replaced.Finding(objects.Name(machinev1.MachineSetKind, s), "", "an earlier revision without "+
			"machines is not copied: Cluster API keeps none; to go back to it, name its MachineClass again", ""))
		return
	}
	source, annotations := &s.Spec.Template, s.Annotations
	if current && c.Native.Deployment != nil {
		// What differs is only on its way from the deployment to its set. Cluster API
		// would take another template for a rollout.
		source, annotations = &c.Native.Deployment.Spec.Template, c.Native.Deployment.Annotations
	}
	out := clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Annotations: map[string]string{
			clusterv1.PausedAnnotation: "", machinev1.MigratedFromAnnotation: objects.CopyOf(machinev1.MachineSetKind, s),
		}},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: c.options.Cluster,
			Replicas:    new(int32(len(c.members[i]))), // #nosec G115 -- objects in memory
			Template:    c.template(source, annotations, c.versionOf(c.members[i])),
			Deletion:    clusterv1.MachineSetDeletionSpec{Order: clusterv1.OldestMachineSetDeletionOrder},
		},
	}
	if c.Native.Deployment == nil {
		c.judgeHead(machinev1.MachineSetKind, headOfSet(s))
		convert(headTable, headOfSet(s), clusterHeadOfSet(&out, nil))
	} else {
		out.Spec.Template.Spec.MinReadySeconds = c.out.Deployment.Spec.Template.Spec.MinReadySeconds
	}
	c.place(&out, s)
	c.keepSet(&out, source, current)
	c.out.Sets = append(c.out.Sets, out)
	for _, m := range c.members[i] {
		c.machine(&c.Native.Machines[m], &out)
	}
}

// place gives a MachineSet the labels, selector and owner of its deployment, or
// those of one that stands alone.
func (c *toClusterAPI) place(out *clusterv1.MachineSet, s *machinev1.MachineSet) {
	d := c.out.Deployment
	if d == nil {
		out.Labels = objects.Merge(withoutFreeze(portable(s.Labels)),
			map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster})
		out.Annotations = objects.Merge(portable(s.Annotations), out.Annotations)
		out.Spec.Selector = c.selector(s.Spec.Selector, "")
		out.OwnerReferences = []metav1.OwnerReference{c.clusterOwner()}
		if hash := s.Spec.Template.Labels[machinev1.TemplateHashLabel]; hash != "" {
			out.Spec.Template.Labels[machinev1.TemplateHashLabel] = hash // its selector may ask for it
		}
		return
	}
	hash := hashOf(s)
	out.Spec.Template.Labels[clusterv1.MachineDeploymentUniqueLabel] = hash
	out.Spec.Template.Labels[clusterv1.MachineDeploymentNameLabel] = d.Name
	out.Labels = objects.Merge(out.Spec.Template.Labels)
	out.Spec.Selector = c.selector(c.Native.Deployment.Spec.Selector, hash)
	replicas := objects.Value(d.Spec.Replicas)
	out.Annotations = objects.Merge(portable(s.Annotations), out.Annotations, map[string]string{
		clusterv1.RevisionAnnotation:        revisionOf(s),
		clusterv1.DesiredReplicasAnnotation: strconv.Itoa(int(replicas)),
		clusterv1.MaxReplicasAnnotation:     strconv.Itoa(int(replicas + surge(d))),
	})
	dropOffered(out.Annotations, c.Native.Deployment.Annotations)
	out.OwnerReferences = []metav1.OwnerReference{objects.ControllerRef(
		clusterv1.GroupVersion.WithKind(machinev1.MachineDeploymentKind), d.Name,
	)}
}

// template converts the template of a deployment or set, and makes the templates
// that it names.
func (c *toClusterAPI) template(t *machinev1.MachineTemplateSpec, annotations map[string]string,
	version string,
) clusterv1.MachineTemplateSpec {
	labels := objects.Merge(t.Labels, map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster})
	delete(labels, machinev1.TemplateHashLabel)
	out := clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: labels, Annotations: objects.Merge(t.Annotations)},
		Spec: clusterv1.MachineSpec{
			ClusterName: c.options.Cluster,
			Version:     version,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: objects.KindMCMConfigTemplate,
				Name: c.configTemplate(t.Spec.Class.Name),
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: objects.KindMCMMachineTemplate,
				Name: c.machineTemplate(t.Spec.Class.Name, nodeTemplateToClusterAPI(&t.Spec.NodeTemplateSpec)),
			},
		},
	}
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	c.spec(c.nativeSpec(t.Spec.MachineConfiguration, annotations), &out.Spec, nil)
	return out
}

// dropOffered removes annotations that the native API wrote from the capacity it was
// offered; labels and taints stay.
func dropOffered(into, annotations map[string]string) {
	for key, written := range offered(annotations) {
		if key != machinev1.CapacityNodeLabelAnnotation && key != machinev1.CapacityNodeTaintAnnotation &&
			into[key] == written {
			delete(into, key)
		}
	}
}

// selector is a native selector that also asks for the Cluster and, if there is
// one, for the hash.
func (c *toClusterAPI) selector(s *metav1.LabelSelector, hash string) metav1.LabelSelector {
	out := objects.Value(s.DeepCopy())
	out.MatchLabels = objects.Merge(out.MatchLabels, map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster})
	if hash != "" {
		out.MatchLabels[clusterv1.MachineDeploymentUniqueLabel] = hash
	}
	return out
}

func (c *toClusterAPI) find(f migration.Finding) { c.findings = append(c.findings, f) }

// clusterOwner is the reference to the Cluster, which does not control what it owns.
func (c *toClusterAPI) clusterOwner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: objects.KindCluster,
		Name: c.options.Cluster,
	}
}

// hashOf is what tells a set's machines from those of its deployment's other sets.
func hashOf(s *machinev1.MachineSet) string {
	for _, labels := range []map[string]string{s.Labels, s.Spec.Template.Labels} {
		if hash := labels[machinev1.TemplateHashLabel]; hash != "" {
			return hash
		}
	}
	return format.MustFormatValue(s.Name) // MCM has not labelled it yet
}

func revisionOf(o metav1.Object) string {
	return cmp.Or(o.GetAnnotations()[machinev1.RevisionAnnotation], "1")
}

func withoutFreeze(labels map[string]string) map[string]string {
	delete(labels, machinev1.FreezeLabel)
	return labels
}

// surge is how many machines a MachineDeployment may add.
func surge(d *clusterv1.MachineDeployment) int32 {
	strategy := d.Spec.Rollout.Strategy
	if strategy.Type != clusterv1.RollingUpdateMachineDeploymentStrategyType || strategy.RollingUpdate.MaxSurge == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(strategy.RollingUpdate.MaxSurge, int(objects.Value(d.Spec.Replicas)),
		true)
	if err != nil {
		return 0
	}
	return int32(n) // #nosec G115 -- a number of machines
}

// keepDeployment goes on from the MachineDeployment that there is.
func (c *toClusterAPI) keepDeployment() {
	have, want, source := c.ClusterAPI.Deployment, c.out.Deployment, c.Native.Deployment
	if have == nil {
		return
	}
	spec := have.Spec.DeepCopy()
	spec.Replicas, spec.Paused = want.Spec.Replicas, want.Spec.Paused
	strategy, paused := strategyToNative(have.Spec.Rollout.Strategy, source.Spec.Strategy)
	if paused {
		spec.Paused = have.Spec.Paused // it says so with its strategy
	}
	if !equality.Semantic.DeepEqual(strategy, source.Spec.Strategy) {
		spec.Rollout.Strategy = want.Spec.Rollout.Strategy
	}
	c.keepTemplate(&spec.Template, &want.Spec.Template, &source.Spec.Template)
	want.Spec = *spec
	want.Labels, want.Annotations = objects.Merge(have.Labels, want.Labels),
		objects.Merge(have.Annotations, want.Annotations)
	want.Annotations[machinev1.MigratedFromAnnotation] = objects.CopyOf(machinev1.MachineDeploymentKind, source)
}

// keepSet goes on from the MachineSet that there is. The current one has the
// template of its deployment.
func (c *toClusterAPI) keepSet(want *clusterv1.MachineSet, source *machinev1.MachineTemplateSpec, current bool) {
	have := objects.Find(c.ClusterAPI.Sets, want.Name)
	if have != nil {
		spec := have.Spec.DeepCopy()
		spec.Replicas = want.Spec.Replicas
		c.keepTemplate(&spec.Template, &want.Spec.Template, source)
		want.Spec = *spec
		want.Labels = objects.Merge(have.Labels, want.Labels)
	}
	if current && c.out.Deployment != nil {
		head := &c.out.Deployment.Spec.Template.Spec
		into := &want.Spec.Template.Spec
		into.Version, into.FailureDomain = head.Version, head.FailureDomain
		into.Bootstrap, into.InfrastructureRef = head.Bootstrap, head.InfrastructureRef
	}
}

// keepTemplate changes have in what want says otherwise, and in nothing that only
// Cluster API knows.
func (c *toClusterAPI) keepTemplate(have, want *clusterv1.MachineTemplateSpec, source *machinev1.MachineTemplateSpec) {
	back := newToNative(c.PoolState, c.options)
	is := source.DeepCopy()
	back.template(is, have, nil)
	hash, hashed := have.Labels[clusterv1.MachineDeploymentUniqueLabel]
	have.Labels = objects.Merge(have.Labels, want.Labels)
	if hashed {
		have.Labels[clusterv1.MachineDeploymentUniqueLabel] = hash
	}
	have.Annotations = want.Annotations
	if !equality.Semantic.DeepEqual(is.Spec.MachineConfiguration, source.Spec.MachineConfiguration) {
		have.Spec.Deletion.NodeDrainTimeoutSeconds = want.Spec.Deletion.NodeDrainTimeoutSeconds
	}
	have.Spec.MinReadySeconds = want.Spec.MinReadySeconds
	if is.Spec.Class.Name != source.Spec.Class.Name {
		have.Spec.Version, have.Spec.Bootstrap, have.Spec.InfrastructureRef = want.Spec.Version, want.Spec.Bootstrap,
			want.Spec.InfrastructureRef
	} else if !sameNodeTemplate(&is.Spec.NodeTemplateSpec, &source.Spec.NodeTemplateSpec) {
		have.Spec.InfrastructureRef = want.Spec.InfrastructureRef
	}
}

// sameNodeTemplate compares what is applied of two node templates.
func sameNodeTemplate(a, b *machinev1.NodeTemplateSpec) bool {
	return equality.Semantic.DeepEqual(nodeTemplateToClusterAPI(a), nodeTemplateToClusterAPI(b))
}

// dropUnused leaves out templates that nothing names.
func (c *toClusterAPI) dropUnused() {
	used := map[string]bool{}
	use := func(t *clusterv1.MachineTemplateSpec) {
		used[t.Spec.InfrastructureRef.Kind+"/"+t.Spec.InfrastructureRef.Name] = true
		used[t.Spec.Bootstrap.ConfigRef.Kind+"/"+t.Spec.Bootstrap.ConfigRef.Name] = true
	}
	if c.out.Deployment != nil {
		use(&c.out.Deployment.Spec.Template)
	}
	for i := range c.out.Sets {
		use(&c.out.Sets[i].Spec.Template)
	}
	c.out.MachineTemplates = slices.DeleteFunc(c.out.MachineTemplates, func(t infrav1.MCMMachineTemplate) bool {
		return !used[objects.KindMCMMachineTemplate+"/"+t.Name]
	})
	c.out.ConfigTemplates = slices.DeleteFunc(c.out.ConfigTemplates, func(t bootstrapv1.MCMConfigTemplate) bool {
		return !used[objects.KindMCMConfigTemplate+"/"+t.Name]
	})
}

// knownProviderID is what the MCMMachine that there is already calls the VM of m;
// empty if there is none, or it has another VM.
func (c *toClusterAPI) knownProviderID(m *machinev1.Machine) string {
	if c.known == nil {
		c.known = map[string]string{}
		for i := range c.ClusterAPI.MCMMachines {
			c.known[c.ClusterAPI.MCMMachines[i].Name] = c.ClusterAPI.MCMMachines[i].Spec.ProviderID
		}
	}
	if id := c.known[m.Name]; id != "" && objects.SameVM(id, m.Spec.ProviderID) {
		return id
	}
	return ""
}
