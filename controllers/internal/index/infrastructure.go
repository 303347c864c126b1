package index

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// The indexes of the infrastructure kinds, for client.MatchingFields.
const (
	MCMMachineByClass      = "index.mcm-class"      // MCMMachine: the classes that its spec names, and that of its VM
	MCMMachineByCluster    = "index.mcm-cluster"    // MCMMachine: label of the Cluster's name
	MCMMachineByProviderID = "index.mcm-providerid" // MCMMachine: spec.providerID
	MCMMachineByOwnerID    = "index.mcm-owner-id"   // MCMMachine: durable owner id
	MCMMachineByName       = "index.mcm-name"       // MCMMachine: name, in all namespaces
	MCMClusterByOwnerID    = "index.mcm-cluster-id" // MCMCluster: durable owner id
	TemplateByClass        = "index.mcm-template"   // MCMMachineTemplate: the classes that it names
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
			return TemplateClasses(o.(*infrav1.MCMMachineTemplate))
		}},
		{&clusterv1.Machine{}, MachineByBootstrapData, func(o client.Object) []string {
			if name := o.(*clusterv1.Machine).Spec.Bootstrap.DataSecretName; name != nil {
				return one(*name)
			}
			return nil
		}},
	}
}

// ClassesOf are the names of the classes that m needs: that of its VM, and those
// which its spec names.
func ClassesOf(m *infrav1.MCMMachine) []string {
	names := named(&m.Spec)
	if made := m.Annotations[infrav1.MadeFromAnnotation]; made != "" && !slices.Contains(names, made) {
		names = append(names, made)
	}
	return names
}

// TemplateClasses are the names of the classes that the machines of a template may have.
func TemplateClasses(t *infrav1.MCMMachineTemplate) []string { return named(&t.Spec.Template.Spec) }

// named are the names of the classes that a spec names; an empty one is none.
func named(spec *infrav1.MCMMachineSpec) []string {
	return slices.DeleteFunc(spec.ClassNames(), func(name string) bool { return name == "" })
}
