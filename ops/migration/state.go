package migration

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// Tiers are the objects of an API that have controllers, from the head down: who
// is above makes and deletes what is below, so it is put to rest first and
// started last.
func (s *PoolState) Tiers(d API) [][]client.Object {
	var head, sets, machines []client.Object
	if d == Native {
		if s.Native.Deployment != nil {
			head = append(head, s.Native.Deployment)
		}
		sets, machines = objects.Pointers(s.Native.Sets), objects.Pointers(s.Native.Machines)
		return [][]client.Object{head, sets, machines}
	}
	if s.ClusterAPI.Deployment != nil {
		head = append(head, s.ClusterAPI.Deployment)
	}
	sets, machines = objects.Pointers(s.ClusterAPI.Sets), objects.Pointers(s.ClusterAPI.Machines)
	return [][]client.Object{head, sets, machines, objects.Pointers(s.ClusterAPI.MCMMachines)}
}

// NativeObjects is what there is of a pool on the native API. Lists are sorted by name.
type NativeObjects struct {
	Deployment *machinev1.MachineDeployment // nil: none, or the pool has another kind
	Sets       []machinev1.MachineSet
	Machines   []machinev1.Machine
	Classes    map[string]*machinev1.MachineClass // by name: those that the templates and machines use and that exist
}

// Empty reports whether there is nothing.
func (n *NativeObjects) Empty() bool {
	return n.Deployment == nil && len(n.Sets) == 0 && len(n.Machines) == 0
}

// ClusterAPIObjects is what there is of a pool on Cluster API. Lists are sorted by name.
type ClusterAPIObjects struct {
	Deployment       *clusterv1.MachineDeployment // nil: none, or the pool has another kind
	Sets             []clusterv1.MachineSet
	Machines         []clusterv1.Machine
	MCMMachines      []infrav1.MCMMachine
	BootstrapSecrets []corev1.Secret // stand for the boot data of machines that have booted
	MachineTemplates []infrav1.MCMMachineTemplate
	ConfigTemplates  []bootstrapv1.MCMConfigTemplate
	HealthCheck      *clusterv1.MachineHealthCheck // nil: none
}

// Empty reports whether there is nothing but templates.
func (c *ClusterAPIObjects) Empty() bool {
	return c.Deployment == nil && len(c.Sets) == 0 && len(c.Machines) == 0 && len(c.MCMMachines) == 0
}

// Cluster is the Cluster that pools are moved to.
type Cluster struct {
	Name         string
	Cluster      *clusterv1.Cluster                      // nil: there is none yet
	ControlPlane *controlplanev1.MCMExternalControlPlane // nil: none, or another one
}

// PoolState is what is known of a pool at one time.
type PoolState struct {
	Pool       Pool
	Native     NativeObjects
	ClusterAPI ClusterAPIObjects
	Cluster    Cluster
	Nodes      map[string]*corev1.Node // by name: those of the pool's machines that exist
	Record     *Record                 // nil: the pool has never been moved

	Around *Namespace // nil: nothing is known of them
}

// On reports whether there is anything of the pool on an API.
func (s *PoolState) On(d API) bool {
	if d == Native {
		return !s.Native.Empty()
	}
	return !s.ClusterAPI.Empty()
}

// machineLabels are those of the pool's Machines.
func (c *ClusterAPIObjects) machineLabels() map[string]string {
	for i := range c.Machines {
		return c.Machines[i].Labels
	}
	if d := c.Deployment; d != nil {
		return objects.Merge(d.Spec.Template.Labels, map[string]string{
			clusterv1.MachineDeploymentNameLabel: d.Name,
			clusterv1.ClusterNameLabel:           d.Spec.ClusterName,
		})
	}
	if len(c.Sets) > 0 {
		s := &c.Sets[0]
		return objects.Merge(s.Spec.Template.Labels, map[string]string{
			clusterv1.MachineSetNameLabel: format.MustFormatValue(s.Name),
			clusterv1.ClusterNameLabel:    s.Spec.ClusterName,
		})
	}
	return nil
}

// ClusterName is the Cluster of the pool's objects; empty if there are none.
func (c *ClusterAPIObjects) ClusterName() string {
	switch {
	case c.Deployment != nil:
		return c.Deployment.Spec.ClusterName
	case len(c.Sets) > 0:
		return c.Sets[0].Spec.ClusterName
	case len(c.Machines) > 0:
		return c.Machines[0].Spec.ClusterName
	}
	return ""
}

// Templates are those of the head and of its sets.
func (c *ClusterAPIObjects) Templates() []*clusterv1.MachineTemplateSpec {
	var out []*clusterv1.MachineTemplateSpec
	if c.Deployment != nil {
		out = append(out, &c.Deployment.Spec.Template)
	}
	for i := range c.Sets {
		out = append(out, &c.Sets[i].Spec.Template)
	}
	return out
}

// Head is the object that a pool is headed by on an API; nil if there is none.
func (s *PoolState) Head(d API) client.Object {
	for _, tier := range s.Tiers(d) {
		if len(tier) > 0 {
			return tier[0]
		}
	}
	return nil
}

// Generation is that of the head's spec; 0 if there is none.
func (s *PoolState) Generation(d API) int64 {
	if head := s.Head(d); head != nil {
		return head.GetGeneration()
	}
	return 0
}

// SameClusterAPITemplate is what Cluster API compares: version, bootstrap, infrastructure
// and failure domain. It changes the rest in place (core mdutil.MachineTemplateUpToDate).
func SameClusterAPITemplate(a, b *clusterv1.MachineSpec) bool {
	return a.Version == b.Version && a.FailureDomain == b.FailureDomain && a.InfrastructureRef == b.InfrastructureRef &&
		equality.Semantic.DeepEqual(a.Bootstrap, b.Bootstrap)
}

// CurrentSet returns the index of the native set that has the deployment's
// template, the oldest if several have it; -1 if none has, or there is no deployment.
func (n *NativeObjects) CurrentSet() int {
	if n.Deployment == nil {
		return -1
	}
	return n.OldestSetLike(&n.Deployment.Spec.Template)
}

// OldestSetLike returns the index of the set that the native API takes for one of
// the template: the oldest that has it and is not being deleted; -1 if there is none.
// A set that has yet to be created is the youngest.
func (n *NativeObjects) OldestSetLike(template *machinev1.MachineTemplateSpec) int {
	found := -1
	for i := range n.Sets {
		s := &n.Sets[i]
		if !s.DeletionTimestamp.IsZero() || !machinev1.SameTemplate(template, &s.Spec.Template) {
			continue
		}
		if found < 0 || !s.CreationTimestamp.IsZero() &&
			s.CreationTimestamp.Time.Before(n.Sets[found].CreationTimestamp.Time) {
			found = i
		}
	}
	return found
}

// CurrentSet is that of Cluster API: of several sets with the deployment's
// template, it goes on with the one that has most replicas, then with the oldest.
func (c *ClusterAPIObjects) CurrentSet() int {
	found := -1
	if c.Deployment == nil {
		return found
	}
	for i := range c.Sets {
		s := &c.Sets[i]
		if !s.DeletionTimestamp.IsZero() || !SameClusterAPITemplate(&c.Deployment.Spec.Template.Spec, &s.Spec.Template.Spec) {
			continue
		}
		if found < 0 || better(s, &c.Sets[found]) {
			found = i
		}
	}
	return found
}

func better(a, b *clusterv1.MachineSet) bool {
	if left, right := objects.Value(a.Spec.Replicas), objects.Value(b.Spec.Replicas); left != right {
		return left > right
	}
	return a.CreationTimestamp.Time.Before(b.CreationTimestamp.Time)
}

// SetOf returns the index of the set that owns the machine; -1 if none does. The
// owner's UID decides, where it has one.
func (n *NativeObjects) SetOf(m *machinev1.Machine) int {
	return setOf(objects.Pointers(n.Sets), m)
}

// SetOf returns the index of the set that owns the machine; -1 if none does.
func (c *ClusterAPIObjects) SetOf(m *clusterv1.Machine) int {
	return setOf(objects.Pointers(c.Sets), m)
}

func setOf(sets []client.Object, m metav1.Object) int {
	owner := objects.ControllerOf(m, machinev1.MachineSetKind)
	if owner == nil {
		return -1
	}
	return slices.IndexFunc(sets, func(s client.Object) bool {
		return owned(owner, s.GetUID() != "", string(s.GetUID()), s.GetName())
	})
}

func owned(owner *metav1.OwnerReference, known bool, uid, name string) bool {
	if known && owner.UID != "" {
		return string(owner.UID) == uid
	}
	return owner.Name == name
}

// CheckOf is the MachineHealthCheck of the pool's name, else the first that selects
// its machines; nil if none does.
func CheckOf(checks []clusterv1.MachineHealthCheck, c *ClusterAPIObjects, p Pool) *clusterv1.MachineHealthCheck {
	var found *clusterv1.MachineHealthCheck
	for i := range checks {
		check := &checks[i]
		if check.Spec.ClusterName != c.ClusterName() || !objects.Selects(&check.Spec.Selector, c.machineLabels()) {
			continue
		}
		if check.Name == p.Name {
			return check
		}
		if found == nil || check.Name < found.Name {
			found = check
		}
	}
	return found
}

// OwnCheck is the pool's MachineHealthCheck if it is for this pool alone: one that
// decides for others, too, outlives it. nil if there is none.
func (s *PoolState) OwnCheck() *clusterv1.MachineHealthCheck {
	check := s.ClusterAPI.HealthCheck
	if check == nil || !s.Pool.owns(check) {
		return nil
	}
	return check
}

// owns reports whether a MachineHealthCheck was made for the pool, or asks for its name.
func (p Pool) owns(check *clusterv1.MachineHealthCheck) bool {
	asked := check.Spec.Selector.MatchLabels
	switch p.Kind {
	case KindDeployment:
		return objects.CopiedFrom(check, machinev1.MachineDeploymentKind) == p.Name ||
			asked[clusterv1.MachineDeploymentNameLabel] == p.Name
	case KindSet:
		return objects.CopiedFrom(check, machinev1.MachineSetKind) == p.Name ||
			asked[clusterv1.MachineSetNameLabel] == format.MustFormatValue(p.Name)
	case KindMachine:
	}
	return false
}
