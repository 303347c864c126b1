package recovery

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

const class = "class"

// restored is the pool "pool" of a backup: a deployment of one Machine, whose set had used
// one name. Its VMs, their machines and Nodes are added by tests.
func restored() *State {
	s := &State{Objects: read.Objects{
		Namespace: "default", MachineClasses: []machinev1.MachineClass{*fixture.MachineClass(class)},
	}}
	d := fixture.MachineDeployment("pool", class, 1)
	set := setOf(d, "pool-bcdfg", "1", 1)
	set.Annotations[machinev1.OrdinalsAnnotation] = "next=1"
	m := machineOf(set, 0)
	s.Deployments, s.Sets, s.Machines = []machinev1.MachineDeployment{*d}, []machinev1.MachineSet{*set},
		[]machinev1.Machine{*m}
	s.addNode("node-0", "sim:///zone/vm-0")
	return s
}

func setOf(d *machinev1.MachineDeployment, name, revision string, replicas int32) *machinev1.MachineSet {
	set := fixture.MachineSet(name, class, replicas, fixture.Annotations[*machinev1.MachineSet](
		machinev1.RevisionAnnotation, revision, machinev1.DesiredReplicasAnnotation, fmt.Sprint(d.Spec.Replicas),
		machinev1.MaxReplicasAnnotation, fmt.Sprint(d.Spec.Replicas+1),
	))
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	set.Spec.Template.Labels = map[string]string{machinev1.NameLabel: "pool", machinev1.TemplateHashLabel: name}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
	set.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(d, machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind)),
	}
	return set
}

// machineOf is the Machine that a set makes with an ordinal; its VM and Node have the number.
func machineOf(set *machinev1.MachineSet, ordinal int64) *machinev1.Machine {
	names := naming.NewNames(set)
	m := fixture.Machine(names.Name(ordinal), class, fixture.Annotations[*machinev1.Machine](
		machinev1.OwnerIDAnnotation, names.OwnerID(ordinal),
	))
	m.Labels = map[string]string{
		machinev1.NameLabel: "pool", machinev1.TemplateHashLabel: set.Name,
		machinev1.NodeLabel: fmt.Sprintf("node-%d", ordinal),
	}
	m.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind)),
	}
	m.Spec.ProviderID = fmt.Sprintf("sim:///region/vm-%d", ordinal)
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	return m
}

func (s *State) addNode(name, providerID string) {
	node := fixture.Node(name)
	node.Spec.ProviderID = providerID
	s.Nodes = append(s.Nodes, *node)
}

// lose lists the VM of the machine that the pool's set made with that ordinal.
func (s *State) lose(t *testing.T, ordinal int64, change ...func(*machinev1.Orphan)) {
	t.Helper()
	names := naming.NewNames(&s.Sets[0])
	s.list(t, machinev1.HeldOrphansAnnotation, machinev1.Orphan{
		ID: fmt.Sprintf("vm-%d", ordinal), Machine: names.Name(ordinal), OwnerID: names.OwnerID(ordinal),
		ProviderID: fmt.Sprintf("sim:///region/vm-%d", ordinal), NodeProviderID: fmt.Sprintf("sim:///zone/vm-%d", ordinal),
		Node: fmt.Sprintf("node-%d", ordinal), Zone: "zone",
	}, change...)
	s.addNode(fmt.Sprintf("node-%d", ordinal), fmt.Sprintf("sim:///zone/vm-%d", ordinal))
}

// list adds a VM to what the class lists.
func (s *State) list(t *testing.T, key string, o machinev1.Orphan, change ...func(*machinev1.Orphan)) {
	t.Helper()
	for _, f := range change {
		f(&o)
	}
	c := &s.MachineClasses[0]
	var held machinev1.HeldOrphans
	if text := c.Annotations[key]; text != "" {
		if err := json.Unmarshal([]byte(text), &held); err != nil {
			t.Fatal(err)
		}
	}
	held.Count++
	held.Classes = []string{"default/" + class}
	held.Orphans = append(held.Orphans, o)
	text, err := json.Marshal(held)
	if err != nil {
		t.Fatal(err)
	}
	machinev1.SetAnnotation(c, key, string(text))
	if s.Listings, err = Listings(s.MachineClasses); err != nil {
		t.Fatal(err)
	}
}

// cluster is the pool "pool" of Cluster "c" in a backup, with one of two machines.
func cluster() *State {
	s := &State{Objects: read.Objects{
		Namespace: "default", MachineClasses: []machinev1.MachineClass{*fixture.MachineClass(class)},
	}}
	d := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool", UID: "uid-pool"}}
	d.Spec.ClusterName, d.Spec.Replicas = "c", new(int32(1))
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "pool-bcdfg", UID: "uid-set", Labels: map[string]string{
			clusterv1.MachineDeploymentNameLabel: "pool",
		},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, clusterv1.GroupVersion.WithKind(machinev1.MachineDeploymentKind)),
		},
	}}
	set.Spec.ClusterName, set.Spec.Replicas = "c", new(int32(1))
	set.Spec.Template.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", "pool": "pool"}
	set.Spec.Template.Spec.ClusterName = "c"
	set.Spec.Template.Spec.InfrastructureRef.Name = "template"
	set.Spec.Template.Spec.Bootstrap.ConfigRef.Name = "config"
	set.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"pool": "pool"}}
	template := &infrav1.MCMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "template"}}
	template.Spec.Template.Spec.MachineClassRef.Name = class
	kept := fixture.CAPIMachine("pool-bcdfg-22222", "c")
	kept.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind(machinev1.MachineSetKind)),
	}
	infra := fixture.MCMCluster("c", fixture.Annotations[*infrav1.MCMCluster](machinev1.OwnerIDAnnotation, "cluster-id"))
	s.Clusters, s.MCMClusters = []clusterv1.Cluster{*fixture.Cluster("c")}, []infrav1.MCMCluster{*infra}
	s.ClusterDeployments, s.ClusterSets = []clusterv1.MachineDeployment{*d}, []clusterv1.MachineSet{*set}
	s.ClusterMachines, s.MachineTemplates = []clusterv1.Machine{*kept}, []infrav1.MCMMachineTemplate{*template}
	return s
}

// loseOfCluster lists the VM of a machine of the Cluster's pool.
func (s *State) loseOfCluster(t *testing.T, machine string, change ...func(*machinev1.Orphan)) {
	t.Helper()
	s.list(t, machinev1.HeldClusterAPIOrphansAnnotation, machinev1.Orphan{
		ID: "vm-" + machine, Machine: machine, OwnerID: "owner-of-" + machine, ProviderID: "sim:///region/vm-" + machine,
		NodeProviderID: "sim:///zone/vm-" + machine, Node: machine, Zone: "zone", ClusterID: "cluster-id",
	}, change...)
	s.addNode(machine, "sim:///zone/vm-"+machine)
}
