package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// ReadPool reads what there is of a pool on both APIs, and its nodes. control is
// the cluster with the objects, target that with the nodes; both are to read from
// the API server. cluster names the Cluster that the pool is moved to; empty is the
// one that its move goes to or that it belongs to, if there is one. What does not
// exist is left empty; an error is one of the API server's.
func ReadPool(ctx context.Context, control, target client.Reader, p Pool, cluster string) (*PoolState, error) {
	fleet, err := ReadFleet(ctx, Readers{control, target}, p.Namespace, cluster, p)
	if err != nil {
		return nil, err
	}
	return fleet.Pools[0], nil
}

// Readers read the cluster with the objects and that with the nodes, from their API servers.
type Readers struct {
	Control, Target client.Reader
}

// Fleet is what is known of several pools of a namespace at one time.
type Fleet struct {
	Pools []*PoolState
}

// ReadFleet reads pools as ReadPool does, with the same few calls for any number
// of pools; no pools are all that are on either API.
func ReadFleet(ctx context.Context, from Readers, namespace, cluster string, pools ...Pool) (*Fleet, error) {
	around, err := ReadNamespace(ctx, from.Control, namespace)
	if err != nil {
		return nil, err
	}
	if len(pools) == 0 {
		pools = around.pools()
	}
	records, err := Records(ctx, from.Control, namespace)
	if err != nil {
		return nil, err
	}
	f := &Fleet{}
	nodes := newNodeReader(from.Target)
	index := newOwners(around)
	for _, p := range pools {
		record := recordOf(records, p)
		s := index.state(p, cmp.Or(cluster, record.cluster()))
		s.Record = record
		if s.Nodes, err = nodes.of(ctx, s); err != nil {
			return nil, err
		}
		f.Pools = append(f.Pools, s)
	}
	return f, nil
}

// recordOf is the record of a pool; nil if it was never moved.
func recordOf(records []Record, p Pool) *Record {
	if i := slices.IndexFunc(records, func(r Record) bool { return r.Pool == p }); i >= 0 {
		return &records[i]
	}
	return nil
}

// pools are the pools of both APIs, each once, MachineDeployments first, by name.
func (s *Namespace) pools() []Pool {
	seen := map[Pool]bool{}
	add := func(kind Kind, list []client.Object) {
		for _, o := range list {
			if kind == KindDeployment || metav1.GetControllerOf(o) == nil {
				seen[Pool{kind, s.Namespace, o.GetName()}] = true
			}
		}
	}
	add(KindDeployment, slices.Concat(objects.Pointers(s.Deployments), objects.Pointers(s.ClusterDeployments)))
	add(KindSet, slices.Concat(objects.Pointers(s.Sets), objects.Pointers(s.ClusterSets)))
	add(KindMachine, objects.Pointers(s.Machines))
	add(KindMachine, slices.DeleteFunc(objects.Pointers(s.ClusterMachines), func(o client.Object) bool {
		return o.(*clusterv1.Machine).Spec.InfrastructureRef.Kind != objects.KindMCMMachine
	}))
	return slices.SortedFunc(maps.Keys(seen), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Kind.rank(), b.Kind.rank()), cmp.Compare(a.Name, b.Name))
	})
}

// On is the fleet without the pools that are not on that API, or not any more.
func (f *Fleet) On(d API) *Fleet {
	out := *f
	out.Pools = slices.DeleteFunc(slices.Clone(f.Pools), func(s *PoolState) bool {
		if s.Record != nil && s.Record.Phase != PhaseFinished {
			return s.Record.Authority() != d
		}
		return !s.On(d)
	})
	return &out
}

// Namespace are what there is of both APIs in one namespace: what pools are
// read from, and what they may collide with.
type Namespace struct {
	read.Objects

	Classes map[string]*machinev1.MachineClass // by name
}

// Apart reports whether two API servers are known to be those of two clusters: each has
// a namespace kube-system of its own. One that does not show it is not known.
func Apart(ctx context.Context, control, target client.Reader) (bool, error) {
	var ids []types.UID
	for _, c := range []client.Reader{control, target} {
		var system corev1.Namespace
		err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
		}
		ids = append(ids, system.UID)
	}
	return ids[0] != ids[1], nil
}

// ReadNamespace reads a namespace of the cluster with the objects.
func ReadNamespace(ctx context.Context, c client.Reader, namespace string) (*Namespace, error) {
	found, err := read.List(ctx, c, namespace, read.Classes, read.Deployments, read.Sets, read.Machines, read.Clusters,
		read.ControlPlanes, read.ClusterDeployments, read.ClusterSets, read.ClusterMachines, read.MCMMachines,
		read.MachineTemplates, read.ConfigTemplates, read.HealthChecks)
	if err == nil {
		err = errors.Join(found.Require(), found.ReadLeases(ctx, c), found.ReadSecrets(ctx, c))
	}
	if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	s := &Namespace{Objects: *found, Classes: map[string]*machinev1.MachineClass{}}
	for i := range s.MachineClasses {
		s.Classes[s.MachineClasses[i].Name] = &s.MachineClasses[i]
	}
	return s, nil
}

// ForeignLeases are findings about leases that somebody else holds: two managers that do
// not know of each other must not work on the same machines.
func (s *Namespace) ForeignLeases(now time.Time) []Finding {
	var out []Finding
	for i := range s.Leases {
		l := &s.Leases[i]
		if HolderOf(l, now) != HolderForeign {
			continue
		}
		out = append(out, Blocked.Finding(objects.Name("Lease", l), "spec.holderIdentity",
			fmt.Sprintf("%s holds it, which is no manager of this project: Machine Controller Manager most likely",
				objects.Value(l.Spec.HolderIdentity)), "take the fleet over by the native API first: kubectl mcm takeover check"))
	}
	return out
}

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
	put(x.sets, s.Sets, machinev1.MachineDeploymentKind)
	put(x.machines, s.Machines, machinev1.MachineSetKind)
	put(x.clusterSets, s.ClusterSets, machinev1.MachineDeploymentKind)
	put(x.clusterMachines, s.ClusterMachines, machinev1.MachineSetKind)
	for i := range s.MCMMachines {
		x.infra[s.MCMMachines[i].Name] = i
	}
	return x
}

// put notes the indices of objects that are owned: by an object's UID, and by
// its name for one that does not exist any more.
func put[T any, P objects.Object[T]](into map[string][]int, list []T, kind string) {
	for i := range list {
		if owner := objects.ControllerOf(P(&list[i]), kind); owner != nil {
			into["uid/"+string(owner.UID)] = append(into["uid/"+string(owner.UID)], i)
			into["name/"+owner.Name] = append(into["name/"+owner.Name], i)
		}
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
	n := &s.Native
	n.Deployment, n.Sets, n.Machines = pick(s.Pool, x.Deployments, x.Sets, x.Machines, x.sets, x.machines)
}

func (x *owners) clusterAPI(s *PoolState) {
	c := &s.ClusterAPI
	c.Deployment, c.Sets, c.Machines = pick(s.Pool, x.ClusterDeployments, x.ClusterSets, x.ClusterMachines, x.clusterSets,
		x.clusterMachines)
	x.infraOf(s)
}

// pick returns what there is of a pool on one API. setsOf and machinesOf have the indices of what an owner has.
func pick[D, S, M any, PD objects.Object[D], PS objects.Object[S], PM objects.Object[M]](p Pool,
	deployments []D, sets []S, machines []M, setsOf, machinesOf map[string][]int,
) (head PD, ofPool []S, members []M) {
	var found []int
	switch p.Kind {
	case KindDeployment:
		uid := types.UID("")
		if head = objects.Find[D, PD](deployments, p.Name); head != nil {
			uid = head.GetUID()
		}
		found = ownedBy(setsOf, uid, p.Name)
	case KindSet:
		if i := slices.IndexFunc(sets, func(s S) bool { return PS(&s).GetName() == p.Name }); i >= 0 {
			found = []int{i}
		}
	case KindMachine:
		if m := objects.Find[M, PM](machines, p.Name); m != nil {
			members = append(members, *m)
		}
	}
	for _, i := range found {
		ofPool = append(ofPool, sets[i])
		set := PS(&sets[i])
		for _, m := range ownedBy(machinesOf, set.GetUID(), set.GetName()) {
			members = append(members, machines[m])
		}
	}
	objects.Sort[S, PS](ofPool)
	objects.Sort[M, PM](members)
	return head, ofPool, members
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
	objects.Sort(s.ClusterAPI.MachineTemplates)
	objects.Sort(s.ClusterAPI.ConfigTemplates)
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

// Node are what counts of a machine's node.
type Node struct {
	Object         *corev1.Node
	KubeletVersion string // of the kubelet
}

// NodesByMachine finds the node of each native machine: by the machine's label,
// else by the node's.
func (s *PoolState) NodesByMachine() map[string]*Node {
	byLabel := map[string]*corev1.Node{}
	for _, name := range objects.Keys(s.Nodes) {
		if machine := s.Nodes[name].Labels[machinev1.MachineNameLabel]; machine != "" {
			byLabel[machine] = s.Nodes[name]
		}
	}
	out := map[string]*Node{}
	for i := range s.Native.Machines {
		m := &s.Native.Machines[i]
		node := s.Nodes[m.Labels[machinev1.NodeLabel]]
		if node == nil && m.Labels[machinev1.NodeLabel] == "" {
			node = byLabel[m.Name]
		}
		if node != nil {
			out[m.Name] = &Node{Object: node, KubeletVersion: node.Status.NodeInfo.KubeletVersion}
		}
	}
	return out
}

// fewNodes is up to how many Nodes are read one by one.
const fewNodes = 20

// nodeReader reads Nodes one by one where these are few and their names are known,
// else all of them, once.
type nodeReader struct {
	client.Reader
	all map[string]*corev1.Node // nil: not read yet
}

func newNodeReader(target client.Reader) *nodeReader { return &nodeReader{Reader: target} }

func (r *nodeReader) of(ctx context.Context, s *PoolState) (map[string]*corev1.Node, error) {
	names, known := s.nodeNames()
	if r.all == nil && (!known || len(names) > fewNodes) {
		var list corev1.NodeList
		if err := r.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		r.all = map[string]*corev1.Node{}
		for i := range list.Items {
			r.all[list.Items[i].Name] = &list.Items[i]
		}
	}
	if r.all != nil {
		return s.pick(r.all, names), nil
	}
	found := map[string]*corev1.Node{}
	for _, name := range objects.Keys(names) {
		node := &corev1.Node{}
		err := r.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read node %s: %w", name, err)
		}
		if err == nil {
			found[name] = node
		}
	}
	return found, nil
}

// nodeNames are the names of the pool's nodes as far as they are written down, and
// whether that is all of them.
func (s *PoolState) nodeNames() (names map[string]bool, all bool) {
	names, all = map[string]bool{}, true
	note := func(name string) {
		if names[name] = true; name == "" {
			delete(names, name)
			all = false
		}
	}
	for i := range s.Native.Machines {
		note(s.Native.Machines[i].Labels[machinev1.NodeLabel])
	}
	for i := range s.ClusterAPI.Machines {
		if s.Native.Empty() || s.ClusterAPI.Machines[i].Status.NodeRef.Name != "" {
			note(s.ClusterAPI.Machines[i].Status.NodeRef.Name)
		}
	}
	return names, all
}

// pick returns the nodes with those names, those that say whose they are, and those
// whose providerID a Machine has.
func (s *PoolState) pick(all map[string]*corev1.Node, names map[string]bool) map[string]*corev1.Node {
	machines, ids := map[string]bool{}, map[string]bool{}
	for i := range s.Native.Machines {
		machines[s.Native.Machines[i].Name] = true
	}
	for i := range s.ClusterAPI.MCMMachines {
		machines[s.ClusterAPI.MCMMachines[i].Name] = true
		ids[s.ClusterAPI.MCMMachines[i].Spec.ProviderID] = true
	}
	delete(ids, "")
	found := map[string]*corev1.Node{}
	for name, node := range all {
		if names[name] || machines[node.Labels[machinev1.MachineNameLabel]] || ids[node.Spec.ProviderID] {
			found[name] = node
		}
	}
	return found
}
