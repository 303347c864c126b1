package migration

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

const (
	testNamespace = "garden"
	testVersion   = "v1.36.3"
)

var testBirth = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// nativePool is a healthy pool of n machines, as the native door and MCM show it.
func nativePool(name string, n int) *Scene {
	class := machinev1.ClassSpec{APIGroup: machinev1.GroupVersion.Group, Kind: machinev1.MachineClassKind, Name: name +
		"-class"}
	template := machinev1.MachineTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"name": name, "pool": name},
			Annotations: map[string]string{"team": "a"},
		},
		Spec: machinev1.MachineSpec{Class: class, NodeTemplateSpec: machinev1.NodeTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"role": "worker"},
				Annotations: map[string]string{"note": "x"},
			},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
				Key: "dedicated", Value: "a",
				Effect: corev1.TaintEffectNoSchedule,
			}}},
		}},
	}
	d := &machinev1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name), Generation: 2, CreationTimestamp: testBirth,
			Finalizers: []string{machinev1.Finalizer}, Annotations: map[string]string{machinev1.RevisionAnnotation: "3"},
		},
		Spec: machinev1.MachineDeploymentSpec{
			Replicas: int32(n), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}},
			Template: template,
			Strategy: machinev1.MachineDeploymentStrategy{
				Type: machinev1.RollingUpdateStrategyType,
				RollingUpdate: &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: machinev1.UpdateConfiguration{
					MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromString("20%")),
				}},
			},
		},
		Status: machinev1.MachineDeploymentStatus{ObservedGeneration: 2},
	}
	s := &Scene{Pool: Pool{KindDeployment, testNamespace, name}, Nodes: map[string]*corev1.Node{}}
	s.Native.Deployment = d
	s.Native.Classes = map[string]*machinev1.MachineClass{class.Name: {
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: class.Name,
			Finalizers: []string{machinev1.Finalizer},
		},
		ProviderSpec: runtime.RawExtension{Raw: []byte("{}")}, SecretRef: &corev1.SecretReference{
			Namespace: testNamespace,
			Name:      "cloud",
		},
	}}
	addSet(s, name+"-abcde", "1234567890", template, n)
	s.Cluster.Name = "shoot"
	return s
}

// addSet adds a native set with n machines and their nodes.
func addSet(s *Scene, name, hash string, template machinev1.MachineTemplateSpec, n int) {
	template = *template.DeepCopy()
	template.Labels[machinev1.TemplateHashLabel] = hash
	selector := s.Native.Deployment.Spec.Selector.DeepCopy()
	selector.MatchLabels[machinev1.TemplateHashLabel] = hash
	owner := *metav1.NewControllerRef(s.Native.Deployment,
		machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind))
	set := machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name), Labels: with(template.Labels),
			OwnerReferences:   []metav1.OwnerReference{owner},
			CreationTimestamp: metav1.NewTime(testBirth.Add(time.Duration(len(s.Native.Sets)) * time.Hour)),
			Annotations:       map[string]string{machinev1.RevisionAnnotation: "3"}, Finalizers: []string{machinev1.Finalizer},
		},
		Spec: machinev1.MachineSetSpec{Replicas: int32(n), Selector: selector, Template: template},
	}
	for i := range n {
		addMachine(s, &set, fmt.Sprintf("%s-%05d", name, i))
	}
	s.Native.Sets = append(s.Native.Sets, set)
}

func addMachine(s *Scene, set *machinev1.MachineSet, name string) {
	node := "node-of-" + name
	labels := with(set.Spec.Template.Labels, map[string]string{machinev1.NodeLabel: node})
	owner := *metav1.NewControllerRef(set, machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))
	m := machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{owner},
			Annotations: with(set.Spec.Template.Annotations, map[string]string{
				machinev1.PriorityAnnotation: "3",
				machinev1.OwnerIDAnnotation:  "owner-" + name,
			}),
			Finalizers: []string{machinev1.Finalizer}, CreationTimestamp: testBirth,
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
		Status: machinev1.MachineStatus{CurrentStatus: machinev1.CurrentStatus{
			Phase:          machinev1.MachineRunning,
			LastUpdateTime: testBirth,
		}},
	}
	m.Spec.ProviderID = "sim:///region/i-" + name
	s.Native.Machines = append(s.Native.Machines, m)
	s.Nodes[node] = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node, Labels: map[string]string{machinev1.MachineNameLabel: name},
			Finalizers: []string{machinev1.NodeFinalizer},
		},
		Spec: corev1.NodeSpec{ProviderID: "sim:///zone-a/i-" + name},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: testVersion},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				LastTransitionTime: testBirth,
			}},
		},
	}
}

// toCluster is how the tests move pools.
func toCluster() Options { return Options{To: DoorClusterAPI, Cluster: "shoot"} }

// atWork takes off objects of Cluster API what keeps them at rest.
func atWork(c ClusterAPI) ClusterAPI {
	s := &Scene{ClusterAPI: c}
	for _, tier := range s.tiers(DoorClusterAPI) {
		for _, o := range tier {
			delete(o.GetAnnotations(), clusterv1.PausedAnnotation)
			delete(o.GetAnnotations(), machinev1.RetainVMAnnotation)
		}
	}
	return s.ClusterAPI
}

// made is c as the API server would have it: with UIDs, and owners with theirs.
func made(c ClusterAPI) ClusterAPI {
	id := func(o *metav1.ObjectMeta) {
		o.UID = types.UID("made-" + o.Name)
		for i := range o.OwnerReferences {
			o.OwnerReferences[i].UID = types.UID("made-" + o.OwnerReferences[i].Name)
		}
	}
	if c.Deployment != nil {
		id(&c.Deployment.ObjectMeta)
	}
	for i := range c.Sets {
		id(&c.Sets[i].ObjectMeta)
	}
	for i := range c.Machines {
		id(&c.Machines[i].ObjectMeta)
		c.Machines[i].Status.NodeRef.Name = "node-of-" + c.Machines[i].Name
	}
	for i := range c.MCMMachines {
		id(&c.MCMMachines[i].ObjectMeta)
	}
	return c
}
