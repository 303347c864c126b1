package index

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// The indexes of the infrastructure kinds, for client.MatchingFields.
const (
	MCMMachineByClass      = "index.mcm-class"      // MCMMachine: spec.machineClassRef.name, and the class of its VM
	MCMMachineByCluster    = "index.mcm-cluster"    // MCMMachine: label of the Cluster's name
	MCMMachineByProviderID = "index.mcm-providerid" // MCMMachine: spec.providerID
	MCMMachineByOwnerID    = "index.mcm-owner-id"   // MCMMachine: durable owner id
	MCMMachineByName       = "index.mcm-name"       // MCMMachine: name, in all namespaces
	MCMClusterByOwnerID    = "index.mcm-cluster-id" // MCMCluster: durable owner id
	TemplateByClass        = "index.mcm-template"   // MCMMachineTemplate: machineClassRef.name
	MachineByBootstrapData = "index.mcm-data"       // Machine of Cluster API: bootstrap.dataSecretName
)

// Infrastructure are the indexes of the control cluster that the infrastructure
// controllers and the collector of orphans need, besides ClassBySecret.
func Infrastructure() []Index {
	machine := func(field string, values func(*infrav1.MCMMachine) []string) Index {
		return Index{&infrav1.MCMMachine{}, field, func(o client.Object) []string { return values(o.(*infrav1.MCMMachine)) }}
	}
	return []Index{
		machine(MCMMachineByClass, ClassesOf),
		machine(MCMMachineByProviderID, func(m *infrav1.MCMMachine) []string { return one(m.Spec.ProviderID) }),
		machine(MCMMachineByOwnerID, func(m *infrav1.MCMMachine) []string { return one(machinev1.OwnerID(m)) }),
		machine(MCMMachineByName, func(m *infrav1.MCMMachine) []string { return one(m.Name) }),
		{&infrav1.MCMMachine{}, MCMMachineByCluster, label(clusterv1.ClusterNameLabel)},
		{&infrav1.MCMCluster{}, MCMClusterByOwnerID, func(o client.Object) []string {
			return one(o.GetAnnotations()[machinev1.OwnerIDAnnotation])
		}},
		{&infrav1.MCMMachineTemplate{}, TemplateByClass, func(o client.Object) []string {
			return one(o.(*infrav1.MCMMachineTemplate).Spec.Template.Spec.MachineClassRef.Name)
		}},
		{&clusterv1.Machine{}, MachineByBootstrapData, func(o client.Object) []string {
			if name := o.(*clusterv1.Machine).Spec.Bootstrap.DataSecretName; name != nil {
				return one(*name)
			}
			return nil
		}},
	}
}

// ClassesOf are the names of the classes that m needs: that of its VM, and that
// which its spec names.
func ClassesOf(m *infrav1.MCMMachine) []string {
	names := one(m.Spec.MachineClassRef.Name)
	if made := m.Annotations[infrav1.MadeFromAnnotation]; made != "" && made != m.Spec.MachineClassRef.Name {
		names = append(names, made)
	}
	return names
}
