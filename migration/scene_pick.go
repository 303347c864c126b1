package migration

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// owners finds what belongs together without looking through everything again.
type owners struct {
	*Surroundings
	sets, machines               map[string][]int // native, by key of the owner
	clusterSets, clusterMachines map[string][]int
	infra                        map[string]int // MCMMachines by name
}

func newOwners(s *Surroundings) *owners {
	x := &owners{
		Surroundings: s, sets: map[string][]int{}, machines: map[string][]int{},
		clusterSets: map[string][]int{}, clusterMachines: map[string][]int{}, infra: map[string]int{},
	}
	for i := range s.Sets {
		put(x.sets, &s.Sets[i], machinev1.MachineDeploymentKind, i)
	}
	for i := range s.Machines {
		put(x.machines, &s.Machines[i], machinev1.MachineSetKind, i)
	}
	for i := range s.ClusterSets {
		put(x.clusterSets, &s.ClusterSets[i], machinev1.MachineDeploymentKind, i)
	}
	for i := range s.ClusterMachines {
		put(x.clusterMachines, &s.ClusterMachines[i], machinev1.MachineSetKind, i)
	}
	for i := range s.MCMMachines {
		x.infra[s.MCMMachines[i].Name] = i
	}
	return x
}

// put notes that the object with that index is owned: by an object's UID, and by
// its name for one that does not exist any more.
func put(into map[string][]int, o metav1.Object, kind string, i int) {
	if owner := ownerOf(o, kind); owner != nil {
		into["uid/"+string(owner.UID)] = append(into["uid/"+string(owner.UID)], i)
		into["name/"+owner.Name] = append(into["name/"+owner.Name], i)
	}
}

// ownedBy returns what an object owns; by its name if there is none.
func ownedBy(in map[string][]int, uid types.UID, name string) []int {
	if uid != "" {
		return in["uid/"+string(uid)]
	}
	return in["name/"+name]
}

// scene picks a pool.
func (x *owners) scene(p Pool, cluster string) *Scene {
	s := &Scene{Pool: p, Nodes: map[string]*corev1.Node{}, around: x.Surroundings}
	x.native(s)
	x.clusterAPI(s)
	s.Cluster.Name = cmp.Or(cluster, s.ClusterAPI.belongsTo())
	x.templates(s)
	x.cluster(s)
	s.Native.Classes = x.Classes
	return s
}

func (x *owners) native(s *Scene) {
	var sets []int
	switch s.Pool.Kind {
	case KindDeployment:
		uid := types.UID("")
		if d := lookup(x.Deployments, s.Pool.Name); d != nil {
			s.Native.Deployment, uid = d, d.UID
		}
		sets = ownedBy(x.sets, uid, s.Pool.Name)
	case KindSet:
		if i := slices.IndexFunc(x.Sets, func(o machinev1.MachineSet) bool { return o.Name == s.Pool.Name }); i >= 0 {
			sets = []int{i}
		}
	case KindMachine:
		if m := lookup(x.Machines, s.Pool.Name); m != nil {
			s.Native.Machines = append(s.Native.Machines, *m)
		}
	}
	for _, i := range sets {
		s.Native.Sets = append(s.Native.Sets, x.Sets[i])
		for _, m := range ownedBy(x.machines, x.Sets[i].UID, x.Sets[i].Name) {
			s.Native.Machines = append(s.Native.Machines, x.Machines[m])
		}
	}
	slices.SortFunc(s.Native.Sets, func(a, b machinev1.MachineSet) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Native.Machines, func(a, b machinev1.Machine) int { return cmp.Compare(a.Name, b.Name) })
}

func (x *owners) clusterAPI(s *Scene) {
	var sets []int
	c := &s.ClusterAPI
	switch s.Pool.Kind {
	case KindDeployment:
		uid := types.UID("")
		if d := lookup(x.ClusterDeployments, s.Pool.Name); d != nil {
			c.Deployment, uid = d, d.UID
		}
		sets = ownedBy(x.clusterSets, uid, s.Pool.Name)
	case KindSet:
		if i := slices.IndexFunc(x.ClusterSets, func(o clusterv1.MachineSet) bool { return o.Name == s.Pool.Name }); i >= 0 {
			sets = []int{i}
		}
	case KindMachine:
		if m := lookup(x.ClusterMachines, s.Pool.Name); m != nil {
			c.Machines = append(c.Machines, *m)
		}
	}
	for _, i := range sets {
		c.Sets = append(c.Sets, x.ClusterSets[i])
		for _, m := range ownedBy(x.clusterMachines, x.ClusterSets[i].UID, x.ClusterSets[i].Name) {
			c.Machines = append(c.Machines, x.ClusterMachines[m])
		}
	}
	slices.SortFunc(c.Sets, func(a, b clusterv1.MachineSet) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Machines, func(a, b clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	x.infraOf(s)
}

// infraOf picks what Machines have: those of the pool, and those that are gone but
// have left a copy behind.
func (x *owners) infraOf(s *Scene) {
	c, wanted := &s.ClusterAPI, map[string]bool{}
	for i := range c.Machines {
		if c.Machines[i].Spec.InfrastructureRef.Kind == kindMCMMachine {
			wanted[c.Machines[i].Spec.InfrastructureRef.Name] = true
		}
	}
	for i := range s.Native.Machines {
		name := s.Native.Machines[i].Name
		if at, there := x.infra[name]; there && originOf(&x.MCMMachines[at], machinev1.MachineKind) == name {
			wanted[name] = true
		}
	}
	for _, name := range keysOf(wanted) {
		if at, there := x.infra[name]; there {
			c.MCMMachines = append(c.MCMMachines, x.MCMMachines[at])
		}
		key := client.ObjectKey{Namespace: x.Namespace, Name: name + bootDataSuffix}
		if o := x.Secrets[key]; o != nil && originOf(o, machinev1.MachineKind) != "" {
			c.BootstrapSecrets = append(c.BootstrapSecrets, corev1.Secret{ObjectMeta: o.ObjectMeta})
		}
	}
}

// templates picks the templates that the pool uses, and those that were made for it.
func (x *owners) templates(s *Scene) {
	used := map[string]bool{}
	for _, t := range s.ClusterAPI.machineTemplates() {
		used[t.Spec.InfrastructureRef.Kind+"/"+t.Spec.InfrastructureRef.Name] = true
		used[t.Spec.Bootstrap.ConfigRef.Kind+"/"+t.Spec.Bootstrap.ConfigRef.Name] = true
	}
	of := func(o metav1.Object) bool {
		return originOf(o, machinev1.MachineDeploymentKind) == s.Pool.Name && s.Pool.Kind == KindDeployment ||
			originOf(o, machinev1.MachineSetKind) == s.Pool.Name && s.Pool.Kind == KindSet
	}
	for i := range x.MachineTemplates {
		if t := &x.MachineTemplates[i]; of(t) || used[kindMCMMachineTemplate+"/"+t.Name] {
			s.ClusterAPI.MachineTemplates = append(s.ClusterAPI.MachineTemplates, *t)
		}
	}
	for i := range x.ConfigTemplates {
		if t := &x.ConfigTemplates[i]; of(t) || used[kindMCMConfigTemplate+"/"+t.Name] {
			s.ClusterAPI.ConfigTemplates = append(s.ClusterAPI.ConfigTemplates, *t)
		}
	}
	slices.SortFunc(s.ClusterAPI.MachineTemplates, func(a, b infrav1.MCMMachineTemplate) int {
		return cmp.Compare(a.Name, b.Name)
	})
	slices.SortFunc(s.ClusterAPI.ConfigTemplates, func(a, b bootstrapv1.MCMConfigTemplate) int {
		return cmp.Compare(a.Name, b.Name)
	})
	s.ClusterAPI.HealthCheck = checkOf(x.HealthChecks, &s.ClusterAPI, s.Pool)
}

// belongsTo is the Cluster of the pool's objects; empty if there are none.
func (c *ClusterAPI) belongsTo() string {
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

// machineTemplates are those of the head and of its sets.
func (c *ClusterAPI) machineTemplates() []*clusterv1.MachineTemplateSpec {
	var out []*clusterv1.MachineTemplateSpec
	if c.Deployment != nil {
		out = append(out, &c.Deployment.Spec.Template)
	}
	for i := range c.Sets {
		out = append(out, &c.Sets[i].Spec.Template)
	}
	return out
}

func (x *owners) cluster(s *Scene) {
	s.Cluster.Cluster = lookup(x.Clusters, s.Cluster.Name)
	s.Cluster.Infra = lookup(x.MCMClusters, s.Cluster.Name)
	s.Cluster.ControlPlane = lookup(x.ControlPlanes, s.Cluster.Name)
	if o := s.Cluster.Cluster; o != nil {
		if s.Cluster.Infra = nil; o.Spec.InfrastructureRef.Kind == "MCMCluster" {
			s.Cluster.Infra = lookup(x.MCMClusters, o.Spec.InfrastructureRef.Name)
		}
		if s.Cluster.ControlPlane = nil; o.Spec.ControlPlaneRef.Kind == "MCMExternalControlPlane" {
			s.Cluster.ControlPlane = lookup(x.ControlPlanes, o.Spec.ControlPlaneRef.Name)
		}
	}
}
