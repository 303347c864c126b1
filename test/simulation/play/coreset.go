package play

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// deployment rolls out, with a surge of one.
func (c *core) deployment(cluster *clusterv1.Cluster, d *clusterv1.MachineDeployment) {
	sets := children[*clusterv1.MachineSet](c.home.server, d)
	if !d.DeletionTimestamp.IsZero() {
		for _, s := range sets {
			c.remove(s)
		}
		if len(sets) == 0 {
			put(c, d, func(o *clusterv1.MachineDeployment) {
				controllerutil.RemoveFinalizer(o, clusterv1.MachineDeploymentFinalizer)
			})
		}
		return
	}
	d = adopt(c, hold(c, d, clusterv1.MachineDeploymentFinalizer), cluster.Name, clusterRef(cluster, false))
	if d.Status.ObservedGeneration != d.Generation {
		d = tell(c, d, func(o *clusterv1.MachineDeployment) { o.Status.ObservedGeneration = o.Generation })
	}
	c.ownTemplates(cluster, &d.Spec.Template.Spec)
	if !slices.ContainsFunc(sets, func(s *clusterv1.MachineSet) bool { return sameTemplate(s, d) }) {
		c.newSet(cluster, d)
		return
	}
	c.roll(d, sets)
}

func sameTemplate(s *clusterv1.MachineSet, d *clusterv1.MachineDeployment) bool {
	return s.Spec.Template.Spec.InfrastructureRef == d.Spec.Template.Spec.InfrastructureRef
}

// ownTemplates has templates go, and move, with the Cluster.
func (c *core) ownTemplates(cluster *clusterv1.Cluster, spec *clusterv1.MachineSpec) {
	if t, found := find[*infrav1.MCMMachineTemplate](c.home.server, spec.InfrastructureRef.Name); found {
		adopt(c, t, cluster.Name, clusterRef(cluster, false))
	}
	if t, found := find[*bootstrapv1.MCMConfigTemplate](c.home.server, spec.Bootstrap.ConfigRef.Name); found {
		adopt(c, t, cluster.Name, clusterRef(cluster, false))
	}
}

func (c *core) newSet(cluster *clusterv1.Cluster, d *clusterv1.MachineDeployment) {
	s := &clusterv1.MachineSet{}
	s.Namespace, s.Name = d.Namespace, d.Name+"-"+d.Spec.Template.Spec.InfrastructureRef.Name
	s.Finalizers = []string{clusterv1.MachineSetFinalizer}
	s.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d,
		clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	s.Spec.ClusterName, s.Spec.Replicas, s.Spec.Template = d.Spec.ClusterName, new(int32(0)), *d.Spec.Template.DeepCopy()
	c.made(s)
}

func (c *core) made(o client.Object) {
	if _, err := c.home.server.Create(coreName, o); err != nil {
		c.world.trace("%s: %v", coreName, err)
	}
}

// roll moves replicas from old sets to the one of the newest template.
func (c *core) roll(d *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet) {
	var newest *clusterv1.MachineSet
	wanted, total := *d.Spec.Replicas, int32(0)
	for _, s := range sets {
		total += *s.Spec.Replicas
		if sameTemplate(s, d) {
			newest = s
		}
	}
	has := *newest.Spec.Replicas
	grown := wanted
	if has < wanted && total > has {
		grown = min(wanted, has+max(wanted+1-total, 0))
	}
	if grown != has {
		newest = put(c, newest, func(o *clusterv1.MachineSet) { o.Spec.Replicas = &grown })
	}
	total += grown - has
	unready := grown - int32(len(slices.DeleteFunc(children[*clusterv1.Machine](c.home.server, newest),
		unready)))
	spare := total - wanted - max(unready, 0)
	for _, s := range sets {
		if sameTemplate(s, d) || spare <= 0 || *s.Spec.Replicas == 0 {
			continue
		}
		less := min(spare, *s.Spec.Replicas)
		spare -= less
		put(c, s, func(o *clusterv1.MachineSet) { *o.Spec.Replicas -= less })
	}
}

// unready reports whether a Machine does not count as available.
func unready(m *clusterv1.Machine) bool {
	return !m.DeletionTimestamp.IsZero() || !m.Status.NodeRef.IsDefined() ||
		!conditions.IsTrue(m, clusterv1.MachineNodeHealthyCondition)
}

// set has as many Machines as it asks for.
func (c *core) set(cluster *clusterv1.Cluster, s *clusterv1.MachineSet) {
	machines := children[*clusterv1.Machine](c.home.server, s)
	if !s.DeletionTimestamp.IsZero() {
		for _, m := range machines {
			c.remove(m)
		}
		if len(machines) == 0 {
			put(c, s, func(o *clusterv1.MachineSet) { controllerutil.RemoveFinalizer(o, clusterv1.MachineSetFinalizer) })
		}
		return
	}
	count := int32(len(machines))
	if s.Status.ObservedGeneration != s.Generation || s.Status.Replicas == nil || *s.Status.Replicas != count {
		s = tell(c, s, func(o *clusterv1.MachineSet) {
			o.Status.ObservedGeneration, o.Status.Replicas = o.Generation, &count
		})
	}
	machines = slices.DeleteFunc(machines, func(m *clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	for range int(*s.Spec.Replicas) - len(machines) {
		c.newMachine(cluster, s)
	}
	slices.SortStableFunc(machines, func(a, b *clusterv1.Machine) int {
		return cmp.Compare(btoi(unready(b)), btoi(unready(a)))
	})
	for i := range len(machines) - int(*s.Spec.Replicas) {
		c.remove(machines[i])
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newMachine makes a Machine, and before it what it names. Those get the Machine
// as their owner only afterwards.
func (c *core) newMachine(cluster *clusterv1.Cluster, s *clusterv1.MachineSet) {
	template := s.Spec.Template.Spec
	infra, found := find[*infrav1.MCMMachineTemplate](c.home.server, template.InfrastructureRef.Name)
	boot, known := find[*bootstrapv1.MCMConfigTemplate](c.home.server, template.Bootstrap.ConfigRef.Name)
	if !found || !known {
		return
	}
	c.serial++
	meta := metav1.ObjectMeta{
		Namespace: s.Namespace, Name: fmt.Sprintf("%s-%s-%d", s.Name, c.home.name, c.serial),
		Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, clusterv1.GroupVersion.WithKind("MachineSet"))},
	}
	loose := *meta.DeepCopy()
	loose.OwnerReferences[0].Controller, loose.OwnerReferences[0].BlockOwnerDeletion = nil, nil
	loose.Annotations = maps.Clone(infra.Spec.Template.ObjectMeta.Annotations)
	c.made(&bootstrapv1.MCMConfig{ObjectMeta: *loose.DeepCopy(), Spec: boot.Spec.Template.Spec})
	c.made(&infrav1.MCMMachine{ObjectMeta: *loose.DeepCopy(), Spec: infra.Spec.Template.Spec})
	m := &clusterv1.Machine{ObjectMeta: meta, Spec: *template.DeepCopy()}
	m.Spec.ClusterName = cluster.Name
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMMachine", Name: meta.Name,
	}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: bootstrapv1.GroupVersion.Group,
		Kind:     "MCMConfig", Name: meta.Name,
	}
	c.made(m)
}
