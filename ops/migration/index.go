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
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// owners finds what belongs together without looking through everything again.
type owners struct {
	*Namespace
	sets, machines               map[string][]int // native, by key of the owner
	clusterSets, clusterMachines map[string][]int
	infra                        map[string]int // MCMMachines by name
}

func newOwners(s *Namespace) *owners {
	x := &owners{
		Namespace: s, sets: map[string][]int{}, machines: map[string][]int{},
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
	if owner := objects.ControllerOf(o, kind); owner != nil {
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

// state picks a pool.
func (x *owners) state(p Pool, cluster string) *PoolState {
	s := &PoolState{Pool: p, Nodes: map[string]*corev1.Node{}, Around: x.Namespace}
	x.native(s)
	x.clusterAPI(s)
	s.Cluster.Name = cmp.Or(cluster, s.ClusterAPI.ClusterName())
	x.templates(s)
	x.cluster(s)
	s.Native.Classes = x.Classes
	return s
}

func (x *owners) native(s *PoolState) {
	var sets []int
	switch s.Pool.Kind {
	case KindDeployment:
		uid := types.UID("")
		if d := objects.Find(x.Deployments, s.Pool.Name); d != nil {
			s.Native.Deployment, uid = d, d.UID
		}
		sets = ownedBy(x.sets, uid, s.Pool.Name)
	case KindSet:
		if i := slices.IndexFunc(x.Sets, func(o machinev1.MachineSet) bool { return o.Name == s.Pool.Name }); i >= 0 {
			sets = []int{i}
		}
	case KindMachine:
		if m := objects.Find(x.Machines, s.Pool.Name); m != nil {
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

func (x *owners) clusterAPI(s *PoolState) {
	var sets []int
	c := &s.ClusterAPI
	switch s.Pool.Kind {
	case KindDeployment:
		uid := types.UID("")
		if d := objects.Find(x.ClusterDeployments, s.Pool.Name); d != nil {
			c.Deployment, uid = d, d.UID
		}
		sets = ownedBy(x.clusterSets, uid, s.Pool.Name)
	case KindSet:
		if i := slices.IndexFunc(x.ClusterSets, func(o clusterv1.MachineSet) bool { return o.Name == s.Pool.Name }); i >= 0 {
			sets = []int{i}
		}
	case KindMachine:
		if m := objects.Find(x.ClusterMachines, s.Pool.Name); m != nil {
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
func (x *owners) infraOf(s *PoolState) {
	c, wanted := &s.ClusterAPI, map[string]bool{}
	for i := range c.Machines {
		if c.Machines[i].Spec.InfrastructureRef.Kind == objects.KindMCMMachine {
			wanted[c.Machines[i].Spec.InfrastructureRef.Name] = true
		}
	}
	for i := range s.Native.Machines {
		name := s.Native.Machines[i].Name
		if at, there := x.infra[name]; there && objects.CopiedFrom(&x.MCMMachines[at], machinev1.MachineKind) == name {
			wanted[name] = true
		}
	}
	for _, name := range objects.Keys(wanted) {
		if at, there := x.infra[name]; there {
			c.MCMMachines = append(c.MCMMachines, x.MCMMachines[at])
		}
		key := client.ObjectKey{Namespace: x.Objects.Namespace, Name: name + objects.BootDataSuffix}
		if o := x.Secrets[key]; o != nil && objects.CopiedFrom(o, machinev1.MachineKind) != "" {
			c.BootstrapSecrets = append(c.BootstrapSecrets, corev1.Secret{ObjectMeta: o.ObjectMeta})
		}
	}
}

// templates picks the templates that the pool uses, and those that were made for it.
func (x *owners) templates(s *PoolState) {
	used := map[string]bool{}
	for _, t := range s.ClusterAPI.Templates() {
		used[t.Spec.InfrastructureRef.Kind+"/"+t.Spec.InfrastructureRef.Name] = true
		used[t.Spec.Bootstrap.ConfigRef.Kind+"/"+t.Spec.Bootstrap.ConfigRef.Name] = true
	}
	for i := range x.MachineTemplates {
		if t := &x.MachineTemplates[i]; madeFor(t, s.Pool) || used[objects.KindMCMMachineTemplate+"/"+t.Name] {
			s.ClusterAPI.MachineTemplates = append(s.ClusterAPI.MachineTemplates, *t)
		}
	}
	for i := range x.ConfigTemplates {
		if t := &x.ConfigTemplates[i]; madeFor(t, s.Pool) || used[objects.KindMCMConfigTemplate+"/"+t.Name] {
			s.ClusterAPI.ConfigTemplates = append(s.ClusterAPI.ConfigTemplates, *t)
		}
	}
	slices.SortFunc(s.ClusterAPI.MachineTemplates, func(a, b infrav1.MCMMachineTemplate) int {
		return cmp.Compare(a.Name, b.Name)
	})
	slices.SortFunc(s.ClusterAPI.ConfigTemplates, func(a, b bootstrapv1.MCMConfigTemplate) int {
		return cmp.Compare(a.Name, b.Name)
	})
	s.ClusterAPI.HealthCheck = CheckOf(x.HealthChecks, &s.ClusterAPI, s.Pool)
}

// madeFor reports whether a template was made for the pool.
func madeFor(o metav1.Object, p Pool) bool {
	return objects.CopiedFrom(o, machinev1.MachineDeploymentKind) == p.Name && p.Kind == KindDeployment ||
		objects.CopiedFrom(o, machinev1.MachineSetKind) == p.Name && p.Kind == KindSet
}

func (x *owners) cluster(s *PoolState) {
	s.Cluster.Cluster = objects.Find(x.Clusters, s.Cluster.Name)
	s.Cluster.ControlPlane = objects.Find(x.ControlPlanes, s.Cluster.Name)
	if o := s.Cluster.Cluster; o != nil {
		if s.Cluster.ControlPlane = nil; o.Spec.ControlPlaneRef.Kind == "MCMExternalControlPlane" {
			s.Cluster.ControlPlane = objects.Find(x.ControlPlanes, o.Spec.ControlPlaneRef.Name)
		}
	}
}
