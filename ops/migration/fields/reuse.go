package fields

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// keepDeployment goes on from the MachineDeployment that there is.
func (c *toClusterAPI) keepDeployment() {
	have, want, source := c.ClusterAPI.Deployment, c.out.Deployment, c.Native.Deployment
	if have == nil {
		return
	}
	spec := have.Spec.DeepCopy()
	spec.Replicas, spec.Paused = want.Spec.Replicas, want.Spec.Paused
	strategy, paused := strategyToNative(have.Spec.Rollout.Strategy, source.Spec.Strategy)
	if paused {
		spec.Paused = have.Spec.Paused // it says so with its strategy
	}
	if !apiequality.Semantic.DeepEqual(strategy, source.Spec.Strategy) {
		spec.Rollout.Strategy = want.Spec.Rollout.Strategy
	}
	c.keepTemplate(&spec.Template, &want.Spec.Template, &source.Spec.Template)
	want.Spec = *spec
	want.Labels, want.Annotations = objects.Merge(have.Labels, want.Labels),
		objects.Merge(have.Annotations, want.Annotations)
	want.Annotations[machinev1.MigratedFromAnnotation] = objects.CopyOf(machinev1.MachineDeploymentKind, source)
}

// keepSet goes on from the MachineSet that there is. The current one has the
// template of its deployment.
func (c *toClusterAPI) keepSet(want *clusterv1.MachineSet, source *machinev1.MachineTemplateSpec, current bool) {
	have := objects.Find(c.ClusterAPI.Sets, want.Name)
	if have != nil {
		spec := have.Spec.DeepCopy()
		spec.Replicas = want.Spec.Replicas
		c.keepTemplate(&spec.Template, &want.Spec.Template, source)
		want.Spec = *spec
		want.Labels = objects.Merge(have.Labels, want.Labels)
	}
	if current && c.out.Deployment != nil {
		head := &c.out.Deployment.Spec.Template.Spec
		into := &want.Spec.Template.Spec
		into.Version, into.FailureDomain = head.Version, head.FailureDomain
		into.Bootstrap, into.InfrastructureRef = head.Bootstrap, head.InfrastructureRef
	}
}

// keepTemplate changes have in what want says otherwise, and in nothing that only
// Cluster API knows.
func (c *toClusterAPI) keepTemplate(have, want *clusterv1.MachineTemplateSpec, source *machinev1.MachineTemplateSpec) {
	back := newToNative(c.PoolState, c.options)
	is := source.DeepCopy()
	back.template(is, have, nil)
	hash, hashed := have.Labels[clusterv1.MachineDeploymentUniqueLabel]
	have.Labels = objects.Merge(have.Labels, want.Labels)
	if hashed {
		have.Labels[clusterv1.MachineDeploymentUniqueLabel] = hash
	}
	have.Annotations = want.Annotations
	if !apiequality.Semantic.DeepEqual(is.Spec.MachineConfiguration, source.Spec.MachineConfiguration) {
		have.Spec.Deletion.NodeDrainTimeoutSeconds = want.Spec.Deletion.NodeDrainTimeoutSeconds
	}
	have.Spec.MinReadySeconds = want.Spec.MinReadySeconds
	if is.Spec.Class.Name != source.Spec.Class.Name {
		have.Spec.Version, have.Spec.Bootstrap, have.Spec.InfrastructureRef = want.Spec.Version, want.Spec.Bootstrap,
			want.Spec.InfrastructureRef
	} else if !sameNodeTemplate(&is.Spec.NodeTemplateSpec, &source.Spec.NodeTemplateSpec) {
		have.Spec.InfrastructureRef = want.Spec.InfrastructureRef
	}
}

// sameNodeTemplate compares what is applied of two node templates.
func sameNodeTemplate(a, b *machinev1.NodeTemplateSpec) bool {
	return apiequality.Semantic.DeepEqual(nodeTemplateToClusterAPI(a), nodeTemplateToClusterAPI(b))
}

// dropUnused leaves out templates that nothing names.
func (c *toClusterAPI) dropUnused() {
	used := map[string]bool{}
	use := func(t *clusterv1.MachineTemplateSpec) {
		used[t.Spec.InfrastructureRef.Kind+"/"+t.Spec.InfrastructureRef.Name] = true
		used[t.Spec.Bootstrap.ConfigRef.Kind+"/"+t.Spec.Bootstrap.ConfigRef.Name] = true
	}
	if c.out.Deployment != nil {
		use(&c.out.Deployment.Spec.Template)
	}
	for i := range c.out.Sets {
		use(&c.out.Sets[i].Spec.Template)
	}
	c.out.MachineTemplates = slices.DeleteFunc(c.out.MachineTemplates, func(t infrav1.MCMMachineTemplate) bool {
		return !used[objects.KindMCMMachineTemplate+"/"+t.Name]
	})
	c.out.ConfigTemplates = slices.DeleteFunc(c.out.ConfigTemplates, func(t bootstrapv1.MCMConfigTemplate) bool {
		return !used[objects.KindMCMConfigTemplate+"/"+t.Name]
	})
}

// knownProviderID is what the MCMMachine that there is already calls the VM of m;
// empty if there is none, or it has another VM.
func (c *toClusterAPI) knownProviderID(m *machinev1.Machine) string {
	if c.known == nil {
		c.known = map[string]string{}
		for i := range c.ClusterAPI.MCMMachines {
			c.known[c.ClusterAPI.MCMMachines[i].Name] = c.ClusterAPI.MCMMachines[i].Spec.ProviderID
		}
	}
	if id := c.known[m.Name]; id != "" && objects.SameVM(id, m.Spec.ProviderID) {
		return id
	}
	return ""
}
