package migration

import (
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// sameNative reports whether the native door takes machines of the one template for
// machines of the other: it compares labels without the hash, the rest of the
// metadata, class.name, class.apiGroup and providerID, and changes the rest in
// place. A test holds it to what the door's controller compares.
func sameNative(a, b *machinev1.MachineTemplateSpec) bool {
	if !sameLabels(a.Labels, b.Labels) || a.Spec.ProviderID != b.Spec.ProviderID ||
		a.Spec.Class.Name != b.Spec.Class.Name || a.Spec.Class.APIGroup != b.Spec.Class.APIGroup {
		return false
	}
	left, right := a.ObjectMeta, b.ObjectMeta
	left.Labels, right.Labels = nil, nil
	return apiequality.Semantic.DeepEqual(left, right)
}

// sameLabels compares labels without the hash; a missing one equals an empty one.
func sameLabels(a, b map[string]string) bool {
	for _, labels := range []map[string]string{a, b} {
		for key := range labels {
			if key != machinev1.TemplateHashLabel && a[key] != b[key] {
				return false
			}
		}
	}
	return true
}

// sameClusterAPI is what Cluster API compares: version, bootstrap, infrastructure
// and failure domain. It changes the rest in place (core mdutil.MachineTemplateUpToDate).
func sameClusterAPI(a, b *clusterv1.MachineSpec) bool {
	return a.Version == b.Version && a.FailureDomain == b.FailureDomain && a.InfrastructureRef == b.InfrastructureRef &&
		apiequality.Semantic.DeepEqual(a.Bootstrap, b.Bootstrap)
}

// currentSet returns the index of the native set that has the deployment's
// template, the oldest if several have it; -1 if none has, or there is no deployment.
func (n *Native) currentSet() int {
	found := -1
	if n.Deployment == nil {
		return found
	}
	for i := range n.Sets {
		s := &n.Sets[i]
		if !s.DeletionTimestamp.IsZero() || !sameNative(&n.Deployment.Spec.Template, &s.Spec.Template) {
			continue
		}
		if found < 0 || s.CreationTimestamp.Time.Before(n.Sets[found].CreationTimestamp.Time) {
			found = i
		}
	}
	return found
}

// currentSet is that of Cluster API: of several sets with the deployment's
// template, it goes on with the one that has most replicas, then with the oldest.
func (c *ClusterAPI) currentSet() int {
	found := -1
	if c.Deployment == nil {
		return found
	}
	for i := range c.Sets {
		s := &c.Sets[i]
		if !s.DeletionTimestamp.IsZero() || !sameClusterAPI(&c.Deployment.Spec.Template.Spec, &s.Spec.Template.Spec) {
			continue
		}
		if found < 0 || better(s, &c.Sets[found]) {
			found = i
		}
	}
	return found
}

func better(a, b *clusterv1.MachineSet) bool {
	if left, right := value(a.Spec.Replicas), value(b.Spec.Replicas); left != right {
		return left > right
	}
	return a.CreationTimestamp.Time.Before(b.CreationTimestamp.Time)
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// setOf returns the index of the set that owns the machine; -1 if none does. The
// owner's UID decides, where it has one.
func (n *Native) setOf(m *machinev1.Machine) int {
	owner := ownerOf(m, machinev1.MachineSetKind)
	for i := range n.Sets {
		if owner != nil && owned(owner, n.Sets[i].UID != "", string(n.Sets[i].UID), n.Sets[i].Name) {
			return i
		}
	}
	return -1
}

// setOf returns the index of the set that owns the machine; -1 if none does.
func (c *ClusterAPI) setOf(m *clusterv1.Machine) int {
	owner := ownerOf(m, machinev1.MachineSetKind)
	for i := range c.Sets {
		if owner != nil && owned(owner, c.Sets[i].UID != "", string(c.Sets[i].UID), c.Sets[i].Name) {
			return i
		}
	}
	return -1
}

func owned(owner *metav1.OwnerReference, known bool, uid, name string) bool {
	if known && owner.UID != "" {
		return string(owner.UID) == uid
	}
	return owner.Name == name
}

// ownerOf returns the reference to the controller of an object, if it is of that kind.
func ownerOf(o metav1.Object, kind string) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != kind {
		return nil
	}
	return owner
}

// keysOf are the keys of a map in the order of text.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// lookup returns the element of that name; nil if there is none.
func lookup[T any, P interface {
	*T
	metav1.Object
}](list []T, name string) P {
	for i := range list {
		if P(&list[i]).GetName() == name {
			return &list[i]
		}
	}
	return nil
}
