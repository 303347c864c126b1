package migration

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// SameClusterAPITemplate is what Cluster API compares: version, bootstrap, infrastructure
// and failure domain. It changes the rest in place (core mdutil.MachineTemplateUpToDate).
func SameClusterAPITemplate(a, b *clusterv1.MachineSpec) bool {
	return a.Version == b.Version && a.FailureDomain == b.FailureDomain && a.InfrastructureRef == b.InfrastructureRef &&
		apiequality.Semantic.DeepEqual(a.Bootstrap, b.Bootstrap)
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
